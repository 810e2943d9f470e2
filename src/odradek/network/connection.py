"""A client connection: requests in, responses out in the order of the requests, all bounded.

    receive ─► framing ─► Exchange ─► handler.received ─┬─ respond(parts) ─┐
                             │ (in progress, in order)   └─ later ──────────┤
                             └─────────────── the oldest is answered ◄──────┘
                                                     │
                                              output queue ─► transport

Several exchanges may be in progress. A response waits until every older exchange of the connection
is answered, then leaves with the other responses that are ready: at the end of the round that read
the requests, or after the current event. The last one of a connection leaves at once: a fetch that
waited is answered before the event that made it ready goes on.

Reading stops (no read interest; frames already received stay uncut) while

- `max_in_progress` exchanges are in progress,
- a long request is in progress (`broker.long_requests`), or
- more than `max_queued_bytes` wait to be sent.

One round of the reactor handles at most `frames_per_round` frames of a connection and sends about
`bytes_per_round` bytes; the rest waits until the other connections were served.

A connection is closed once, through `close`: at the end of the stream, on an error of the
transport, an invalid frame, a `ProtocolError` or a bug in the handler, without a first request in
`first_request_timeout_ms`, after `max_idle_ms` with nothing in progress, or after
`stalled_timeout_ms` with output waiting of which the client took no byte. Responses that come later
are dropped; the files of all unsent responses are released.

The deadlines are timers that traffic never touches. A connection notes when it was last active; a
timer that fires checks that and, if there was activity, starts again for the remaining time. So a
request costs no timer operation, and a connection closes at its deadline, not at a multiple of it.

Invariants: each response is queued once; the transport is read only when no whole frame waits;
write interest is registered only while the transport is full.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from odradek.config.addresses import address_text
from odradek.model.env import Transport
from odradek.model.errors import ProtocolError
from odradek.network.framing import Framing
from odradek.network.output import BLOCKED, YIELDED, OutputQueue, Part, release_all
from odradek.network.transport import is_lost
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask

if TYPE_CHECKING:
    from odradek.network.server import SocketServer


@dataclass(slots=True, frozen=True)
class ConnectionLimits:
    """Limits of connections, in bytes and milliseconds. The defaults trust clients, as Kafka's."""

    max_request_bytes: int = 100 * 1024 * 1024
    """Kafka's `socket.request.max.bytes`."""
    max_first_request_bytes: int = 64 * 1024
    """The same, until the first request was handled."""
    first_request_timeout_ms: int = 10_000
    """Time for the first whole request to arrive."""
    max_idle_ms: int = 600_000
    """Kafka's `connections.max.idle.ms`; below 0: no limit."""
    stalled_timeout_ms: int = 30_000
    """Time with output waiting and no byte taken by the client."""
    max_in_progress: int = 64
    """Unanswered requests of one connection."""
    max_queued_bytes: int = 1024 * 1024
    """Waiting output of one connection above which its requests are not read."""
    frames_per_round: int = 64
    bytes_per_round: int = 1024 * 1024
    """Output sent for one connection in a round, before the others are served."""
    max_connections: int = 2**31 - 1
    """Kafka's `max.connections`."""
    max_connections_per_ip: int = 2**31 - 1
    """Kafka's `max.connections.per.ip`."""


@dataclass(slots=True)
class NetworkCounters:
    """Totals of all connections since the start, for metrics."""

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    connections_accepted: int = 0
    connections_closed: int = 0
    connections_refused: int = 0
    """Connections closed at once because of a limit on connections."""
    violations: int = 0
    """Connections closed because of invalid input from the client."""
    idle_closed: int = 0
    silent_closed: int = 0
    """Connections closed because no first request arrived in time."""
    stalled_closed: int = 0
    client_closed: int = 0
    """Connections that the client closed."""
    failed: int = 0
    """Connections closed because of an error of the connection, the disk or memory."""
    bugs: int = 0


class Handler(Protocol):
    """Handles the requests of a server's connections. Called on the owner thread."""

    def received(self, exchange: Exchange) -> None:
        """Handle a request. A `ProtocolError` closes the connection with that reason."""
        ...

    def connected(self, connection: Connection) -> None: ...

    def disconnected(self, connection: Connection) -> None:
        """Called once for each `connected`; open exchanges will not be sent."""
        ...


