"""SocketTransport over loopback: low-water marks, and what a `Channel` makes of them."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from odradek.network.framing import LARGE_FRAME_BYTES
from odradek.network.transport import (
    HAS_LOW_WATER_MARKS,
    SocketTransport,
    has_low_water_marks,
)
from odradek.network_client.channel import Channel
from odradek.network_client.network_metrics import NodeMetrics
from unit.network.memory_network import framed

with_marks = pytest.mark.skipif(not HAS_LOW_WATER_MARKS, reason="the system's marks are not used")

FAR_ABOVE_ANY_BUFFER = 1 << 30


@pytest.fixture
def ends() -> Iterator[tuple[SocketTransport, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    transport = SocketTransport(ours)
    with theirs:
        yield transport, theirs
    transport.close()


def is_readable(transport: SocketTransport, within_s: float = 0) -> bool:
    return bool(select.select([transport.fileno()], [], [], within_s)[0])


@with_marks
def test_it_is_readable_when_the_mark_is_reached_and_not_before(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, peer = ends
    assert transport.set_low_water_mark(100) == 100
    peer.sendall(b"x" * 99)
    assert not is_readable(transport, within_s=0.05)
    peer.sendall(b"x")
    assert is_readable(transport, within_s=5)
    assert transport.receive(1000) == b"x" * 100


@with_marks
def test_a_lower_mark_makes_it_readable_for_what_has_arrived(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, peer = ends
    transport.set_low_water_mark(100)
    peer.sendall(b"x")
    assert not is_readable(transport, within_s=0.05)
    transport.set_low_water_mark(1)
    assert is_readable(transport)


class RecordingSocket(socket.socket):
    """Records the options that are set."""

    options: list[int]

    def setsockopt(self, level: int, option: int, *value: Any) -> None:
        self.options.append(option)
        super().setsockopt(level, option, *value)


@with_marks
@pytest.mark.parametrize(
    ("mark", "options"),
    [(1, [socket.SO_RCVLOWAT]), (100, [socket.SO_RCVLOWAT, socket.TCP_QUICKACK])],
)
def test_what_arrived_before_a_mark_is_acknowledged_when_the_mark_is_set(
    mark: int, options: list[int]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected = socket.create_connection(server.getsockname())
        with RecordingSocket(fileno=connected.detach()) as recording:
            recording.options = []
            transport = SocketTransport(recording)
            recording.options.clear()
            assert transport.set_low_water_mark(mark) == mark
            assert recording.options == options


@with_marks
def test_the_end_of_the_stream_is_reported_below_the_mark(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, peer = ends
    transport.set_low_water_mark(100)
    peer.sendall(b"x")
    peer.close()
    assert is_readable(transport, within_s=5)
    assert transport.receive(1000) == b"x"
    assert transport.receive(1000) == b""


def test_a_mark_above_the_receive_buffer_does_not_stop_the_stream(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, peer = ends
    assert transport.set_low_water_mark(FAR_ABOVE_ANY_BUFFER) < FAR_ABOVE_ANY_BUFFER
    peer.setblocking(False)
    sent = 0
    while not is_readable(transport, within_s=0.01):
        try:
            sent += peer.send(bytes(1 << 20))
        except BlockingIOError:
            assert is_readable(transport, within_s=5), f"stopped after {sent} bytes"
    assert transport.receive(1000) == bytes(1000)


@pytest.mark.parametrize(
    ("system", "release", "has"),
    [
        ("linux", "5.10.0-28-amd64", True),
        ("linux", "6.1", True),
        ("linux", "5.4.0-150-generic", False),
        ("linux", "4.18.0-513.el8.x86_64", False),
        ("linux", "unknown", False),
        ("darwin", "23.5.0", False),
    ],
)
def test_marks_are_used_where_the_system_lowers_those_that_it_cannot_wait_for(
    system: str, release: str, has: bool
) -> None:
    assert has_low_water_marks(system, release) is has


class PolledNetwork:
    """Calls a transport's callback while it is readable."""

    readable: Callable[[], None]

    def register(
        self, transport: SocketTransport, readable: Callable[[], None], _: Callable[[], None]
    ) -> None:
        self.readable = readable

    def set_interest(self, transport: SocketTransport, *, read: bool, write: bool) -> None:
        raise AssertionError("nothing is sent")

    def unregister(self, transport: SocketTransport) -> None:
        raise AssertionError("the channel stays open")


@pytest.mark.parametrize("receive_buffer", [None, 16 * 1024])
def test_a_channel_receives_large_and_small_frames_in_any_order(
    ends: tuple[SocketTransport, socket.socket], receive_buffer: int | None
) -> None:
    transport, peer = ends
    if receive_buffer is not None:
        with socket.socket(fileno=os.dup(transport.fileno())) as ours:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sizes = [10, 8 * LARGE_FRAME_BYTES, 10, 2 * LARGE_FRAME_BYTES, 3 * LARGE_FRAME_BYTES, 1, 1]
    payloads = [bytes([index]) * size for index, size in enumerate(sizes)]
    frames: list[bytes] = []
    ended: list[str] = []
    network = PolledNetwork()
    Channel(network, transport, frames.append, ended.append, NodeMetrics(None))  # type: ignore[arg-type]
    sender = Thread(target=peer.sendall, args=(b"".join(map(framed, payloads)),))
    sender.start()
    while len(frames) < len(payloads):
        assert is_readable(transport, within_s=20), f"{len(frames)} frames came"
        network.readable()
    sender.join()
    assert frames == payloads and not ended
