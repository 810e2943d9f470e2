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

Invariants: each answer is queued once; the transport is read only when no whole frame waits;
interest in writing is registered only while the transport is full.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.config.addresses import address_text
from odradek.model.env import Transport
from odradek.model.errors import ProtocolError
from odradek.network.deadlines import Deadlines
from odradek.network.exchange import Exchange, Handler, InProgress
from odradek.network.framing import Framing
from odradek.network.output import BLOCKED, YIELDED, OutputQueue, Part, release_all
from odradek.network.transport import is_lost

if TYPE_CHECKING:
    from odradek.network.server import SocketServer


__all__ = ["Connection", "Exchange", "Handler"]

log = logging.getLogger(__name__)


class Connection:
    """A client over any transport. Made and counted by `SocketServer`."""

    __slots__ = (
        "_deadlines",
        "_exchanges",
        "_framing",
        "_in_turn",
        "_output",
        "_reading",
        "_scheduled",
        "_server",
        "_transport",
        "_writing",
        "active_ms",
        "blocked",
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
        """Frames handed out so far."""
        self.active_ms = server.timer.now_ms
        """When something last arrived."""
        self.blocked = False
        """The transport took less than it was offered; it will tell when it takes more."""
        self.closed = False
        self._server = server
        self._transport = transport
        self._framing = Framing(server.limits.max_first_request_bytes)
        self._output = OutputQueue()
        self._exchanges = InProgress()
        self._reading, self._writing = True, False
        """The interest that the network knows of."""
        self._in_turn = self._scheduled = False
        self._deadlines = Deadlines(self, server.timer, server.limits, server.counters)

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
        return address_text(*self.peer)

    def start(self) -> None:
        """Begin to read."""
        self._server.network.register(self._transport, self._readable, self._writable)

    # In.

    def _readable(self) -> None:
        framing = self._framing
        if framing.pending and self._reading:
            return  # What is here goes first, and `_go_on` is on its way.
        try:
            data = self._transport.receive(framing.wanted)
        except (OSError, MemoryError) as error:
            self._failed("receiving", error)
            return
        if not data:
            if data is not None:
                self.close("closed by the client")
            return
        server = self._server
        server.counters.bytes_in += len(data)
        self.active_ms = server.timer.now_ms
        framing.feed(data)
        # The network tells of a failure also when reading is not wanted: then this only looks.
        if framing.pending and self._reading:
            self._turn()

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
        if self._output.queued_bytes and not self.blocked:
            self._flush()
        elif self._unsettled():
            self._settle()

    def _take_frames(self) -> None:
        server = self._server
        limits, received = server.limits, server.received
        exchanges, framing, output = self._exchanges, self._framing, self._output
        left = limits.frames_per_turn
        while framing.pending and left:
            if len(exchanges) >= limits.max_in_progress:
                return
            if output.queued_bytes > limits.max_queued_bytes:
                return
            frame = framing.next_frame()
            if frame is None:
                return
            exchange = Exchange(self, frame)
            exchanges.append(exchange)
            left -= 1
            self.requests += 1
            server.counters.requests += 1
            received(exchange)
            if self.closed:
                return
            if self.requests == 1:
                framing.limit = limits.max_request_bytes

    # Out.

    def _answered(self, exchange: Exchange, answer: Sequence[Part]) -> None:
        """Queue an answer and those behind it, if all older ones are queued."""
        if self.closed:
            release_all(answer)
            return
        if self._exchanges.answered(exchange, answer, self._output) and not self._in_turn:
            self._soon()

    def _writable(self) -> None:
        self.blocked = False
        self._flush()

    def _flush(self) -> None:
        server, output = self._server, self._output
        queued = output.queued_bytes
        try:
            end = output.flush(self._transport, server.limits.bytes_per_turn)
        except (OSError, MemoryError) as error:
            self._failed("sending", error)
            return
        taken = queued - output.queued_bytes
        server.counters.bytes_out += taken
        if end == BLOCKED:
            self.blocked = True
            self._deadlines.blocked(taken > 0 or not self._writing)
        elif end == YIELDED:
            self._soon()
        elif not self._unsettled():
            return
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
        if self._framing.pending and self._may_read():
            self._turn()
        elif self._output.queued_bytes and not self.blocked:
            self._flush()
        else:
            self._settle()

    def _may_read(self) -> bool:
        limits = self._server.limits
        return (
            len(self._exchanges) < limits.max_in_progress
            and self._output.queued_bytes <= limits.max_queued_bytes
        )

    def _unsettled(self) -> bool:
        """Whether `_settle` could have something to do once all output is sent. Cheap, for every
        turn.
        """
        return (
            self._framing.pending
            or self._writing
            or not self._reading
            or len(self._exchanges) >= self._server.limits.max_in_progress
        )

    def _settle(self) -> None:
        """Tell the network what is wanted now, if that changed; go on later with frames here."""
        read = self._may_read()
        if read is not self._reading or self.blocked is not self._writing:
            self._reading, self._writing = read, self.blocked
            self._server.network.set_interest(self._transport, read=read, write=self.blocked)
        if read and self._framing.pending:
            self._soon()

    # The end.

    def close_violation(self, reason: str) -> None:
        """Close for what the client sent; ready answers are sent if the transport takes them."""
        if self.closed:
            return
        self._server.counters.violations += 1
        if self._output.queued_bytes and not self.blocked:
            self._flush()
        self.close(reason, logging.WARNING)

    def _failed(self, doing: str, error: OSError | MemoryError) -> None:
        """The connection broke; or the disk did, or memory ran out: others go on without it."""
        level = logging.DEBUG if is_lost(error) else logging.ERROR
        self.close(f"{doing} failed: {error!r}", level)

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        """End it, once. `disconnected` is told after the current event."""
        if self.closed:
            return
        self.closed = True
        server = self._server
        server.network.unregister(self._transport)
        self._transport.close()
        self._deadlines.cancel()
        self._output.discard()
        self._exchanges.abandon(server.call_soon)
        log.log(level, "closed the connection of %s: %s", self, reason)
        server.gone(self)
