"""A proxy before one listener of a broker, whose network fails on demand.

    client ──► proxy ──► broker      `Direction.TO_BROKER`: requests
           ◄──       ◄──             `Direction.TO_CLIENT`: answers

Before the listener of other nodes, it knows which node a connection is from, by the client id of
its first request, and the network can fail for one of them. It runs on a thread of its own; its
methods may be called from any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 seconds: a close resets the connection."""
CLIENT_ID_AT = 14
"""What comes before the client id of a request: its size, key, version, correlation id and the
length of the client id."""
NODE_CLIENT_ID = re.compile(rb"broker-(\d+)-")
ANYONE = -1
"""Where the connections of a listener of clients are from."""


class Direction(Enum):
    """The way of bytes through the proxy."""

    TO_BROKER = "to the broker"
    TO_CLIENT = "to the clients"


class Link(NamedTuple):
    """Both connections of one that is forwarded, and the node it is from."""

    source: int
    there: asyncio.StreamWriter
    here: asyncio.StreamWriter


class Proxy:
    """Forwards connections to `target_port`. `port` is where it listens."""

    def __init__(self, target_port: int, *, of_nodes: bool = False) -> None:
        """`of_nodes`: it is before the listener of other nodes."""
        self._target_port = target_port
        self._of_nodes = of_nodes
        self._loop = asyncio.new_event_loop()
        self._links: set[Link] = set()
        self._accepted: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: set[int] = set()
        self._held: dict[Direction, set[int]] = {direction: set() for direction in Direction}
        self._healed = asyncio.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)
        try:
            self._loop.run_forever()
        finally:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            while running := asyncio.all_tasks(self._loop):
                for task in running:
                    task.cancel()
                self._loop.run_until_complete(asyncio.gather(*running, return_exceptions=True))
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()
            for connection in self._accepted:  # of tasks that had not begun
                connection.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client is gone
            return
        self._accepted.add(connection)
        task = self._loop.create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        self._accepted.discard(connection)
        try:
            await self._forward(reader, writer)
        finally:
            reset(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = b""
        if self._of_nodes:
            with contextlib.suppress(OSError):
                first = await reader.read(CHUNK)
        source = node_of(first) if self._of_nodes else ANYONE
        if source in self._refused:
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            return
        broker_reader, broker_writer = there
        link = Link(source, writer, broker_writer)
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pump(source, first, reader, broker_writer, Direction.TO_BROKER),
                self._pump(source, b"", broker_reader, writer, Direction.TO_CLIENT),
            )
        finally:
            self._links.discard(link)
            reset(broker_writer)

    async def _pump(
        self,
        source: int,
        data: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Direction,
    ) -> None:
        """Forward `data` and what is read until an end closes; then close the other end."""
        with contextlib.suppress(OSError):
            while data := data or await reader.read(CHUNK):
                while source in self._held[way]:
                    await self._healed.wait()
                writer.write(data)
                await writer.drain()
                data = b""
        if not writer.is_closing():
            writer.close()

    def _reset(self, sources: set[int]) -> None:
        for link in list(self._links):
            if link.source in sources:
                reset(link.there)
                reset(link.here)

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    # Faults

    def cut(self, *sources: int) -> None:
        """Reset the connections from these nodes, and refuse new ones until `heal`."""

        def cut() -> None:
            self._refused.update(sources or (ANYONE,))
            self._reset(self._refused)

        self._call(cut)

    def hold(self, way: Direction, *sources: int) -> None:
        """Forward nothing more in one direction until `heal`. Connections stay open."""

        def hold() -> None:
            self._healed.clear()
            self._held[way].update(sources or (ANYONE,))

        self._call(hold)

    def heal(self) -> None:
        """Forward everything again. What was held back is lost with its connections."""

        def heal() -> None:
            for held in self._held.values():
                self._reset(held)
                held.clear()
            self._refused.clear()
            self._healed.set()

        self._call(heal)


def node_of(request: bytes) -> int:
    """Return the node that sent this beginning of a request."""
    match = NODE_CLIENT_ID.match(request, CLIENT_ID_AT)
    return ANYONE if match is None else int(match[1])


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST: what was not sent is lost."""
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
