"""SocketTransport over loopback: when a low-water mark lets it be readable."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from odradek.network.transport import HAS_LOW_WATER_MARK, SocketTransport

pytestmark = pytest.mark.skipif(not HAS_LOW_WATER_MARK, reason="the system's marks are not used")

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


def test_it_is_readable_when_the_mark_is_reached_and_not_before(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, peer = ends
    transport.set_low_water_mark(100)
    peer.sendall(b"x" * 99)
    assert not is_readable(transport, within_s=0.05)
    peer.sendall(b"x")
    assert is_readable(transport, within_s=5)
    assert transport.receive(1000) == b"x" * 100


def test_a_lower_mark_makes_it_readable_for_what_has_arrived(
    ends: tuple[SocketTransport, socket.socket],
) -> None:
    transport, peer = ends
    transport.set_low_water_mark(100)
    peer.sendall(b"x")
    assert not is_readable(transport, within_s=0.05)
    transport.set_low_water_mark(1)
    assert is_readable(transport)


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
    transport.set_low_water_mark(FAR_ABOVE_ANY_BUFFER)
    peer.setblocking(False)
    sent = 0
    while not is_readable(transport, within_s=0.01):
        try:
            sent += peer.send(bytes(1 << 20))
        except BlockingIOError:
            assert is_readable(transport, within_s=5), f"stopped after {sent} bytes"
    assert transport.receive(1000) == bytes(1000)
