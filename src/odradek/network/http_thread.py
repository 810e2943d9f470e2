"""Answers HTTP on a thread of its own, while the owner thread cannot.

A broker that starts is busy on its owner thread until all logs are open, which takes minutes if
many must be recovered. Whoever watches it should learn that it starts. The thread has a reactor, a
timer and connections that nothing else uses; it accepts from a copy of the listening socket, which
stays open when the thread ends.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping

from odradek.network.http_connection import HttpLimits
from odradek.network.http_server import ACCEPTS_PER_ROUND, REST_MS, HttpServer, Route
from odradek.network.listener import TcpServerSocket
from odradek.network.reactor import Reactor, SystemClock
from odradek.timing.timer import SystemTimer


class HttpThread:
    """Serves `routes` from construction until `stop`."""

    def __init__(
        self,
        listening: socket.socket,
        routes: Mapping[str, Route],
        token: str | None,
        limits: HttpLimits,
    ) -> None:
        clock = SystemClock()
        timer = SystemTimer(clock.monotonic_ms())
        self._reactor = Reactor(clock, timer)
        self._server = HttpServer(
            self._reactor,
            self._reactor.call_soon,
            timer,
            clock,
            routes,
            token=token,
            limits=limits,
        )
        self._listening = TcpServerSocket(
            self._reactor,
            timer,
            listening.dup(),
            self._server.accepted,
            ACCEPTS_PER_ROUND,
            REST_MS,
        )
        self._thread = threading.Thread(target=self._run, name="odradek-http-start", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._reactor.run()
        self._listening.close()
        self._server.close()
        self._reactor.close()

    def stop(self) -> None:
        """Close the connections and wait for the end of the thread."""
        self._reactor.stop()
        self._thread.join()
