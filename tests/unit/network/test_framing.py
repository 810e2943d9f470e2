"""Framing: the frames of a stream received in any pieces, with bounded memory."""

from __future__ import annotations

import struct
import sys
import tracemalloc
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.network.framing import (
    LARGE_FRAME_BYTES,
    LENGTHS_ALONE,
    RECEIVE_BYTES,
    RECEIVE_LARGE_BYTES,
    RECEIVE_WHOLE_BYTES,
    FrameError,
    Framing,
)
from unit.network.memory_network import framed

LIMIT = 10 * 1024 * 1024


def frames_of(framing: Framing, *pieces: bytes) -> list[bytes]:
    """Feed pieces one by one and take all frames after each, as a connection does."""
    frames = []
    for piece in pieces:
        framing.feed(piece)
        while framing.pending:
            frame = framing.next_frame()
            if frame is None:
                break
            frames.append(frame)
    return frames


@given(
    payloads=st.lists(
        st.integers(1, 5000).map(lambda size: bytes([size % 251]) * size), max_size=8
    ),
    data=st.data(),
)
def test_any_split_of_a_stream_yields_the_same_frames(
    payloads: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(framed(payload) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]
    framing = Framing(LIMIT)
    assert frames_of(framing, *pieces) == payloads
    assert framing.held_bytes == 0


@given(payloads=st.lists(st.binary(min_size=1, max_size=40), max_size=5), size=st.integers(1, 7))
def test_pieces_of_a_few_bytes_yield_the_same_frames(payloads: list[bytes], size: int) -> None:
    stream = b"".join(framed(payload) for payload in payloads)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert frames_of(Framing(LIMIT), *pieces) == payloads


def test_several_feeds_before_next_frame_yield_all_frames() -> None:
    framing = Framing(LIMIT)
    framing.feed(framed(b"one") + framed(b"two")[:5])
    assert framing.next_frame() == b"one"
    framing.feed(framed(b"two")[5:] + framed(b"three"))
    assert [framing.next_frame() for _ in range(3)] == [b"two", b"three", None]


def test_a_frame_does_not_keep_the_received_data_alive() -> None:
    data = framed(b"x" * 100) + framed(b"y" * 100)
    before = sys.getrefcount(data)
    framing = Framing(LIMIT)
    frames = frames_of(framing, data)
    assert len(frames) == 2
    assert sys.getrefcount(data) == before


@pytest.mark.parametrize("length", [0, -1, -(2**31), 2**31 - 1, LIMIT + 1])
def test_an_invalid_length_is_refused_as_soon_as_it_arrives(length: int) -> None:
    framing = Framing(LIMIT)
    framing.feed(framed(b"before") + struct.pack(">i", length))
    assert framing.next_frame() == b"before"
    with pytest.raises(FrameError, match=str(length)):
        framing.next_frame()


def test_a_changed_limit_applies_from_the_next_length_on() -> None:
    framing = Framing(5)
    framing.feed(framed(b"12345") + framed(b"123456"))
    assert framing.next_frame() == b"12345"
    framing.limit = 6
    assert framing.next_frame() == b"123456"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP/2"),
        (b"SSH-2.0-OpenSSH_9.2", "SSH"),
    ],
)
def test_the_error_names_the_other_protocol_of_a_client(data: bytes, said: str) -> None:
    framing = Framing(2**31 - 1)  # The first bytes of TLS are a length below this limit.
    framing.limit = LIMIT
    framing.feed(data)
    with pytest.raises(FrameError, match=said):
        framing.next_frame()


def test_a_stated_length_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        framing = Framing(2**31 - 1)
        assert frames_of(framing, struct.pack(">i", 2**31 - 1), b"0123456789") == []
        assert framing.held_bytes == 10
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_a_frame_in_tiny_pieces_costs_memory_for_its_bytes_only() -> None:
    size = 200_000
    tracemalloc.start()
    try:
        framing = Framing(LIMIT)
        framing.feed(struct.pack(">i", size))
        assert framing.next_frame() is None
        for at in range(0, size - 2, 2):
            framing.feed(struct.pack(">H", at % 65536))
        assert tracemalloc.get_traced_memory()[0] < 2 * size
    finally:
        tracemalloc.stop()
    assert frames_of(framing, b"zz")[0][-2:] == b"zz"


def test_receives_are_larger_only_inside_a_large_frame_that_fills_them() -> None:
    framing = Framing(LIMIT)
    assert framing.receive_bytes == RECEIVE_BYTES
    stream = framed(b"x" * (3 * RECEIVE_LARGE_BYTES))
    assert frames_of(framing, stream[:100]) == []
    assert framing.receive_bytes == RECEIVE_BYTES, "after a small receive the next one is small"
    assert frames_of(framing, stream[100 : 100 + RECEIVE_BYTES]) == []
    assert framing.receive_bytes == RECEIVE_LARGE_BYTES
    rest = stream[100 + RECEIVE_BYTES :]
    assert frames_of(framing, rest[: -2 * RECEIVE_BYTES]) == []
    assert framing.receive_bytes == 2 * RECEIVE_BYTES, "not past the end of the frame"
    assert frames_of(framing, rest[-2 * RECEIVE_BYTES :]) == [stream[4:]]
    assert framing.receive_bytes == RECEIVE_BYTES


