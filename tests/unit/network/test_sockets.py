"""A server over real sockets: files, slow and failing clients, bad bytes, idle connections."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.model.byte_ranges import FileSlice
from odradek.network.connection import ConnectionLimits, Exchange
from unit.network.memory_network import Recorder, framed
from unit.network.reactor_thread import ServerThread, read_exactly, read_frame, serving


class DiskFile:
    """A file on disk that counts its pins."""

    def __init__(self, path: Path, *, descriptor: bool = True) -> None:
        self.path = str(path)
        self.fd = os.open(path, os.O_RDONLY)
        self.descriptor = descriptor
        self.pins = 0

    def slice(self, offset: int, length: int) -> FileSlice:
        self.pin()
        return FileSlice(self, offset, length)  # type: ignore[arg-type]

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self.fd, count, offset)

    def pin(self) -> int | None:
        self.pins += 1
        return self.fd if self.descriptor else None

    def unpin(self) -> None:
        assert self.pins > 0
        self.pins -= 1


class Fetching(Recorder):
    """Answers `offset length` with that slice of a file, any other request with itself."""

    def __init__(self, file: DiskFile) -> None:
        super().__init__()
        self.file = file

    def received(self, exchange: Exchange) -> None:
        super().received(exchange)
        if exchange.frame[:1].isdigit():
            offset, length = map(int, exchange.frame.split())
            exchange.respond([struct.pack(">i", length), self.file.slice(offset, length)])
        else:
            exchange.respond([framed(exchange.frame)])


CONTENT = bytes(range(256)) * 4096 * 8
"""8 MiB: more than the buffers of a loopback connection hold."""


@pytest.fixture(params=["sendfile", "read"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DiskFile]:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    file = DiskFile(path, descriptor=request.param == "sendfile")
    yield file
    assert file.pins == 0
    os.close(file.fd)


def test_slices_of_a_file_arrive_whole_and_in_order(file: DiskFile) -> None:
    with serving(Fetching(file)) as thread, thread.connect() as client:
        wanted = [(0, 10), (5, 100_000), (1_000_000, 0x4000), (1, len(CONTENT) - 1), (7, 0x4001)]
        client.sendall(b"".join(framed(b"%d %d" % slice_) for slice_ in wanted) + framed(b"end"))
        for offset, length in wanted:
            assert read_frame(client) == CONTENT[offset : offset + length]
        assert read_frame(client) == b"end"
        thread.until(lambda: file.pins == 0)


def test_a_file_shorter_than_its_slice_closes_the_connection(file: DiskFile) -> None:
    with serving(Fetching(file)) as thread, thread.connect() as client:
        client.sendall(framed(b"%d %d" % (len(CONTENT) - 10, 100_000)))
        assert struct.unpack(">i", read_exactly(client, 4)) == (100_000,)
        assert len(client.recv(100_000)) == 10
        assert client.recv(1) == b""


def test_a_client_that_does_not_read_costs_bounded_memory_and_is_closed(file: DiskFile) -> None:
    limits = ConnectionLimits(stalled_timeout_ms=3_000)
    handler = Fetching(file)
    with serving(handler, limits) as thread, thread.connect() as client, thread.connect() as other:
        client.sendall(framed(b"%d %d" % (0, len(CONTENT))) * 100)
        thread.until(lambda: any(c.blocked for c in thread.server.connections.values()))
        other.sendall(framed(b"others are served"))
        assert read_frame(other) == b"others are served"
        thread.until(lambda: thread.server.counters.stalled_closed == 1)
        assert len(handler.frames) <= 3, "its other requests were not read"
        thread.until(lambda: len(thread.server.connections) == 1)


def test_a_client_that_reads_slowly_gets_everything(file: DiskFile) -> None:
    with serving(Fetching(file)) as thread, thread.connect() as client:
        client.sendall(framed(b"%d %d" % (0, len(CONTENT))))
        thread.until(lambda: any(c.blocked for c in thread.server.connections.values()))
        assert read_exactly(client, 4) == struct.pack(">i", len(CONTENT))
        assert b"".join(read_exactly(client, 4096) for _ in range(2048)) == CONTENT


@pytest.fixture
def echo() -> Iterator[ServerThread]:
    with serving(Recorder(echo=True)) as thread:
        yield thread


def test_a_request_sent_byte_by_byte_is_answered(echo: ServerThread) -> None:
    with echo.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in framed(b"one by one") + framed(b"again"):
            client.send(bytes([byte]))
        assert [read_frame(client), read_frame(client)] == [b"one by one", b"again"]


def test_a_large_request_arrives_whole(echo: ServerThread) -> None:
    with echo.connect() as client:
        client.sendall(framed(b"first"))
        assert read_frame(client) == b"first"
        payload = CONTENT[:5_000_000]
        client.sendall(framed(payload))
        assert read_frame(client) == payload


def test_many_pipelined_requests_are_answered(echo: ServerThread) -> None:
    payloads = [b"%d" % number for number in range(5000)]
    with echo.connect() as client:
        client.sendall(b"".join(framed(payload) for payload in payloads))
        assert [read_frame(client) for _ in payloads] == payloads


def reset(client: socket.socket) -> None:
    """Close the socket with a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("sent", [b"", b"\0", framed(b"half")[:6], framed(b"whole")])
def test_a_reset_releases_the_connection_and_others_are_served(
    echo: ServerThread, sent: bytes
) -> None:
    client = echo.connect()
    client.sendall(sent)
    echo.until(lambda: echo.server.counters.bytes_in == len(sent))
    reset(client)
    echo.until(lambda: not echo.server.connections)
    with echo.connect() as other:
        other.sendall(framed(b"still there?"))
        assert read_frame(other) == b"still there?"


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 65537),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\xff" * 1000,
    ],
)
def test_invalid_bytes_close_the_connection_and_others_are_served(
    echo: ServerThread, sent: bytes
) -> None:
    with echo.connect() as client:
        client.sendall(sent)
        with contextlib.suppress(ConnectionResetError):  # The server closed with unread bytes.
            assert client.recv(1) == b""
    with echo.connect() as other:
        other.sendall(framed(b"still there?"))
        assert read_frame(other) == b"still there?"


def test_one_client_is_served_beside_two_thousand_idle_connections(echo: ServerThread) -> None:
    clients = []
    try:
        for _ in range(2000):
            client = echo.connect()
            client.sendall(framed(b"x"))
            clients.append(client)
        for client in clients:
            assert read_frame(client) == b"x"
        idle = echo.on_owner(lambda: echo.reactor.wakeups)
        with echo.connect() as active:
            active.sendall(framed(b"hello"))
            assert read_frame(active) == b"hello"
            assert echo.on_owner(lambda: echo.reactor.wakeups) - idle < 50
        echo.until(lambda: len(echo.server.connections) == 2000)
        assert echo.on_owner(lambda: echo.timer.size) == 2000, "one timer each"
    finally:
        for client in clients:
            client.close()
    echo.until(lambda: not echo.server.connections)
    assert echo.on_owner(lambda: echo.timer.size) == 0
