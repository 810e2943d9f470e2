"""HttpServer: the HTTP connections of one listener; admission, token, routes, turns.

    accepted ─► too many? ── yes ─► one that was idle for a second makes room, else 503 and close
                   │ no
                   ▼
    request ─► token missing: 401, wrong: 403 ─► no such path: 404 ─► neither GET nor HEAD: 405
                   │
                   ▼
    route ─► a response whose body is produced slice by slice

Nothing here is on the way of Kafka's requests: however many HTTP clients there are, one step of one
of them runs in a round of the reactor, in turn. They have a quota of descriptors of their own.

Tests: unit/network/test_http_server.py, unit/network/test_bad_http.py
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from odradek.model.env import Clock, Network, Transport
from odradek.network.http_connection import (
    HttpConnection,
    HttpCounters,
    HttpLimits,
    HttpRequest,
    HttpResponse,
)
from odradek.network.server import BugHook
from odradek.timing.timer import SystemTimer

log = logging.getLogger(__name__)

Route = Callable[[], HttpResponse]
"""Makes the response to a GET of one path."""

ACCEPTS_PER_ROUND: Final = 8
REST_MS: Final = 10
"""Connections accepted in a round of the reactor, and the time until there may be more: to refuse
one costs some 50 microseconds, so a flood takes a twentieth of the loop.
"""
MAKES_ROOM_AFTER_MS: Final = 1_000
METHODS: Final = (b"GET", b"HEAD")
TOO_MANY: Final = b"too many HTTP connections; try again later\n"
BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
) % (len(TOO_MANY), TOO_MANY)
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


class HttpServer:
    """Serves GET and HEAD of `routes` by path. Owner thread only.

    `accepted` takes each new connection of a listener. With a `token`, every request must have it.
    """

    def __init__(
        self,
        network: Network,
        call_soon: Callable[[Callable[[], None]], None],
        timer: SystemTimer,
        clock: Clock,
        routes: Mapping[str, Route],
        *,
        token: str | None = None,
        limits: HttpLimits | None = None,
        on_bug: BugHook | None = None,
    ) -> None:
        self.network = network
        self.timer = timer
        self.routes = routes
        self.limits = limits or HttpLimits()
        self.counters = HttpCounters()
        self.bugs = 0
        self.connections: dict[int, HttpConnection] = {}
        """The open ones, oldest first."""
        self._call_soon = call_soon
        self._clock = clock
        self._is_token: Callable[[bytes], bool] | None = None
        if token is not None:
            # The time of this comparison does not depend on how much of the token is right.
            from hmac import compare_digest  # Only here: it imports OpenSSL's hashes.

            right = token.encode()
            self._is_token = lambda given: compare_digest(given, right)
        self._on_bug = on_bug
        self._next_id = 0
        self._turns: deque[HttpConnection] = deque()

    # Connections.

    def accepted(self, transport: Transport) -> None:
        """Admit a new connection, or refuse it."""
        if len(self.connections) >= self.limits.max_connections and not self._make_room():
            self._refuse(transport)
            return
        self.counters.connections_accepted += 1
        self._next_id += 1
        connection = HttpConnection(self, transport, self._next_id)
        self.connections[connection.id] = connection
        connection.start()

    def _make_room(self) -> bool:
        """Close the connection that has been idle for longest, if that is long enough."""
        idlest = max(self.connections.values(), key=HttpConnection.idle_ms)
        if idlest.idle_ms() < MAKES_ROOM_AFTER_MS:
            return False
        idlest.close("idle, and others want to connect")
        return True

    def _refuse(self, transport: Transport) -> None:
        self.counters.connections_refused += 1
        try:
            transport.send([BUSY])
        except OSError as error:
            log.debug("a refused HTTP connection was lost: %s", error)
        transport.close()

    def connection_closed(self, connection: HttpConnection) -> None:
        """Remove a closed connection."""
        del self.connections[connection.id]

    def close(self) -> None:
        """Close all connections; unsent responses are dropped."""
        for connection in list(self.connections.values()):
            connection.close("the broker stops")

    # Turns.

    def want_turn(self, connection: HttpConnection) -> None:
        """Give a connection a turn after those that already wait for one."""
        if connection.has_turn:
            return
        connection.has_turn = True
        self._turns.append(connection)
        if len(self._turns) == 1:
            self._call_soon(self._run_turn)

    def _run_turn(self) -> None:
        connection = self._turns.popleft()
        if self._turns:
            self._call_soon(self._run_turn)
        connection.has_turn = False
        if connection.closed:
            return
        try:
            connection.run_step()
        except Exception as error:
            self.bug(f"serving HTTP to {connection}", error)
            connection.close("a bug")

    def bug(self, where: str, error: Exception) -> None:
        """Log and count an exception that must not happen, and call the hook."""
        self.bugs += 1
        log.error("a bug while %s", where, exc_info=error)
        if self._on_bug is not None:
            self._on_bug(where, error)

    # Requests.

    def answer(self, request: HttpRequest) -> HttpResponse:
        """The response to a request."""
        refusal = self._authorise(request)
        if refusal is not None:
            return refusal
        path = request.path()
        route = self.routes.get(path)
        if route is None:
            return HttpResponse.text(404, f"there is no {path}; there are {', '.join(self.routes)}")
        if request.method not in METHODS:
            method = request.method.decode("ascii", "replace")
            return HttpResponse.text(405, f"{method}: only GET and HEAD", ("Allow", "GET, HEAD"))
        try:
            return route()
        except Exception as error:
            self.bug(f"answering {path}", error)
            return HttpResponse.text(500, "a bug; the broker's log has the details")

    def _authorise(self, request: HttpRequest) -> HttpResponse | None:
        if self._is_token is None:
            return None
        given = request.values(b"authorization")
        if not given:
            return HttpResponse.text(
                401,
                "a token is needed: Authorization: Bearer TOKEN",
                ("WWW-Authenticate", 'Bearer realm="odradek"'),
            )
        scheme, _, token = given[0].partition(b" ")
        is_right = self._is_token(token.strip())
        if len(given) == 1 and scheme.lower() == b"bearer" and is_right:
            return None
        return HttpResponse.text(403, "the token is wrong")

    def date(self) -> str:
        """The present time in the form of the Date header, in any locale."""
        now = time.gmtime(self._clock.wall_ms() // 1000)
        return (
            f"{DAYS[now.tm_wday]}, {now.tm_mday:02} {MONTHS[now.tm_mon - 1]} {now.tm_year} "
            f"{now.tm_hour:02}:{now.tm_min:02}:{now.tm_sec:02} GMT"
        )
