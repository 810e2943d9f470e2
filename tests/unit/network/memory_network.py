"""A network in memory for unit tests: simulated time, no blocking, the test moves every byte.

`MemoryNetwork` is a `model.env.Network` with its own loop. A `Client` is the test's end of a
connection; its `MemoryTransport` is the server's.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence

from odradek.model.byte_ranges import FileSlice
from odradek.model.env import SYSTEM_BUFFERS, Buffer, File, SocketBuffers, Transport
from odradek.network.connection import Connection, ConnectionLimits, Exchange
from odradek.network.server import SocketServer
from odradek.timing.timer import SystemTimer

UNBOUNDED = 2**40
SPINNING = 100_000


def framed(payload: bytes) -> bytes:
    """Return a payload as a frame: its length, then its bytes."""
    return struct.pack(">i", len(payload)) + payload


class PinnedFile:
    """A file in memory that counts its pins."""

    path = "a file"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pins = 0
        self.broken: OSError | None = None

    def slice(self, offset: int, length: int) -> FileSlice:
        self.pin()
        return FileSlice(self, offset, length)  # type: ignore[arg-type]

    def read(self, offset: int, count: int) -> bytes:
        if self.broken is not None:
            raise self.broken
        return self.data[offset : offset + count]

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        assert self.pins > 0, "released more than once"
        self.pins -= 1


class MemoryTransport:
    """The server's end of a connection."""

    def __init__(self, peer: tuple[str, int], capacity: int = UNBOUNDED) -> None:
        self.peer = peer
        self.capacity = capacity
        """The capacity between the server's `send` and the client's `read`, in bytes."""
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.sends: list[int] = []
        """The number of bytes that each `send` and `send_file` took."""
        self.ended = False
        self.error: OSError | MemoryError | None = None
        self.closed = False
        self.readable: Callable[[], None] | None = None
        self.writable: Callable[[], None] | None = None
        self.read = self.write = False

    def receive(self, count: int) -> bytes | None:
        assert not self.closed
        if self.error is not None:
            raise self.error
        if not self.inbox:
            return b"" if self.ended else None
        data = bytes(self.inbox[:count])
        del self.inbox[:count]
        return data

    def set_low_water_mark(self, count: int) -> int:
        raise AssertionError("the server takes what has arrived")

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        assert not self.closed
        if self.error is not None:
            raise self.error
        room = self.capacity - len(self.outbox)
        data = b"".join(parts)[: max(0, room)]
        self.outbox += data
        self.sends.append(len(data))
        return len(data)

    def send_file(self, file: File, offset: int, count: int) -> int:
        return self.send([file.read(offset, count)])

    def close(self) -> None:
        assert not self.closed
        self.closed = True

    def handle(self) -> bool:
        """Call the due callbacks, level-triggered; True if there was one."""
        due = False
        if self.readable and self.read and (self.inbox or self.ended or self.error):
            due = True
            self.readable()
        if self.writable and self.write and (len(self.outbox) < self.capacity or self.error):
            due = True
            self.writable()
        return due


class MemoryNetwork:
    """Transports, a timer and a loop. `rounds` counts the rounds with work."""

    def __init__(self) -> None:
        self.timer = SystemTimer(0)
        self.rounds = 0
        self.interest_changes = 0
        self.transports: list[MemoryTransport] = []
        self._accepted: Callable[[Transport], None] | None = None
        self._soon: deque[Callable[[], None]] = deque()

    # The Network protocol, and call_soon.

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Transport], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> MemoryListening:
        self._accepted = accepted
        return MemoryListening()

    def register(
        self, transport: Transport, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        assert isinstance(transport, MemoryTransport)
        transport.readable, transport.writable = readable, writable
        transport.read, transport.write = True, False
        self.transports.append(transport)

    def set_interest(self, transport: Transport, *, read: bool, write: bool) -> None:
        assert isinstance(transport, MemoryTransport)
        assert (transport.read, transport.write) != (read, write), "a needless system call"
        transport.read, transport.write = read, write
        self.interest_changes += 1

    def unregister(self, transport: Transport) -> None:
        assert isinstance(transport, MemoryTransport)
        self.transports.remove(transport)
        transport.readable = transport.writable = None

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    # For tests.

    def connect(self, address: str = "10.0.0.1", capacity: int = UNBOUNDED) -> Client:
        assert self._accepted is not None
        transport = MemoryTransport((address, 1000 + len(self.transports)), capacity)
        self._accepted(transport)
        return Client(self, transport)

    def run(self) -> None:
        """Run until nothing is due at this time."""
        for _ in range(SPINNING):
            if not self.run_once():
                return
        raise AssertionError("the server spins")

    def run_once(self) -> bool:
        """Run one round of the loop; True if there was work."""
        due = sum(transport.handle() for transport in list(self.transports)) > 0
        soon, self._soon = self._soon, deque()
        for callback in soon:
            callback()
        self.rounds += bool(due or soon)
        return bool(due or soon)

    def pass_time(self, ms: int) -> None:
        """Sleep as the reactor does, deadline by deadline."""
        end_ms = self.timer.now_ms + ms
        self.run()
        while (deadline := self.timer.next_deadline_ms()) is not None and deadline <= end_ms:
            self.timer.advance_clock(deadline)
            self.run()
        self.timer.advance_clock(end_ms)


class MemoryListening:
    address = ("memory", 0)

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Client:
    """The client's end of a connection. Each call runs the loop until nothing is due."""

    def __init__(self, network: MemoryNetwork, transport: MemoryTransport) -> None:
        self.network = network
        self.transport = transport

    @property
    def open(self) -> bool:
        return not self.transport.closed

    def send(self, data: bytes) -> None:
        self.transport.inbox += data
        self.network.run()

    def request(self, payload: bytes) -> None:
        self.send(framed(payload))

    def read(self, count: int = UNBOUNDED) -> bytes:
        data = bytes(self.transport.outbox[:count])
        del self.transport.outbox[:count]
        self.network.run()
        return data

    def end(self) -> None:
        self.transport.ended = True
        self.network.run()

    def fail(self, error: OSError | MemoryError) -> None:
        self.transport.error = error
        self.network.run()


class Recorder:
    """A handler that records requests and connections; `echo` answers at once."""

    def __init__(self, *, echo: bool = False) -> None:
        self.echo = echo
        self.exchanges: list[Exchange] = []
        self.frames: list[bytes] = []
        self.connections: list[Connection] = []
        self.disconnections: list[Connection] = []

    def received(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.frames.append(exchange.frame)
        if exchange.frame == b"bug":
            raise ZeroDivisionError("a bug")
        if self.echo:
            exchange.respond([framed(exchange.frame)])

    def connected(self, connection: Connection) -> None:
        self.connections.append(connection)

    def disconnected(self, connection: Connection) -> None:
        self.disconnections.append(connection)


def serve(
    handler: Recorder, limits: ConnectionLimits | None = None
) -> tuple[MemoryNetwork, SocketServer]:
    """Return a server on a network of its own."""
    network = MemoryNetwork()
    server = SocketServer(network, network.call_soon, network.timer, handler, limits)  # type: ignore[arg-type]
    server.listen("memory", 0)
    return network, server


def others_are_served(client: Client) -> bool:
    """True if the server answers a new client."""
    other = client.network.connect("10.9.9.9")
    other.request(b"still there?")
    return other.read() == framed(b"still there?")
