"""Broker settings of connections to other brokers: names, meanings and defaults are Kafka's."""

from __future__ import annotations

from odradek.config.setting import at_least, integer, long
from odradek.config.settings import Settings


class BrokerConnectionSettings(Settings):
    """Connections to other brokers and to the controller. One broker alone makes none."""

    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        at_least(1),
        doc="The time to wait for a connection to another broker. It doubles with every attempt "
        "in a row that found no connection, up to "
        "socket.connection.setup.timeout.max.ms, and varies by 20 %.",
    )
    socket_connection_setup_timeout_max_ms = long(
        "socket.connection.setup.timeout.max.ms",
        30_000,
        at_least(1),
        doc="The longest time to wait for a connection to another broker.",
    )
    controller_quorum_request_timeout_ms = integer(
        "controller.quorum.request.timeout.ms",
        2_000,
        at_least(1),
        doc="The time to wait for the answer to a request of the metadata quorum.",
    )
    controller_socket_timeout_ms = integer(
        "controller.socket.timeout.ms",
        30_000,
        at_least(1),
        doc="The time to wait for the answer to a request to the active controller.",
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms",
        30_000,
        at_least(1),
        doc="The time to wait for the answer to a follower's request to the leader.",
    )
    replica_socket_receive_buffer_bytes = integer(
        "replica.socket.receive.buffer.bytes",
        -1,
        at_least(-1),
        doc="The size of the receive buffer of a follower's connections (SO_RCVBUF); -1: the "
        "operating system adapts it. Kafka's default is 65536. Linux doubles a given size, up to "
        "net.core.rmem_max, and then no longer adapts it.",
    )
