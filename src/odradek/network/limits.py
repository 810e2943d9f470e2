"""The bounds of one connection and of all of them, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class ConnectionLimits:
    """Bytes and milliseconds; the defaults suit a broker that trusts its clients as Kafka does."""

    max_request_bytes: int = 100 * 1024 * 1024
    """Kafka's `socket.request.max.bytes`."""
    max_first_request_bytes: int = 64 * 1024
    """The same, until a first request was taken."""
    first_request_timeout_ms: int = 10_000
    """For the first whole request to arrive."""
    max_idle_ms: int = 600_000
    """Kafka's `connections.max.idle.ms`; below 0: never."""
    stalled_timeout_ms: int = 30_000
    """With output waiting and no byte taken by the client."""
    max_in_progress: int = 64
    """Requests of one connection not yet answered."""
    max_queued_bytes: int = 1024 * 1024
    """Output of one connection, above which its requests are no longer read."""
    frames_per_turn: int = 64
    bytes_per_turn: int = 1024 * 1024
    """Output sent for one connection before the others have their turn."""
    max_connections: int = 2**31 - 1
    """Kafka's `max.connections`."""
    max_connections_per_ip: int = 2**31 - 1
    """Kafka's `max.connections.per.ip`."""


@dataclass(slots=True)
class NetworkCounters:
    """Totals since the start, for metrics."""

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    connections_accepted: int = 0
    connections_closed: int = 0
    connections_refused: int = 0
    """Above a limit on connections."""
    violations: int = 0
    """Connections closed for what the client sent."""
    idle_closed: int = 0
    stalled_closed: int = 0
    bugs: int = 0