class Exchange:
    """One request and its response.

    It ends with exactly one call of `respond`, `no_response` or `close_connection`, now or later.
    """

    __slots__ = ("_answer", "abandoned", "connection", "frame", "next_exchange", "waiting")

    def __init__(self, connection: Connection, frame: bytes) -> None:
        self.connection = connection
        self.frame = frame
        """The request without its length; empty once answered."""
        self.abandoned: Callable[[], None] | None = None
        """Called after the connection closed, if the request is unanswered: completes the
        operation that would answer it.
        """
        self.waiting: object = None
        """The handler's own description of a request that waits, for whoever lists those."""
        self.next_exchange: Exchange | None = None
        """The connection's next exchange, while both are in progress."""
        self._answer: Sequence[Part] | None = None

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client."""
        return self.connection.peer

    @property
    def connection_number(self) -> int:
        """The number of the connection: one that was accepted later has a higher one."""
        return self.connection.id

    @property
    def answered(self) -> bool:
        return self._answer is not None

    def respond(self, parts: Sequence[Part]) -> None:
        """Send a whole response, its length included.

        File slices are released when they are sent or dropped.
        """
        assert self._answer is None, "answered twice"
        self._answer = parts
        # Both refer to the operation, which refers to this: without these lines all, and the
        # request, would live until the garbage collector runs.
        self.abandoned = None
        self.waiting = None
        self.frame = b""
        self.connection._answered(self, parts)

    def no_response(self) -> None:
        """End an exchange whose client expects no response (`acks=0`)."""
        self.respond(())

    def hold(self) -> None:
        """Handle no later request of the connection until `release`."""
        self.connection.held = True

    def release(self) -> None:
        """Go on with the connection's requests."""
        self.connection.release()

    def close_connection(self, reason: str) -> None:
        """Close the connection because of an invalid request.

        Older responses that are ready are sent if the transport takes them.
        """
        self.connection.close_violation(reason, "refused request")

    def end_connection(self, reason: str) -> None:
        """Close the connection after this event, in which this request is answered: so the client
        learns the error, and asks another broker. Ready responses are sent if the transport takes
        them.
        """
        self.connection.close_soon(reason)


class ExchangesInProgress:
    """The open exchanges of one connection, oldest first.

    An exchange is open until its response and those of all older exchanges are queued. Exchanges
    are linked to each other, because there is mostly one, and without a list the processor has less
    to fetch into its caches when a request arrives.
    """

    __slots__ = ("_count", "_newest", "_oldest")

    def __init__(self) -> None:
        self._count = 0
        self._oldest: Exchange | None = None
        self._newest: Exchange | None = None

    def __len__(self) -> int:
        return self._count

    def waiting(self) -> list[Exchange]:
        """Return the exchanges whose requests wait, oldest first."""
        found = []
        exchange = self._oldest
        while exchange is not None:
            if exchange.waiting is not None:
                found.append(exchange)
            exchange = exchange.next_exchange
        return found

    def append(self, exchange: Exchange) -> None:
        if self._newest is None:
            self._oldest = exchange
        else:
            self._newest.next_exchange = exchange
        self._newest = exchange
        self._count += 1

    def answered(self, exchange: Exchange, answer: Sequence[Part], output: OutputQueue) -> bool:
        """Queue a response and the ready ones after it; False if an older exchange has none."""
        if self._oldest is not exchange:
            return False
        following = self._take_oldest(exchange)
        output.append(answer)
        while following is not None and (next_exchange := following._answer) is not None:
            following = self._take_oldest(following)
            output.append(next_exchange)
        return True

    def _take_oldest(self, oldest: Exchange) -> Exchange | None:
        """Remove the oldest exchange; return the one that is now the oldest."""
        following = oldest.next_exchange
        oldest.next_exchange = None
        self._oldest = following
        self._count -= 1
        if following is None:
            self._newest = None
        return following

    def abandon(self, call_soon: Callable[[Callable[[], None]], None]) -> None:
        """Drop all exchanges: release their files and call `abandoned` of the unanswered."""
        exchange = self._oldest
        while exchange is not None:
            release_all(exchange._answer or ())
            if exchange.abandoned is not None and not exchange.answered:
                call_soon(exchange.abandoned)
            exchange = self._take_oldest(exchange)


CONNECTION = "connection"
"""The kind of the timers of connections, in the timer's counters."""


