"""One HTTP connection: a request at a time, its answer a body in slices, all bounded.

                 first byte               head and body complete
    idle ───────────────────► request ────────────────────────────► response ──► idle, or close
                                 │ refused before it is complete        ▲
                                 └──────► response, then linger ────────┘

The head of a request is cut here, so that its bytes and lines are limited before anything parses
it; h11 then checks it and frames the response. No resource has a use for a body: a short one is
read and dropped, others are refused. While a response is in progress nothing more is read, so
pipelined requests wait in the socket and are answered in order.

The body of a response is an iterator of slices. The next slice is taken when the client has taken
the last one, so a page is never in memory as a whole. Parsing a request and producing a slice are
the steps that cost time: each is one `turn`, and `HttpServer` gives one turn in each round of the
reactor to all connections together. A slice should take about a millisecond.

A connection is closed, once, if a whole request does not arrive in `request_timeout_ms` after its
first byte (or the connection's), after `idle_timeout_ms` between requests, after
`stalled_timeout_ms` without a byte taken, after `response_timeout_ms` in one response, and when the
client breaks the protocol. One timer has the earliest of these deadlines. After a refusal the rest
of the request is read and dropped for `linger_ms`, or a reset could reach the client before the
answer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11

from odradek.config.addresses import address_text
from odradek.model.env import Transport
from odradek.network.output import BLOCKED, YIELDED, OutputQueue
from odradek.timing.timer_task import TimerTask

if TYPE_CHECKING:
    from odradek.network.http_server import HttpServer

log = logging.getLogger(__name__)

Headers = Sequence[tuple[bytes, bytes]]

RECEIVE_BYTES: Final = 4096
END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
FLUSH_BYTES: Final = 256 * 1024
"""Output sent in one turn."""
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(slots=True, frozen=True)
class HttpLimits:
    """Limits of HTTP connections, in bytes and milliseconds."""

    max_connections: int = 64
    max_head_bytes: int = 8 * 1024
    max_head_lines: int = 100
    """Lines of a head. Each costs a few microseconds to parse."""
    max_body_bytes: int = 16 * 1024
    """A body up to this length is read and dropped, a longer one is refused."""
    request_timeout_ms: int = 10_000
    idle_timeout_ms: int = 90_000
    """Longer than the minute after which Prometheus scrapes again by default."""
    stalled_timeout_ms: int = 30_000
    response_timeout_ms: int = 120_000
    linger_ms: int = 1_000


@dataclass(slots=True)
class HttpCounters:
    """Totals since the start, for metrics."""

    connections_accepted: int = 0
    connections_refused: int = 0
    """Connections answered with 503 because there were too many."""
    requests: int = 0
    refused: int = 0
    """Requests answered with a status from 400."""
    timed_out: int = 0
    bytes_out: int = 0


@dataclass(slots=True, frozen=True)
class HttpRequest:
    """The parsed head of a request."""

    method: bytes
    target: bytes
    headers: Headers

    def path(self) -> str:
        """The path of the target, without the query; of the absolute form (RFC 9112) too."""
        target = self.target
        if not target.startswith(b"/"):
            scheme, separator, rest = target.partition(b"://")
            if not separator or scheme.lower() not in (b"http", b"https"):
                return target.decode("ascii", "replace")
            _, slash, path = rest.partition(b"/")
            target = slash + path or b"/"
        return target.partition(b"?")[0].decode("ascii", "replace")

    def values(self, name: bytes) -> list[bytes]:
        """The values of all headers of this lower-case name."""
        return [value for header, value in self.headers if header == name]


@dataclass(slots=True)
class HttpResponse:
    """A status and a body in slices, which is produced while it is sent."""

    status: int
    body: Iterator[bytes]
    content_type: str = TEXT
    length: int | None = None
    """The length of the body if it is known, else None."""
    headers: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def text(cls, status: int, text: str, *headers: tuple[str, str]) -> HttpResponse:
        """A short answer in plain text."""
        data = f"{text}\n".encode()
        return cls(status, iter([data]), length=len(data), headers=list(headers))

    def discard(self) -> None:
        """End a body that is not sent to its end."""
        close = getattr(self.body, "close", None)  # Generators have it.
        if close is not None:
            close()


class HttpPhase(Enum):
    """What a connection waits for; see the module's diagram."""

    IDLE = "no request in time"
    REQUEST = "the request did not arrive in time"
    RESPONSE = "the response was not taken in time"
    LINGER = "the rest of a refused request was dropped"