def received_whole(framing: Framing, stream: bytes) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Receive a stream as a client of a fast sender does; return the frames, and the size and the
    low-water mark of each receive."""
    frames, receives, at = [], [], 0
    while at < len(stream):
        receives.append((framing.receive_bytes, framing.low_water_mark))
        frames += frames_of(framing, stream[at : at + framing.receive_bytes])
        at += receives[-1][0]
    return frames, receives


@given(
    sizes=st.lists(
        st.sampled_from([1, 100, LARGE_FRAME_BYTES - 1, LARGE_FRAME_BYTES, 3 * LARGE_FRAME_BYTES]),
        max_size=6,
    ),
    data=st.data(),
)
def test_any_split_of_a_stream_yields_the_same_frames_if_they_are_received_whole(
    sizes: list[int], data: st.DataObject
) -> None:
    payloads = [bytes([size % 251]) * size for size in sizes]
    stream = b"".join(framed(payload) for payload in payloads)
    assert received_whole(Framing(LIMIT, RECEIVE_WHOLE_BYTES), stream)[0] == payloads
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]
    framing = Framing(LIMIT, RECEIVE_WHOLE_BYTES)
    frames = []
    for end, piece in zip(accumulate(map(len, pieces)), pieces, strict=True):
        frames += frames_of(framing, piece)
        assert framing.low_water_mark <= framing.receive_bytes
        to_come = len(stream) - end
        assert framing.low_water_mark <= max(1, to_come), "else it waits for ever"
    assert frames == payloads
    assert framing.held_bytes == 0
    assert framing.low_water_mark == 1


def test_after_a_large_frame_lengths_are_received_alone_and_then_the_rest_at_once() -> None:
    size = 3 * RECEIVE_LARGE_BYTES
    large, small = framed(b"x" * size), framed(b"y" * 100)
    framing = Framing(LIMIT, RECEIVE_WHOLE_BYTES)
    frames, receives = received_whole(framing, large + large + small + large)
    assert [len(frame) for frame in frames] == [size, size, 100, size]
    rest = size + 4 - RECEIVE_BYTES
    whole = [(4, 1), (size, size)]
    assert receives == [(RECEIVE_BYTES, 1), (rest, rest), *whole, (4, 1), (100, 1), *whole]


def test_no_more_is_awaited_than_is_missing_if_a_receive_returned_less() -> None:
    size = 3 * RECEIVE_LARGE_BYTES
    framing = Framing(LIMIT, RECEIVE_WHOLE_BYTES)
    received_whole(framing, framed(b"x" * size))
    assert frames_of(framing, struct.pack(">i", size)) == []
    assert frames_of(framing, b"y" * (size - LARGE_FRAME_BYTES)) == []
    assert (framing.receive_bytes, framing.low_water_mark) == (LARGE_FRAME_BYTES,) * 2
    assert frames_of(framing, b"y" * (LARGE_FRAME_BYTES - 3)) == []
    assert (framing.receive_bytes, framing.low_water_mark) == (3, 1)
    assert frames_of(framing, b"yyy") == [b"y" * size]


def test_some_small_frames_after_a_large_one_receives_are_as_before() -> None:
    framing = Framing(LIMIT, RECEIVE_WHOLE_BYTES)
    large, small = framed(b"x" * RECEIVE_LARGE_BYTES), framed(b"y" * 100)
    received_whole(framing, large + small * (LENGTHS_ALONE - 1))
    assert (framing.receive_bytes, framing.low_water_mark) == (4, 1)
    received_whole(framing, small)
    assert (framing.receive_bytes, framing.low_water_mark) == (RECEIVE_BYTES, 1)


def test_a_frame_received_whole_is_not_copied() -> None:
    size = RECEIVE_LARGE_BYTES
    framing = Framing(LIMIT, RECEIVE_WHOLE_BYTES)
    assert frames_of(framing, framed(b"x" * size))
    assert frames_of(framing, struct.pack(">i", size)) == []
    payload = b"y" * size
    framing.feed(payload)
    assert framing.next_frame() is payload


def test_frames_that_the_system_does_not_hold_are_received_in_pieces() -> None:
    size = 3 * RECEIVE_LARGE_BYTES
    framing = Framing(LIMIT, RECEIVE_WHOLE_BYTES)
    assert frames_of(framing, struct.pack(">i", size)) == []
    assert framing.low_water_mark == size
    framing.lower_whole_bytes(size // 2)
    assert (framing.receive_bytes, framing.low_water_mark) == (RECEIVE_BYTES, 1)
    frames, receives = received_whole(framing, b"x" * size + framed(b"y" * size))
    assert frames == [b"x" * size, b"y" * size]
    assert {mark for _, mark in receives} == {1}
    assert max(count for count, _ in receives) == RECEIVE_LARGE_BYTES
    _, receives = received_whole(framing, framed(b"z" * LARGE_FRAME_BYTES) * 2)
    assert receives[-1] == (LARGE_FRAME_BYTES, LARGE_FRAME_BYTES), "smaller ones still whole"
