"""One client: requests in, responses out in the order of the requests, nothing without a bound.

    receive ─► framing ─► Exchange ─► handler.received ─┬─ respond(parts) ─┐
                             │ (in progress, in order)   └─ later ──────────┤
                             └─────────────── the oldest is answered ◄──────┘
                                                     │
                                              output queue ─► transport

Several exchanges may be in progress. An answer waits until every older exchange of the connection
is answered, then leaves with whatever else is ready: at the end of the turn that brought the
requests, or after the current event.

Reading stops (no interest, and frames already here stay uncut) while

- `max_in_progress` exchanges are in progress, or
- more than `max_queued_bytes` wait to be sent,

and goes on when that has passed. A turn cuts at most `frames_per_turn` frames and sends about
`bytes_per_turn` bytes; the rest is done after the other connections had theirs.

A connection ends, once, through `close`: at the end of the stream, on an error of the transport, a
frame that cannot be, a `ProtocolError` or a bug in the handler, without a first request in
`first_request_timeout_ms`, idle for `max_idle_ms` with nothing in progress, or with output waiting
and no byte taken for `stalled_timeout_ms`. Answers that come later are dropped; the files of all
unsent answers are released.

Invariants: `_exchanges` are the unanswered ones and those behind them; each answer is queued once;
the transport is read only when no whole frame waits; interest in writing is registered only while
the transport is full.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.model.env import Transport
from odradek.model.errors import ProtocolError
from odradek.network.framing import Framing
from odradek.network.output import Flush, OutputQueue, Part, release_all
from odradek.timing.timing_wheel import TimerTask

if TYPE_CHECKING:
    from odradek.network.server import SocketServer


log = logging.getLogger(__name__)

BROKEN = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN})
"""What `ConnectionError` does not cover of the ways in which a connection is lost."""


class Handler(Protocol):
    """What is done with requests. Called on the owner thread."""

    def received(self, exchange: Exchange) -> None:
        """A request. Raises `ProtocolError` to have the connection closed with that reason."""
        ...

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None:
        """Once for each `connected`; the exchanges in progress will never be sent."""
        ...


class Exchange:
    """One request and its answer: exactly one of `respond`, `no_response` or `close_connection`,
    now or later.
    """

    __slots__ = ("_answer", "connection", "frame")

    def __init__(self, connection: Connection, frame: bytes) -> None:
        self.connection = connection
        self.frame = frame
        """The request without its length."""
        self._answer: Sequence[Part] | None = None

    @property
    def answered(self) -> bool:
        return self._answer is not None

    def respond(self, parts: Sequence[Part]) -> None:
        """The whole response, its length included. File slices are released once sent, or when
        they cannot be.
        """
        assert self._answer is None, "answered twice"
        self._answer = parts
        self.connection._answered(self)

    def no_response(self) -> None:
        """Done, and the client expects nothing (`acks=0`)."""
        self.respond(())

    def close_connection(self, reason: str) -> None:
        """The client sent what it must not. Older answers that are ready are sent if the transport
        takes them.
        """
        self.connection.close_violation(reason)


class Connection:
    """A client over any transport. Made and counted by `SocketServer`."""

    __slots__ = (
        "_active_ms",
        "_exchanges",
        "_frames_wait",
        "_framing",
        "_full",
        "_idle_deadline",
        "_in_turn",
        "_output",
        "_progress_ms",
        "_reading",
        "_scheduled",
        "_server",
        "_stall_deadline",
        "_transport",
        "_writing",
        "closed",
        "id",
        "requests",
        "session",
    )

    def __init__(self, server: SocketServer, transport: Transport, number: int) -> None:
        self.id = number
        """Unique among the connections of a server, ever."""
        self.session: object = None
        """The handler's own, for as long as the connection lives."""
        self.requests = 0
        self.closed = False
        self._server = server
        self._transport = transport
        self._framing = Framing(server.limits.max_first_request_bytes)
        self._output = OutputQueue()
        self._exchanges: deque[Exchange] = deque()
        self._reading, self._writing = True, False
        """The interest that the network knows of."""
        self._full = False
        """The transport took less than it was offered; it will tell when it takes more."""
        self._frames_wait = False
        """There may be whole frames in `_framing`."""
        self._in_turn = self._scheduled = False
        self._active_ms = self._progress_ms = server.timer.now_ms
        self._idle_deadline: TimerTask | None = None
        self._stall_deadline: TimerTask | None = None

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client."""
        return self._transport.peer

    @property
    def in_progress(self) -> int:
        """Requests not yet answered, and answers waiting for older ones."""
        return len(self._exchanges)

    @property
    def queued_bytes(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self._output.queued_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that arrived and were not handed out."""
        return self._framing.held_bytes

    def __str__(self) -> str:
        host, port = self.peer
        return f"{host}:{port}"

    def set_frame_limit(self, max_request_bytes: int) -> None:
        """From the next frame on, instead of the server's own."""
        self._framing.limit = max_request_bytes

    def start(self) -> None:
        """Begin to read."""
        self._server.network.register(self._transport, self._readable, self._writable)
        self._watch_idle(self._server.limits.first_request_timeout_ms)

    # In.

    def _readable(self) -> None:
        if self._frames_wait and self._reading:
            return  # What is here goes first, and `_go_on` is on its way.
        framing = self._framing
        try:
            data = self._transport.receive(framing.wanted)
        except OSError as error:
            self._failed("receiving", error)
            return
        if data is None:
            return
        if not data:
            self.close("closed by the client")
            return
        server = self._server
        server.counters.bytes_in += len(data)
        self._active_ms = server.timer.now_ms
        framing.feed(data)
        if self._reading:
            self._turn()
        else:  # The network tells of a failure also when reading is not wanted.
            self._frames_wait = True

    def _turn(self) -> None:
        """Hand out the frames that are here, up to the turn's share; then send the answers."""
        self._in_turn = True
        try:
            self._take_frames()
        except ProtocolError as error:
            self.close_violation(str(error))
        except Exception as error:
            self._server.bug(f"handling a request of {self}", error)
            self.close("a bug in the handler")
        self._in_turn = False
        if self.closed:
            return
        if self._output.queued_bytes and not self._full:
            self._flush()
        elif (
            self._frames_wait
            or not self._reading
            or len(self._exchanges) >= self._server.limits.max_in_progress
        ):
            self._settle()

    def _take_frames(self) -> None:
        server = self._server
        limits, counters, received = server.limits, server.counters, server.handler.received
        exchanges, framing, output = self._exchanges, self._framing, self._output
        self._frames_wait = True
        for _ in range(limits.frames_per_turn):
            if len(exchanges) >= limits.max_in_progress:
                return
            if output.queued_bytes > limits.max_queued_bytes:
                return
            frame = framing.next_frame()
            if frame is None:
                self._frames_wait = False
                return
            exchange = Exchange(self, frame)
            exchanges.append(exchange)
            self.requests += 1
            counters.requests += 1
            received(exchange)
            if self.closed:
                return
            if self.requests == 1 and framing.limit == limits.max_first_request_bytes:
                framing.limit = limits.max_request_bytes

    # Out.

    def _answered(self, exchange: Exchange) -> None:
        """Queue its answer and those behind it, if all older ones are queued."""
        exchanges = self._exchanges
        if self.closed:
            release_all(exchange._answer or ())
            return
        if exchanges[0] is not exchange:
            return
        while exchanges:
            answer = exchanges[0]._answer
            if answer is None:
                break
            exchanges.popleft()
            self._output.append(answer)
            self._server.counters.responses += 1
        if not self._in_turn:
            self._soon()

    def _writable(self) -> None:
        self._full = False
        self._flush()

    def _flush(self) -> None:
        server, output = self._server, self._output
        queued = output.queued_bytes
        try:
            end = output.flush(self._transport, server.limits.bytes_per_turn)
        except OSError as error:
            self._failed("sending", error)
            return
        taken = queued - output.queued_bytes
        server.counters.bytes_out += taken
        if end is Flush.BLOCKED:
            self._full = True
            self._watch_stall(taken)
        elif end is Flush.YIELDED:
            self._soon()
        self._settle()

    # Between events.

    def _soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._server.call_soon(self._go_on)

    def _go_on(self) -> None:
        """After the current event: send what was answered meanwhile, hand out what had to wait."""
        self._scheduled = False
        if self.closed:
            return
        if self._frames_wait and self._may_read():
            self._turn()
        elif self._output.queued_bytes and not self._full:
            self._flush()
        else:
            self._settle()

    def _may_read(self) -> bool:
        limits = self._server.limits
        return (
            len(self._exchanges) < limits.max_in_progress
            and self._output.queued_bytes <= limits.max_queued_bytes
        )

    def _settle(self) -> None:
        """Tell the network what is wanted now, if that changed; go on later with frames that are
        here.
        """
        read = self._may_read()
        if read is not self._reading or self._full is not self._writing:
            self._reading, self._writing = read, self._full
            self._server.network.set_interest(self._transport, read=read, write=self._full)
        if read and self._frames_wait:
            self._soon()

    # Deadlines: one timer each, looked at when it fires and never moved by traffic.

    def _watch_idle(self, delay_ms: int) -> None:
        self._idle_deadline = self._server.timer.call_later(delay_ms, self._check_idle)

    def _check_idle(self) -> None:
        limits = self._server.limits
        if not self.requests:
            self.close("no request in time", logging.INFO)
            return
        if limits.max_idle_ms < 0:
            return
        left = self._active_ms + limits.max_idle_ms - self._server.timer.now_ms
        if self._exchanges or self._output.queued_bytes:
            left = limits.max_idle_ms
        if left > 0:
            self._watch_idle(left)
        else:
            self._server.counters.idle_closed += 1
            self.close("idle")

    def _watch_stall(self, taken: int) -> None:
        """The client does not take more; `taken` is what it took just now."""
        if taken or not self._writing:
            self._progress_ms = self._server.timer.now_ms
        if self._stall_deadline is None:
            timeout_ms = self._server.limits.stalled_timeout_ms
            self._stall_deadline = self._server.timer.call_later(timeout_ms, self._check_stall)

    def _check_stall(self) -> None:
        self._stall_deadline = None
        if not self._full:
            return
        timeout_ms = self._server.limits.stalled_timeout_ms
        left = self._progress_ms + timeout_ms - self._server.timer.now_ms
        if left > 0:
            self._stall_deadline = self._server.timer.call_later(left, self._check_stall)
        else:
            self._server.counters.stalled_closed += 1
            self.close(f"it took nothing of {self.queued_bytes} bytes in time", logging.INFO)

    # The end.

    def close_violation(self, reason: str) -> None:
        """Close for what the client sent; answers that are ready are sent if the transport takes
        them now.
        """
        if self.closed:
            return
        self._server.counters.violations += 1
        if self._output.queued_bytes and not self._full:
            self._flush()
        self.close(reason, logging.WARNING)

    def _failed(self, doing: str, error: OSError) -> None:
        """The connection broke, or (sending a file) the disk did."""
        broken = isinstance(error, ConnectionError) or error.errno in BROKEN
        self.close(f"{doing} failed: {error}", logging.DEBUG if broken else logging.ERROR)

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        """End it, once. `disconnected` is told after the current event."""
        if self.closed:
            return
        self.closed = True
        server = self._server
        server.network.unregister(self._transport)
        self._transport.close()
        for deadline in (self._idle_deadline, self._stall_deadline):
            if deadline is not None:
                deadline.cancel()
        self._output.discard()
        for exchange in self._exchanges:
            release_all(exchange._answer or ())
        self._exchanges.clear()
        log.log(level, "closed the connection of %s: %s", self, reason)
        server.gone(self)