class ConnectionDeadlines:
    """Closes a connection that is idle, or whose client does not read.

    Two timers: without a first request in time, or later without activity; and without progress
    while output waits.
    """

    __slots__ = (
        "_connection",
        "_counter",
        "_counters",
        "_idle",
        "_limits",
        "_progress_ms",
        "_stall",
        "_timer",
    )

    def __init__(
        self,
        connection: Connection,
        timer: SystemTimer,
        limits: ConnectionLimits,
        counters: NetworkCounters,
    ) -> None:
        self._connection = connection
        self._timer = timer
        self._limits = limits
        self._counters = counters
        self._progress_ms = timer.now_ms
        self._stall: TimerTask | None = None
        self._counter = timer.counter(CONNECTION)
        self._idle = timer.call_later(
            limits.first_request_timeout_ms, self._check_idle, self._counter
        )

    def blocked(self, progress: bool) -> None:
        """Handle output that the client does not take. `progress`: it took some, or none waited."""
        if progress:
            self._progress_ms = self._timer.now_ms
        if self._stall is None:
            self._stall = self._timer.call_later(
                self._limits.stalled_timeout_ms, self._check_stall, self._counter
            )

    def cancel(self) -> None:
        """Cancel both timers, because the connection closed."""
        self._idle.cancel()
        if self._stall is not None:
            self._stall.cancel()

    def _check_idle(self) -> None:
        connection, limits = self._connection, self._limits
        if not connection.requests:
            self._counters.silent_closed += 1
            connection.close("no request in time", logging.INFO)
            return
        if limits.max_idle_ms < 0:
            return
        left_ms = connection.active_ms + limits.max_idle_ms - self._timer.now_ms
        if connection.in_progress or connection.queued_bytes:
            left_ms = limits.max_idle_ms
        if left_ms > 0:
            self._idle = self._timer.call_later(left_ms, self._check_idle, self._counter)
        else:
            self._counters.idle_closed += 1
            connection.close("idle")

    def _check_stall(self) -> None:
        self._stall = None
        connection = self._connection
        if not connection.blocked:
            return
        left_ms = self._progress_ms + self._limits.stalled_timeout_ms - self._timer.now_ms
        if left_ms > 0:
            self._stall = self._timer.call_later(left_ms, self._check_stall, self._counter)
        else:
            self._counters.stalled_closed += 1
            connection.close(
                f"nothing taken in time, {connection.queued_bytes} bytes waiting", logging.INFO
            )


__all__ = ["Connection", "Exchange", "Handler"]

log = logging.getLogger(__name__)


