"""Broker settings about connections and requests: addresses, limits, sizes of queues and
purgatories.
"""

from __future__ import annotations

from odradek.config.checks import at_least, matching
from odradek.config.listeners import LISTENER_PATTERN
from odradek.config.setting import INT_MAX, MIB, Update, integer, long, string, strings
from odradek.config.settings import Settings

ANYTIME = Update.CLUSTER_WIDE


class NetworkSettings(Settings):
    """Listeners, connections and requests."""

    listeners = strings(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        matching(
            LISTENER_PATTERN,
            "expected PLAINTEXT://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092 or "
            "PLAINTEXT://[::1]:9092",
            "`PLAINTEXT://HOST:PORT`",
        ),
        doc="Where to listen. Loopback unless told otherwise. No host means every interface; port "
        "0 takes any free one.",
    )
    advertised_listeners = strings(
        "advertised.listeners",
        (),
        matching(
            LISTENER_PATTERN,
            "expected PLAINTEXT://HOST:PORT as clients reach it",
            "`PLAINTEXT://HOST:PORT`",
        ),
        doc="What clients are told to connect to, where that is not the address of listeners: "
        "behind a port mapping "
        "or a proxy. Empty: the listeners themselves.",
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * MIB,
        at_least(1),
        doc="The largest request. A connection that announces a larger one is closed.",
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        100 * 1024,
        doc="Size of a socket's send buffer; -1 for the operating system's own.",
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        100 * 1024,
        doc="Size of a socket's receive buffer; -1 for the operating system's own.",
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        50,
        at_least(1),
        doc="Connections that the operating system may hold for us before they are accepted.",
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        600_000,
        doc="A connection on which nothing happens for this long is closed; -1 for never.",
    )
    max_connections = integer(
        "max.connections",
        INT_MAX,
        at_least(0),
        update=ANYTIME,
        doc="Connections at one time. Above it new ones are closed at once.",
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        INT_MAX,
        at_least(0),
        update=ANYTIME,
        doc="Connections at one time from one address.",
    )
    max_connections_per_ip_overrides = string(
        "max.connections.per.ip.overrides",
        "",
        matching(
            r"(\s*[^,\s]+:[0-9]{1,9}\s*(,|$))*",
            "expected ADDRESS:COUNT pairs separated by commas",
            "`ADDRESS:COUNT,...`",
        ),
        update=ANYTIME,
        doc="Addresses with a limit of their own instead of max.connections.per.ip.",
    )
    queued_max_requests = integer(
        "queued.max.requests",
        500,
        at_least(1),
        doc="Requests of one connection that may be waiting for their answer; then it is not read "
        "from.",
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        -1,
        doc="Bytes of requests in memory above which connections are not read from; -1 for no "
        "limit.",
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * MIB,
        at_least(1024),
        doc="The most a fetch response carries, whatever its request asks for; its first batch is "
        "sent whole.",
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least(0),
        doc="Incremental fetch sessions that are remembered (KIP-227).",
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        at_least(1),
        doc="Partitions in one DescribeTopicPartitions response; the rest follow with its cursor.",
    )
    producer_purgatory_purge_interval_requests = integer(
        "producer.purgatory.purge.interval.requests",
        1000,
        doc="Completed produce requests after which their watchers are swept out.",
    )
    fetch_purgatory_purge_interval_requests = integer(
        "fetch.purgatory.purge.interval.requests",
        1000,
        doc="Completed fetch requests after which their watchers are swept out.",
    )
    delete_records_purgatory_purge_interval_requests = integer(
        "delete.records.purgatory.purge.interval.requests",
        1,
        doc="Completed delete-records requests after which their watchers are swept out.",
    )
