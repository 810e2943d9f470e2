"""One simulated client's connection to a broker: framing, deadlines and reconnecting.

    idle ──call──► backing off ──► connecting ──► connected ──answers in order──► ...
      ▲                                │              │
      └────── every call under way: `failed` ◄── refused, reset, end of stream, a deadline ──┘

A call ends exactly once: `answered(response)` or `failed()`. After `failed()` the outcome is
unknown: the request may have been applied, and on a slow connection it may be applied *later*,
after the same request was repeated over the next connection. A deadline closes the connection, as
in Kafka's clients: answers come in order, so answers after a lost one cannot be matched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from odradek.network.framing import Framing
from odradek.protocol import frame
from odradek.protocol.codec import decode, encode
from odradek.protocol.frame import decode_response_header, response_is_flexible
from odradek.protocol.generated_writer import joined
from odradek.protocol.schema import declaration
from odradek.testing.network import SimNetwork
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, ScheduledEvent
from odradek.testing.transport import SimTransport

MAX_FRAME_BYTES = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Call:
    """A request in flight."""

    correlation_id: int
    version: int
    response_type: type[Any] | None
    answered: Callable[[Any], None]
    failed: Callable[[], None]
    deadline: ScheduledEvent | None = None


@dataclass(slots=True, eq=False)
class WireClient:
    """Calls to one broker by host name and port, over one connection at a time."""

    process: SimProcess
    network: SimNetwork
    chance: SplitMix64
    host: str
    port: int
    timeout_ms: int = 2000
    backoff_ms: tuple[int, int] = (20, 400)
    connections: int = 0
    connected_ns: int = -1
    """The time at which the current connection was made."""
    several: bool = False
    """One connection knows one broker."""
    _transport: SimTransport | None = None
    _connecting: bool = False
    _generation: int = 0
    _framing: Framing = field(default_factory=lambda: Framing(MAX_FRAME_BYTES))
    _outbox: bytearray = field(default_factory=bytearray)
    _calls: deque[Call] = field(default_factory=deque)
    _next_id: int = 0

    def call(
        self,
        request: Any,
        version: int,
        response_type: type[Any] | None,
        answered: Callable[[Any], None],
        failed: Callable[[], None],
    ) -> None:
        """Send a request; `response_type` is None if it has no answer (produce with `acks=0`)."""
        self._next_id += 1
        key = declaration(type(request)).api
        body = encode(request, version)
        parts = frame.request_parts(key, version, self._next_id, self.process.name, body)
        self._outbox += joined(parts)
        if response_type is not None:
            call = Call(self._next_id, version, response_type, answered, failed)
            call.deadline = self.process.post(self.timeout_ms * MS, "deadline", self._give_up)
            self._calls.append(call)
        self._pump()

    def close(self) -> None:
        """Close the connection; calls in flight fail."""
        self._give_up()

    def crash(self) -> None:
        """Kill the client's process; its connection is closed."""
        self.process.kill()
        self.network.process_ended()

    # Connecting.

    def _pump(self) -> None:
        if self._transport is not None:
            self._write()
        elif not self._connecting:
            self._connecting = True
            generation = self._generation
            delay_ms = self.chance.between(*self.backoff_ms) if self.connections else 0
            self.process.post(delay_ms * MS, "connecting", lambda: self._connect(generation))

    def _connect(self, generation: int) -> None:
        if generation != self._generation:
            return
        self.network.connect(
            self.host,
            self.port,
            lambda transport: self._connected(generation, transport),
            lambda _: self._refused(generation),
        )

    def _connected(self, generation: int, transport: SimTransport) -> None:
        if generation != self._generation:
            transport.close()
            return
        self._connecting = False
        self.connections += 1
        self.connected_ns = self.process.scheduler.now_ns
        self._transport = transport
        self.network.register(transport, self._readable, self._write)
        self._write()

    def _refused(self, generation: int) -> None:
        if generation == self._generation:
            self.connections += 1
            self._give_up()

    def _give_up(self) -> None:
        """Close the connection, drop the outbox, fail every call."""
        self._generation += 1
        self._connecting = False
        transport, self._transport = self._transport, None
        if transport is not None:
            self.network.unregister(transport)
            transport.close()
        self._framing = Framing(MAX_FRAME_BYTES)
        self._outbox.clear()
        calls, self._calls = self._calls, deque()
        for call in calls:
            if call.deadline is not None:
                call.deadline.cancel()
        for call in calls:
            call.failed()

    # Bytes.

    def _write(self) -> None:
        transport = self._transport
        if transport is None:
            return
        try:
            if self._outbox:
                del self._outbox[: transport.send([bytes(self._outbox)])]
        except OSError:
            self._give_up()
            return
        self.network.set_interest(transport, read=True, write=bool(self._outbox))

    def _readable(self) -> None:
        transport = self._transport
        if transport is None:
            return
        try:
            data = transport.receive(self._framing.receive_bytes)
        except OSError:
            self._give_up()
            return
        if data == b"":
            self._give_up()
        elif data:
            self._framing.feed(data)
            self._take_frames(self._generation)

    def _take_frames(self, generation: int) -> None:
        while generation == self._generation:
            answer = self._framing.next_frame()
            if answer is None:
                return
            call = self._calls.popleft()
            assert call.response_type is not None
            assert call.deadline is not None
            call.deadline.cancel()
            key = declaration(call.response_type).api
            flexible = response_is_flexible(key, call.version)
            correlation_id, position = decode_response_header(answer, flexible)
            assert correlation_id == call.correlation_id, "answers came out of order"
            call.answered(decode(call.response_type, call.version, answer, position))
