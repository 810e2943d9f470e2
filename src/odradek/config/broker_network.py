"""Broker settings about connections and requests: addresses, limits, sizes of queues and
purgatories.
"""

from __future__ import annotations

from odradek.config.checks import at_least, between, matching
from odradek.config.listeners import LISTENER_PATTERN
from odradek.config.setting import INT_MAX, MIB, Update, integer, long, strings
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
        doc="Where to listen. Loopback unless told otherwise. No host and `0.0.0.0` mean every "
        "IPv4 interface, `[::]` every interface; port 0 takes any free one.",
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
        "behind a port mapping or a proxy, or if this machine has several addresses. Empty: the "
        "listeners themselves; where those are every interface, the address of this machine by "
        "which it reaches others. Port 0 stands for the port that is listened on.",
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * MIB,
        at_least(1),
        doc="The largest request. A connection that announces a larger one is closed.",
    )
    first_request_max_bytes = integer(
        "first.request.max.bytes",
        64 * 1024,
        between(1024, INT_MAX),
        ours=True,
        doc="The largest first request of a connection: strangers announce what they like.",
    )
    first_request_timeout_ms = long(
        "first.request.timeout.ms",
        10_000,
        at_least(1),
        ours=True,
        doc="Time for the first whole request of a connection to arrive; then it is closed.",
    )
    stalled_connection_timeout_ms = long(
        "stalled.connection.timeout.ms",
        30_000,
        at_least(1),
        ours=True,
        doc="A client that takes none of its answer for this long is disconnected.",
    )
    max_requests_per_connection = integer(
        "max.requests.per.connection",
        64,
        at_least(1),
        ours=True,
        doc="Requests of one connection that may wait for their answers; then it is not read from.",
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
        at_least(1),
        update=ANYTIME,
        doc="Connections at one time from one address.",
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
