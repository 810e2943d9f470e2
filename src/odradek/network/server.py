"""SocketServer: the connections of one or several listeners; admission, registry, shutdown.

    accepted ─► too many in total, or from this address? ── yes ─► closed at once
                        │ no
                        ▼
              Connection, reported to the handler, in `connections` until it is closed

`listener`, or a simulated network, accepts connections; the handler interprets requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.model.env import SYSTEM_BUFFERS, Network, ServerSocket, SocketBuffers, Transport
from odradek.network.connection import Connection, ConnectionLimits, Handler, NetworkCounters
from odradek.network.violation_log import ViolationLog
from odradek.timing.timer import SystemTimer

log = logging.getLogger(__name__)

REFUSED_LOG_MS = 10_000
"""At most one log line about refused connections in this time."""

BugHook = Callable[[str, Exception], None]
"""Called with the place and the exception of a bug, after it was logged and counted."""


class SocketServer:
    """Serves the connections of a `Network` with one handler. For the owner thread only."""

    def __init__(
        self,
        network: Network,
        call_soon: Callable[[Callable[[], None]], None],
        timer: SystemTimer,
        handler: Handler,
        limits: ConnectionLimits | None = None,
        on_bug: BugHook | None = None,
    ) -> None:
        self.network = network
        self.call_soon = call_soon
        self.timer = timer
        self.handler = handler
        self.received = handler.received
        self.limits = limits or ConnectionLimits()
        """May be replaced at any time; a connection keeps the deadlines it began with."""
        self.counters = NetworkCounters()
        self.connections: dict[int, Connection] = {}
        """The open ones, oldest first."""
        self.violation_log = ViolationLog(timer)
        self.on_bug = on_bug
        self._per_address: dict[str, int] = {}
        self._next_id = 0
        self._listening: list[ServerSocket] = []
        self._early: list[Transport] | None = None
        """Connections that wait for `admit`; None if none has to wait."""
        self._refused_logged_ms: int | None = None
        self._refused_unlogged = 0

    def listen(self, host: str, port: int, buffers: SocketBuffers = SYSTEM_BUFFERS) -> ServerSocket:
        """Accept connections at an address; port 0 is any free port.

        Raises `OSError` (`AddressInUseError`, `CannotListenError`).
        """
        listening = self.network.listen(host, port, self._accepted, buffers)
        self._listening.append(listening)
        return listening

    def hold_back(self) -> None:
        """Let new connections wait, without reading from them, until `admit`."""
        self._early = []

    def admit(self) -> None:
        """Serve the connections that wait, and from now on all others at once."""
        waiting, self._early = self._early or [], None
        for transport in waiting:
            self._accepted(transport)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    def close(self, reason: str = "the broker stops") -> None:
        """Stop accepting and close all connections; unsent responses are dropped."""
        self.stop_accepting()
        for transport in self._early or []:
            transport.close()
        for connection in list(self.connections.values()):
            connection.close(reason)

    def _accepted(self, transport: Transport) -> None:
        if self._early is not None:
            if len(self._early) < self.limits.max_connections:
                self._early.append(transport)
            else:
                self._refuse(transport, f"max.connections={self.limits.max_connections}")
            return
        address = transport.peer[0]
        of_address = self._per_address.get(address, 0)
        if len(self.connections) >= self.limits.max_connections:
            self._refuse(transport, f"max.connections={self.limits.max_connections}")
            return
        if of_address >= self.limits.max_connections_per_ip:
            self._refuse(transport, f"max.connections.per.ip={self.limits.max_connections_per_ip}")
            return
        self.counters.connections_accepted += 1
        self._next_id += 1
        connection = Connection(self, transport, self._next_id)
        self._per_address[address] = of_address + 1
        self.connections[connection.id] = connection
        connection.start()
        try:
            self.handler.connected(connection)
        except Exception as error:
            self.bug(f"admitting the connection of {connection}", error)
            connection.close("a bug in the handler")

    def _refuse(self, transport: Transport, limit: str) -> None:
        self.counters.connections_refused += 1
        self._refused_unlogged += 1
        address = transport.peer[0]
        transport.close()
        now_ms = self.timer.now_ms
        if self._refused_logged_ms is None or now_ms - self._refused_logged_ms >= REFUSED_LOG_MS:
            count, self._refused_unlogged = self._refused_unlogged, 0
            self._refused_logged_ms = now_ms
            log.warning("refused %d connections, the last from %s: %s", count, address, limit)

    def connection_closed(self, connection: Connection) -> None:
        """Remove a closed connection.

        The handler is notified after the current event, not within a call that it made.
        """
        del self.connections[connection.id]
        self.counters.connections_closed += 1
        address = connection.peer[0]
        left = self._per_address[address] - 1
        if left:
            self._per_address[address] = left
        else:
            del self._per_address[address]
        self.call_soon(lambda: self._notify_disconnected(connection))

    def _notify_disconnected(self, connection: Connection) -> None:
        try:
            self.handler.disconnected(connection)
        except Exception as error:
            self.bug(f"closing the connection of {connection}", error)

    def bug(self, where: str, error: Exception) -> None:
        """Log and count an exception that must not happen, and call the hook."""
        self.counters.bugs += 1
        log.error("a bug while %s", where, exc_info=error)
        if self.on_bug is not None:
            self.on_bug(where, error)
