"""A proxy between clients and one broker, whose network fails on demand.

    client ──► proxy ──► broker      `Direction.TO_BROKER`: requests
           ◄──       ◄──             `Direction.TO_CLIENT`: answers

It runs on a thread of its own; its methods may be called from any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Self

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 seconds: a close resets the connection."""


class Direction(Enum):
    """The way of bytes through the proxy."""

    TO_BROKER = "to the broker"
    TO_CLIENT = "to the clients"


class Proxy:
    """Forwards connections to `target_port`. `port` is where it listens."""

    def __init__(self) -> None:
        self.target_port = 0
        self._loop = asyncio.new_event_loop()
        self._refuses = False
        self._links: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._open = {direction: asyncio.Event() for direction in Direction}
        for event in self._open.values():
            event.set()
        self._tasks: set[asyncio.Task[None]] = set()
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
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, sock=self._listener)
        )
        try:
            self._loop.run_forever()
        finally:
            server.close()
            self._reset_all()
            for task in (running := asyncio.all_tasks(self._loop)):
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*running, return_exceptions=True))
            self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            reset(writer)
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            reset(writer)
            return
        broker_reader, broker_writer = there
        link = (writer, broker_writer)
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pump(reader, broker_writer, Direction.TO_BROKER),
                self._pump(broker_reader, writer, Direction.TO_CLIENT),
            )
        finally:
            self._links.discard(link)
            for end in link:
                reset(end)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Direction
    ) -> None:
        """Forward bytes until an end closes; then close the other end after what was read."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._open[way].wait()
                writer.write(data)
                await writer.drain()
        if not writer.is_closing():
            writer.close()

    def _reset_all(self) -> None:
        for link in list(self._links):
            for end in link:
                reset(end)

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    # Faults

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until `heal`."""

        def cut() -> None:
            self._refuses = True
            self._reset_all()

        self._call(cut)

    def hold(self, way: Direction) -> None:
        """Forward nothing more in one direction until `heal`. Connections stay open."""
        self._call(self._open[way].clear)

    def heal(self) -> None:
        """Forward everything again. What was held back is lost with its connections."""

        def heal() -> None:
            if not all(event.is_set() for event in self._open.values()):
                self._reset_all()
            self._refuses = False
            for event in self._open.values():
                event.set()

        self._call(heal)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST: what was not sent is lost."""
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
