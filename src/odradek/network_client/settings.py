"""NetworkClientSettings: what a `NetworkClient` has to know of its user's configuration.

The names, units and meanings are those of Kafka's clients. A broker's connections to other nodes
have the same settings with values of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from odradek.config.client import ClientConfig
from odradek.model.env import SYSTEM_BUFFERS, SocketBuffers

PENDING_MAX = 1000


@dataclass(frozen=True, slots=True)
class NetworkClientSettings:
    """Names and limits of all connections of one `NetworkClient`; times in ms."""

    client_id: str
    request_timeout_ms: int
    connections_max_idle_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    max_in_flight: int
    """max.in.flight.requests.per.connection."""
    buffers: SocketBuffers = SYSTEM_BUFFERS
    max_pending: int = PENDING_MAX
    """The maximum of requests that wait for one connection; a further one fails at once."""
    leave_old_address: bool = False
    """A node that moved is disconnected at once, not only when its connection ends. For nodes whose
    new address is certain: a broker that restarted elsewhere may have left its connection open."""

    @classmethod
    def of_client(cls, config: ClientConfig, max_in_flight: int) -> Self:
        """Return the settings of a client of applications."""
        return cls(
            config.client_id,
            config.request_timeout_ms,
            config.connections_max_idle_ms,
            config.reconnect_backoff_ms,
            config.reconnect_backoff_max_ms,
            config.socket_connection_setup_timeout_ms,
            config.socket_connection_setup_timeout_max_ms,
            max_in_flight,
            SocketBuffers(config.send_buffer_bytes, config.receive_buffer_bytes),
        )