class Connection:
    """The connection of a client over any transport. `SocketServer` makes and counts it."""

    __slots__ = (
        "_deadlines",
        "_exchanges",
        "_framing",
        "_handling_frames",
        "_output",
        "_reading",
        "_scheduled",
        "_server",
        "_transport",
        "_writing",
        "active_ms",
        "blocked",
        "closed",
        "held",
        "id",
        "requests",
        "session",
    )

    def __init__(self, server: SocketServer, transport: Transport, number: int) -> None:
        self.id = number
        """Unique among all connections a server ever had."""
        self.session: object = None
        """An object of the handler, kept as long as the connection."""
        self.requests = 0
        """The number of frames passed to the handler so far."""
        self.active_ms = server.timer.now_ms
        """The time when bytes last arrived."""
        self.blocked = False
        """True if the transport took less than it was offered; it reports when it takes more."""
        self.closed = False
        self.held = False
        """True while a request is handled before which no later one may be."""
        self._server = server
        self._transport = transport
        self._framing = Framing(server.limits.max_first_request_bytes)
        self._output = OutputQueue()
        self._exchanges = ExchangesInProgress()
        self._reading, self._writing = True, False
        """The registered interest."""
        self._handling_frames = self._scheduled = False
        self._deadlines = ConnectionDeadlines(self, server.timer, server.limits, server.counters)

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client."""
        return self._transport.peer

    @property
    def in_progress(self) -> int:
        """Unanswered requests, and responses that wait for older ones."""
        return len(self._exchanges)

    def waiting(self) -> list[Exchange]:
        """Return the exchanges whose requests wait, oldest first; at most `max_in_progress`."""
        return self._exchanges.waiting()

    @property
    def queued_bytes(self) -> int:
        """Bytes of responses that the client has not taken."""
        return self._output.queued_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that arrived and were not passed to the handler."""
        return self._framing.held_bytes

    def __str__(self) -> str:
        return address_text(*self.peer)

    def start(self) -> None:
        """Start reading."""
        self._server.network.register(self._transport, self._readable, self._writable)

    # Input.

    def _readable(self) -> None:
        framing = self._framing
        if framing.pending and self._reading:
            return  # `_continue` is scheduled and handles the pending frames first.
        try:
            data = self._transport.receive(framing.receive_bytes)
        except (OSError, MemoryError) as error:
            self._failed("receiving", error)
            return
        if not data:
            if data is not None:
                self._server.counters.client_closed += 1
                self.close("closed by the client")
            return
        server = self._server
        server.counters.bytes_in += len(data)
        self.active_ms = server.timer.now_ms
        framing.feed(data)
        # A failure is reported as readable without read interest too; then nothing is handled.
        if framing.pending and self._reading:
            self._run_frames()

    def _run_frames(self) -> None:
        """Handle the frames that have arrived, up to the round's limit; then send the responses."""
        self._handling_frames = True
        try:
            self._handle_frames()
        except ProtocolError as error:
            self.close_violation(str(error), type(error).__name__)
        except Exception as error:
            self._server.bug(f"handling a request of {self}", error)
            self.close("a bug in the handler")
        self._handling_frames = False
        if self.closed:
            return
        if self._output.queued_bytes and not self.blocked:
            self._flush()
        elif self._needs_update():
            self._update_interest()

    def _handle_frames(self) -> None:
        server = self._server
        limits, received = server.limits, server.received
        exchanges, framing, output = self._exchanges, self._framing, self._output
        left = limits.frames_per_round
        while framing.pending and left and not self.held:
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

    # Output.

    def _answered(self, exchange: Exchange, answer: Sequence[Part]) -> None:
        """Queue a response and the ready ones after it, if all older ones are queued. Send them,
        unless this event may answer others too.
        """
        if self.closed:
            release_all(answer)
            return
        exchanges = self._exchanges
        if exchanges.answered(exchange, answer, self._output) and not self._handling_frames:
            if len(exchanges) or self.blocked or self._framing.pending:
                self._continue_soon()
            else:
                self._flush()

    def _writable(self) -> None:
        self.blocked = False
        self._flush()

    def _flush(self) -> None:
        server, output = self._server, self._output
        queued = output.queued_bytes
        try:
            end = output.flush(self._transport, server.limits.bytes_per_round)
        except (OSError, MemoryError) as error:
            self._failed("sending", error)
            return
        taken = queued - output.queued_bytes
        server.counters.bytes_out += taken
        if end == BLOCKED:
            self.blocked = True
            self._deadlines.blocked(taken > 0 or not self._writing)
        elif end == YIELDED:
            self._continue_soon()
        elif not self._needs_update():
            return
        self._update_interest()

    def release(self) -> None:
        """Go on with requests after one that was held."""
        self.held = False
        if not self.closed:
            self._continue_soon()

    # Between events.

    def _continue_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._server.call_soon(self._continue)

    def _continue(self) -> None:
        """After the current event: send responses that became ready, handle frames that waited."""
        self._scheduled = False
        if self.closed:
            return
        if self._framing.pending and self._may_read():
            self._run_frames()
        elif self._output.queued_bytes and not self.blocked:
            self._flush()
        else:
            self._update_interest()

    def _may_read(self) -> bool:
        limits = self._server.limits
        return (
            not self.held
            and len(self._exchanges) < limits.max_in_progress
            and self._output.queued_bytes <= limits.max_queued_bytes
        )

    def _needs_update(self) -> bool:
        """True if `_update_interest` may have something to do when all output is sent.

        It is cheap, because it runs for every request.
        """
        return (
            self._framing.pending
            or self._writing
            or not self._reading
            or self.held
            or len(self._exchanges) >= self._server.limits.max_in_progress
        )

    def _update_interest(self) -> None:
        """Register the interest if it changed; schedule the handling of pending frames."""
        read = self._may_read()
        if read is not self._reading or self.blocked is not self._writing:
            self._reading, self._writing = read, self.blocked
            self._server.network.set_interest(self._transport, read=read, write=self.blocked)
        if read and self._framing.pending:
            self._continue_soon()

    # Closing.

    def close_violation(self, reason: str, kind: str) -> None:
        """Close because of invalid input; ready responses are sent if the transport takes them.

        `kind` limits the log lines (see `violation_log`).
        """
        if self.closed:
            return
        server = self._server
        server.counters.violations += 1
        if self._output.queued_bytes and not self.blocked:
            self._flush()
        if not self.closed:
            server.violation_log.closed(self.peer, kind, reason)
        self.close(reason)

    def close_soon(self, reason: str) -> None:
        """Close after the current event; ready responses are sent if the transport takes them."""

        def close() -> None:
            if self._output.queued_bytes and not self.blocked:
                self._flush()
            self.close(reason)

        self._server.call_soon(close)

    def _failed(self, doing: str, error: OSError | MemoryError) -> None:
        """Close after an error of the connection, the disk or memory; other connections go on."""
        level = logging.DEBUG if is_lost(error) else logging.ERROR
        if not self.closed:
            self._server.counters.failed += 1
        self.close(f"{doing} failed: {error!r}", level)

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        """Close the connection, once. `disconnected` is called after the current event."""
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
        server.connection_closed(self)