class HttpConnection:
    """The connection of an HTTP client. `HttpServer` makes it. Owner thread only."""

    __slots__ = (
        "_blocked",
        "_body_left",
        "_closing",
        "_deadline",
        "_ended",
        "_h11",
        "_input",
        "_output",
        "_phase",
        "_progress_ms",
        "_reading",
        "_request",
        "_response",
        "_scanned",
        "_server",
        "_since_ms",
        "_transport",
        "_writing",
        "closed",
        "has_turn",
        "id",
    )

    def __init__(self, server: HttpServer, transport: Transport, number: int) -> None:
        self.id = number
        self.closed = False
        self.has_turn = False
        """True while it waits for its turn."""
        self._server = server
        self._transport = transport
        self._h11 = h11.Connection(h11.SERVER)
        self._input = bytearray()
        self._scanned = 0
        """Bytes of the input in which the head does not end."""
        self._ended = False
        """True if the client sends no more."""
        self._request: HttpRequest | None = None
        """The request whose body is awaited."""
        self._body_left = 0
        self._output = OutputQueue()
        self._response: HttpResponse | None = None
        self._closing = False
        """True if the connection is closed after the response."""
        self._reading, self._writing, self._blocked = True, False, False
        self._phase = HttpPhase.REQUEST
        self._since_ms = self._progress_ms = server.timer.now_ms
        self._deadline: TimerTask = server.timer.call_later(
            server.limits.request_timeout_ms, self._check_deadline
        )

    def __str__(self) -> str:
        return address_text(*self._transport.peer)

    def start(self) -> None:
        """Start reading."""
        self._server.network.register(self._transport, self._readable, self._writable)

    def idle_ms(self) -> int:
        """The time for which it has waited for the first byte of a request; 0 if it does not."""
        if self._phase is HttpPhase.IDLE or (self._phase is HttpPhase.REQUEST and not self._input):
            return self._server.timer.now_ms - self._since_ms
        return 0

    # Input.

    def _readable(self) -> None:
        try:
            data = self._transport.receive(RECEIVE_BYTES)
        except (OSError, MemoryError) as error:
            self.close(f"receiving failed: {error!r}")
            return
        if data is None:
            return
        if self._phase is HttpPhase.LINGER:
            if not data:
                self.close("closed by the client")
            return
        if self._phase is HttpPhase.RESPONSE:  # A failed connection is reported as readable.
            if not data:
                self.close("closed by the client")
            else:
                self.close("lost")
            return
        if not data:
            self._ended = True
        elif self._phase is HttpPhase.IDLE:
            self._enter(HttpPhase.REQUEST)
        self._input += data
        self._interest(read=False)
        self._server.want_turn(self)

    def run_step(self) -> None:
        """Do one step: parse what has arrived, or produce the next slice of the response."""
        if self._response is None:
            self._take_request()
        elif not self._output.queued_bytes:
            self._produce(self._response)
        self._send()

    def _take_request(self) -> None:
        try:
            if self._request is None:
                self._take_head()
            if self._request is not None:
                self._take_body(self._request)
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, f"not HTTP/1.1: {error}")

    def _take_head(self) -> None:
        """Pass the head to h11, once it is complete and within the limits."""
        limits, data = self._server.limits, self._input
        end = END_OF_HEAD.search(data, max(0, self._scanned - 2))
        self._scanned = len(data)
        if (end.end() if end else len(data)) > limits.max_head_bytes:
            self._refuse(431, f"the head has more than {limits.max_head_bytes} bytes")
        elif data.count(b"\n", 0, end.end() if end else len(data)) > limits.max_head_lines:
            self._refuse(431, f"the head has more than {limits.max_head_lines} lines")
        elif end is None and not self._ended:
            self._interest(read=True)
        elif end is None and not data:
            self.close("closed by the client")
        else:
            self._parse_head(end.end() if end else len(data))

    def _parse_head(self, size: int) -> None:
        self._h11.receive_data(bytes(self._input[:size]))
        del self._input[:size]
        self._scanned = 0
        if self._ended and not self._input:
            self._h11.receive_data(b"")
        event = self._h11.next_event()
        if not isinstance(event, h11.Request):
            raise h11.RemoteProtocolError("no request line")
        self._server.counters.requests += 1
        request = HttpRequest(event.method, event.target, list(event.headers))
        lengths = request.values(b"content-length")
        limits = self._server.limits
        if not event.http_version.startswith(b"1."):
            self._refuse(505, "only HTTP/1.1 and HTTP/1.0")
        elif request.values(b"transfer-encoding"):
            self._refuse(411, "a body needs a Content-Length; nothing here takes a body")
        elif lengths and int(lengths[0]) > limits.max_body_bytes:
            self._refuse(413, f"the body has more than {limits.max_body_bytes} bytes")
        else:
            self._request = request
            self._body_left = int(lengths[0]) if lengths else 0

    def _take_body(self, request: HttpRequest) -> None:
        """Drop the body as far as it has arrived; respond when it is complete."""
        if self._body_left:
            part = bytes(self._input[: self._body_left])
            del self._input[: len(part)]
            self._body_left -= len(part)
            if part:
                self._h11.receive_data(part)
            elif self._ended:
                self._h11.receive_data(b"")
        event = self._h11.next_event()
        while isinstance(event, h11.Data):
            event = self._h11.next_event()
        if isinstance(event, h11.EndOfMessage):
            self._request = None
            self._respond(request)
        elif self._h11.they_are_waiting_for_100_continue:
            self._refuse(417, "nothing here takes a body")
        else:
            self._interest(read=True)

    # Output.

    def _respond(self, request: HttpRequest) -> None:
        response = self._server.answer(request)
        if request.method == b"HEAD":
            response.discard()
            response.body = iter(())
        self._begin(response)

    def _refuse(self, status: int, reason: str) -> None:
        """Answer a request that is not read to its end, and close the connection."""
        log.debug("refused a request of %s: %s", self, reason)
        self._request = None
        self._closing = True
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._begin(HttpResponse.text(status, reason, ("Connection", "close")))
        else:
            self.close(reason)

    def _begin(self, response: HttpResponse) -> None:
        if response.status >= 400:
            self._server.counters.refused += 1
        headers = [
            ("Date", self._server.date()),
            ("Content-Type", response.content_type),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *response.headers,
        ]
        if response.length is not None:
            headers.append(("Content-Length", str(response.length)))
        self._response = response
        self._enter(HttpPhase.RESPONSE)
        reason = HTTPStatus(response.status).phrase
        self._put(h11.Response(status_code=response.status, headers=headers, reason=reason))
        if response.length is not None:  # Else the first slice is a turn of its own.
            self._produce(response)

    def _produce(self, response: HttpResponse) -> None:
        """Queue the next slice, or the end of the response."""
        try:
            piece = next(response.body, None)
        except Exception as error:
            self._server.bug(f"producing a response for {self}", error)
            self.close("a bug in the response")  # The client sees that the body is incomplete.
            return
        if piece is not None:
            self._put(h11.Data(data=piece))
            return
        self._response = None
        self._put(h11.EndOfMessage())

    def _put(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._h11.send(event)
        if data:
            self._output.append([data])

    def _writable(self) -> None:
        self._blocked = False
        self._send()

    def _send(self) -> None:
        """Send what is queued; then have the next slice produced, or wait for the next request."""
        if self.closed or self._phase is not HttpPhase.RESPONSE:
            return
        queued = self._output.queued_bytes
        try:
            end = self._output.flush(self._transport, FLUSH_BYTES)
        except (OSError, MemoryError) as error:
            self.close(f"sending failed: {error!r}")
            return
        taken = queued - self._output.queued_bytes
        self._server.counters.bytes_out += taken
        if taken:
            self._progress_ms = self._server.timer.now_ms
        self._blocked = end == BLOCKED
        if self._blocked is not self._writing:
            self._writing = self._blocked
            self._server.network.set_interest(
                self._transport, read=self._reading, write=self._writing
            )
            if self._blocked:
                self._arm()
        if end == YIELDED or (not self._blocked and self._response is not None):
            self._server.want_turn(self)
        elif not self._blocked:
            self._next_request()

    def _next_request(self) -> None:
        """The response is sent: wait for the next request, or close."""
        if self._closing and not self._ended:
            self._enter(HttpPhase.LINGER)
            self._interest(read=True)
        elif self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            if self._input or self._ended:
                self._enter(HttpPhase.REQUEST)
                self._server.want_turn(self)
            else:
                self._enter(HttpPhase.IDLE)
                self._interest(read=True)
        else:
            self.close("the last request")

    def _interest(self, *, read: bool) -> None:
        if not self.closed and read is not self._reading:
            self._reading = read
            self._server.network.set_interest(self._transport, read=read, write=self._writing)

    # Deadlines and the end.

    def _enter(self, phase: HttpPhase) -> None:
        self._phase = phase
        self._since_ms = self._progress_ms = self._server.timer.now_ms
        self._arm()

    def _deadline_ms(self) -> int:
        limits = self._server.limits
        if self._phase is HttpPhase.RESPONSE:
            end_ms = self._since_ms + limits.response_timeout_ms
            if self._blocked:
                end_ms = min(end_ms, self._progress_ms + limits.stalled_timeout_ms)
            return end_ms
        if self._phase is HttpPhase.LINGER:
            return self._since_ms + limits.linger_ms
        if self._phase is HttpPhase.IDLE:
            return self._since_ms + limits.idle_timeout_ms
        return self._since_ms + limits.request_timeout_ms

    def _arm(self) -> None:
        self._deadline.cancel()
        left_ms = max(0, self._deadline_ms() - self._server.timer.now_ms)
        self._deadline = self._server.timer.call_later(left_ms, self._check_deadline)

    def _check_deadline(self) -> None:
        if self._deadline_ms() > self._server.timer.now_ms:
            self._arm()
            return
        if self._phase in (HttpPhase.REQUEST, HttpPhase.RESPONSE):
            self._server.counters.timed_out += 1
        self.close(self._phase.value)

    def close(self, reason: str) -> None:
        """Close the connection, once; what is not sent is dropped."""
        if self.closed:
            return
        self.closed = True
        self._server.network.unregister(self._transport)
        self._transport.close()
        self._deadline.cancel()
        self._output.discard()
        response, self._response = self._response, None
        if response is not None:
            response.discard()
        log.debug("closed the HTTP connection of %s: %s", self, reason)
        self._server.connection_closed(self)
