"""One connection: frames in pieces of any size, output as the transport takes it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest

from odradek.model.env import Buffer, Transport
from odradek.network.framing import LARGE_FRAME_BYTES
from odradek.network_client.channel import MAX_RESPONSE_BYTES, Channel
from odradek.network_client.network_metrics import NodeMetrics


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class FakeTransport:
    """A transport and its network; the test sets what arrives and what fits."""

    peer = ("broker", 9092)

    def __init__(self) -> None:
        self.arriving: list[bytes | OSError] = []
        self.capacity = 1 << 40
        self.sent = bytearray()
        self.error: OSError | None = None
        self.closed = False
        self.watched = False
        self.write = False
        self.frames: list[bytes] = []
        self.drained = 0
        self.low_water_mark = 1
        self.held_bytes = 1 << 30
        """How many received bytes the system holds."""
        self.ended: list[str] = []
        self.metrics = NodeMetrics(None)
        self.channel = Channel(self, self, self.frames.append, self.ended.append, self.metrics)  # type: ignore[arg-type]
        self.channel.hand_over(self.frames.append, self.on_drained, self.ended.append)

    def on_drained(self) -> None:
        self.drained += 1

    # The network.

    def register(
        self, transport: Transport, readable: Callable[[], None], writable: Callable[[], None]
    ) -> None:
        self.readable, self.writable, self.watched = readable, writable, True

    def set_interest(self, transport: Transport, *, read: bool, write: bool) -> None:
        assert read, "answers are always wanted"
        self.write = write

    def unregister(self, transport: Transport) -> None:
        self.watched = False

    # The transport.

    def receive(self, count: int) -> bytes | None:
        if not self.arriving:
            return None
        found = self.arriving.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    def set_low_water_mark(self, count: int) -> int:
        self.low_water_mark = min(count, self.held_bytes)
        return self.low_water_mark

    def send(self, parts: Sequence[Buffer], *, more: bool = False) -> int:
        if self.error is not None:
            raise self.error
        taken = b"".join(parts)[: self.capacity - len(self.sent)]
        self.sent += taken
        return len(taken)

    def close(self) -> None:
        assert not self.closed
        self.closed = True

    # The test.

    def arrive(self, *pieces: bytes | OSError) -> None:
        for piece in pieces:
            self.arriving.append(piece)
            self.readable()


def test_frames_come_out_whole_however_they_arrive() -> None:
    wire = FakeTransport()
    data = framed(b"one") + framed(b"two" * 1000) + framed(b"three")
    wire.arrive(*[data[i : i + 7] for i in range(0, len(data), 7)])
    assert wire.frames == [b"one", b"two" * 1000, b"three"]
    wire.arrive(framed(b"four") + framed(b"five"))
    assert wire.frames[3:] == [b"four", b"five"]


def test_inside_a_large_frame_the_transport_waits_for_the_rest() -> None:
    wire = FakeTransport()
    data = framed(b"x" * (2 * LARGE_FRAME_BYTES))
    wire.arrive(data[:100])
    assert wire.low_water_mark == len(data) - 100
    wire.arrive(data[100:])
    assert wire.low_water_mark == 1
    assert wire.frames == [data[4:]]


def test_a_frame_larger_than_the_system_holds_is_taken_as_it_arrives() -> None:
    wire = FakeTransport()
    wire.held_bytes = LARGE_FRAME_BYTES
    large, small = framed(b"x" * (3 * LARGE_FRAME_BYTES)), framed(b"y" * LARGE_FRAME_BYTES)
    wire.arrive(large[:100])
    assert wire.low_water_mark == 1
    wire.arrive(large[100:])
    wire.arrive(small[:4])
    assert wire.low_water_mark == LARGE_FRAME_BYTES, "smaller ones are awaited"
    wire.arrive(small[4:])
    assert wire.low_water_mark == 1
    assert wire.frames == [large[4:], small[4:]]


def test_a_sent_frame_leaves_at_once_and_drained_is_called() -> None:
    wire = FakeTransport()
    wire.channel.send([b"head", b"body"])
    assert bytes(wire.sent) == b"headbody" and wire.drained == 1
    assert not wire.channel.blocked and not wire.write


def test_bytes_that_the_transport_does_not_take_wait() -> None:
    wire = FakeTransport()
    wire.capacity = 3
    wire.channel.send([b"first"])
    wire.channel.send([b"second"])
    assert wire.channel.blocked and wire.write
    assert wire.channel.queued_bytes == 8 and not wire.drained
    wire.capacity = 6
    wire.writable()
    assert wire.channel.blocked
    wire.capacity = 100
    wire.writable()
    assert bytes(wire.sent) == b"firstsecond"
    assert not wire.channel.blocked and not wire.write and wire.drained == 1


@pytest.mark.parametrize(
    ("arriving", "reason"),
    [
        (b"", "closed the connection"),
        (ConnectionResetError("reset"), "receiving failed: reset"),
        (struct.pack(">i", MAX_RESPONSE_BYTES + 1), "is this port a TLS listener"),
        (b"HTTP/1.1 400 Bad Request\r\n", "is this port a TLS listener"),
        (bytes.fromhex("15030300020228"), "is this port a TLS listener"),
        (struct.pack(">i", -1), "no Kafka response"),
    ],
)
def test_the_end_is_reported_once_with_its_reason(arriving: bytes | OSError, reason: str) -> None:
    wire = FakeTransport()
    wire.arrive(arriving)
    assert len(wire.ended) == 1 and reason in wire.ended[0]
    assert wire.closed and not wire.watched and not wire.channel.open
    wire.channel.close()


def test_a_failed_send_closes_the_channel() -> None:
    wire = FakeTransport()
    wire.error = BrokenPipeError("broken")
    wire.channel.send([b"x"])
    assert wire.ended == ["sending failed: broken"]


def test_close_does_not_call_closed() -> None:
    wire = FakeTransport()
    wire.channel.close()
    wire.channel.close()
    assert wire.closed and not wire.ended


def test_frames_behind_one_that_closed_the_channel_are_dropped() -> None:
    wire = FakeTransport()
    frames: list[bytes] = []

    def received(frame: bytes) -> None:
        frames.append(frame)
        wire.channel.close()

    wire.channel.hand_over(received, wire.on_drained, wire.ended.append)
    wire.arrive(framed(b"one") + framed(b"two"))
    assert frames == [b"one"]
