"""A real reactor on a thread of its own, with a server on loopback, for tests over sockets."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from odradek.network.connection import ConnectionLimits
from odradek.network.reactor import Reactor, SystemClock
from odradek.network.server import SocketServer
from odradek.timing.timer import SystemTimer
from unit.network.memory_network import Recorder

T = TypeVar("T")
DEADLINE_S = 30


class ServerThread:
    """A server on a reactor thread; `on_owner` calls a function there and waits for it."""

    def __init__(self, handler: Recorder, limits: ConnectionLimits | None = None) -> None:
        clock = SystemClock()
        self.timer = SystemTimer(clock.monotonic_ms())
        self.reactor = Reactor(clock, self.timer)
        self.server = SocketServer(
            self.reactor, self.reactor.call_soon, self.timer, handler, limits
        )
        self.address = self.server.listen("127.0.0.1", 0).address
        self._thread = threading.Thread(target=self.reactor.run)
        self._thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=DEADLINE_S)

    def on_owner(self, action: Callable[[], T]) -> T:
        done = threading.Event()
        results: list[T] = []

        def call() -> None:
            results.append(action())
            done.set()

        self.reactor.call_soon_threadsafe(call)
        assert done.wait(DEADLINE_S), "the loop does not respond"
        return results[0]

    def until(self, condition: Callable[[], bool]) -> None:
        """Evaluate the condition on the owner thread until it holds."""
        while not self.on_owner(condition):
            pass

    def close(self) -> None:
        self.on_owner(self.server.close)
        self.reactor.stop()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        self.reactor.close()


@contextmanager
def serving(handler: Recorder, limits: ConnectionLimits | None = None) -> Iterator[ServerThread]:
    thread = ServerThread(handler, limits)
    try:
        yield thread
    finally:
        thread.close()


def read_exactly(client: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = client.recv(min(count - len(data), 1 << 20))
        assert piece, "the connection ended"
        data += piece
    return bytes(data)


def read_frame(client: socket.socket) -> bytes:
    return read_exactly(client, struct.unpack(">i", read_exactly(client, 4))[0])
