"""The connections between replicas: framed messages, answered in order, with deadlines.

A message travels as a frame with its number, padded to about its real size; the object itself stays
in the run's `Mailbox`. An answer is a response and the records of a fetch, as bytes. So what is
simulated is the connection (segments, latency, cuts, resets, half-open ends), not an encoding.

    PeerConnection   to one peer: connects when there is something to send, fails what is under way
                     when the connection ends or a deadline passes
    PeerServer       answers requests in the order in which they came, each when it is ready
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from odradek.model.env import Transport
from odradek.network.framing import Framing
from odradek.testing.network import SimNetwork
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, ScheduledEvent
from odradek.testing.transport import SimTransport

MAX_FRAME_BYTES = 1 << 20
REQUEST_BYTES = 100


@dataclass(slots=True, eq=False)
class Mailbox:
    """The messages of a run that are on their way, by number."""

    _messages: dict[int, object] = field(default_factory=dict)
    _next: int = 0

    def put(self, message: object) -> bytes:
        """Return the frame of a message."""
        self._next += 1
        self._messages[self._next] = message
        records = message[1] if isinstance(message, tuple) else b""
        data = self._next.to_bytes(8, "big") + bytes(REQUEST_BYTES + len(records))
        return len(data).to_bytes(4, "big") + data

    def take(self, frame: bytes) -> object:
        """Return the message of a frame that has arrived."""
        return self._messages.pop(int.from_bytes(frame[:8], "big"))


@dataclass(slots=True, eq=False)
class FramedTransport:
    """Sends and receives frames over one transport; `ended` is called once."""

    network: SimNetwork
    transport: SimTransport
    received: Callable[[bytes], None]
    ended: Callable[[], None]
    _framing: Framing = field(default_factory=lambda: Framing(MAX_FRAME_BYTES))
    _outbox: bytearray = field(default_factory=bytearray)
    _over: bool = False

    def __post_init__(self) -> None:
        self.network.register(self.transport, self._readable, self._write)

    def send(self, frame: bytes) -> None:
        self._outbox += frame
        self._write()

    def close(self) -> None:
        """Close, and tell `ended`."""
        if not self._over:
            self._over = True
            self.network.unregister(self.transport)
            self.transport.close()
            self.ended()

    def _write(self) -> None:
        if self._over:
            return
        try:
            if self._outbox:
                del self._outbox[: self.transport.send([bytes(self._outbox)])]
        except OSError:
            self.close()
            return
        self.network.set_interest(self.transport, read=True, write=bool(self._outbox))

    def _readable(self) -> None:
        try:
            data = self.transport.receive(self._framing.receive_bytes)
        except OSError:
            data = b""
        if data == b"":
            self.close()
        elif data:
            self._framing.feed(data)
            while not self._over:
                frame = self._framing.next_frame()
                if frame is None:
                    return
                self.received(bytes(frame))


@dataclass(slots=True, eq=False)
class PendingCall:
    """A request under way; exactly one of the two is called."""

    message: object
    answered: Callable[[object], None]
    failed: Callable[[], None]
    deadline: ScheduledEvent | None = None


@dataclass(slots=True, eq=False)
class PeerConnection:
    """Requests to one peer, over one connection at a time. `closed`: it was made, and ended."""

    process: SimProcess
    network: SimNetwork
    mailbox: Mailbox
    host: str
    port: int
    timeout_ms: int
    closed: Callable[[], None]
    _framed: FramedTransport | None = None
    _give_up: Callable[[], None] | None = None
    _calls: deque[PendingCall] = field(default_factory=deque)

    def call(
        self, message: object, answered: Callable[[object], None], failed: Callable[[], None]
    ) -> None:
        """Send a request."""
        call = PendingCall(message, answered, failed)
        call.deadline = self.process.post(self.timeout_ms * MS, "deadline", self._end)
        self._calls.append(call)
        if self._framed is not None:
            self._framed.send(self.mailbox.put(message))
        elif self._give_up is None:
            self._give_up = self.network.connect(
                self.host, self.port, self._connected, lambda _: self._end()
            )

    def _connected(self, transport: SimTransport) -> None:
        self._give_up = None
        self._framed = FramedTransport(self.network, transport, self._received, self._ended)
        for call in list(self._calls):
            if self._framed is not None:
                self._framed.send(self.mailbox.put(call.message))

    def _received(self, frame: bytes) -> None:
        call = self._calls.popleft()
        assert call.deadline is not None
        call.deadline.cancel()
        call.answered(self.mailbox.take(frame))

    def _end(self) -> None:
        """Close the connection, or give up the attempt at one; every call fails."""
        if self._give_up is not None:
            give_up, self._give_up = self._give_up, None
            give_up()
            self._fail_calls()
        elif self._framed is not None:
            self._framed.close()
        else:
            self._fail_calls()

    def _ended(self) -> None:
        self._framed = None
        self._fail_calls()
        self.closed()

    def _fail_calls(self) -> None:
        calls, self._calls = self._calls, deque()
        for call in calls:
            if call.deadline is not None:
                call.deadline.cancel()
        for call in calls:
            call.failed()


class PeerRequest:
    """A request that was received; `answer` may be called once, at any time."""

    def __init__(self, connection: IncomingConnection, message: object) -> None:
        self.message = message
        self._connection = connection
        self._frame: bytes | None = None

    def answer(self, response: object) -> None:
        self._frame = self._connection.mailbox.put(response)
        self._connection.flush()

    def refuse(self) -> None:
        """Close the connection instead of an answer."""
        self._connection.close()

    def take_frame(self) -> bytes | None:
        return self._frame


class IncomingConnection:
    """A connection that a peer made."""

    def __init__(
        self,
        network: SimNetwork,
        mailbox: Mailbox,
        transport: SimTransport,
        received: Callable[[PeerRequest], None],
    ) -> None:
        self.mailbox = mailbox
        self._received = received
        self._open: deque[PeerRequest] = deque()
        self._over = False
        self._framed = FramedTransport(network, transport, self._take, self._end)

    def _take(self, frame: bytes) -> None:
        request = PeerRequest(self, self.mailbox.take(frame))
        self._open.append(request)
        self._received(request)

    def _end(self) -> None:
        self._over = True

    def close(self) -> None:
        self._framed.close()

    def flush(self) -> None:
        """Send the answers that are next in the order of their requests."""
        while self._open and not self._over:
            frame = self._open[0].take_frame()
            if frame is None:
                return
            self._open.popleft()
            self._framed.send(frame)


def serve(
    network: SimNetwork, port: int, mailbox: Mailbox, received: Callable[[PeerRequest], None]
) -> None:
    """Accept the connections of peers."""

    def accepted(transport: Transport) -> None:
        assert isinstance(transport, SimTransport)
        IncomingConnection(network, mailbox, transport, received)

    network.listen("0.0.0.0", port, accepted)
