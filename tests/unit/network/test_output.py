"""OutputQueue: bytes leave in order with few calls; every file slice is released once."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.network.output import BLOCKED, DONE, INLINE_BYTES, JOIN_BYTES, YIELDED, OutputQueue
from unit.network.memory_network import UNBOUNDED, MemoryTransport, PinnedFile

SHARE = 1024 * 1024
LONG = INLINE_BYTES + 1


def transport(capacity: int = UNBOUNDED) -> MemoryTransport:
    return MemoryTransport(("10.0.0.1", 1), capacity)


def test_small_parts_leave_in_one_call() -> None:
    out, to = OutputQueue(), transport()
    out.append([b"a", b"bc"])
    out.append([b"def"])
    assert out.flush(to, SHARE) == DONE
    assert (bytes(to.outbox), to.sends, out.queued_bytes) == (b"abcdef", [6], 0)


def test_bytes_that_a_full_transport_did_not_take_leave_later() -> None:
    out, to = OutputQueue(), transport(capacity=4)
    out.append([b"abc", b"def"])
    assert out.flush(to, SHARE) == BLOCKED
    assert out.queued_bytes == 2
    to.capacity = UNBOUNDED
    assert out.flush(to, SHARE) == DONE
    assert bytes(to.outbox) == b"abcdef"


def test_a_long_slice_is_sent_alone_and_released_after_its_last_byte() -> None:
    file = PinnedFile(bytes(range(256)) * 1000)
    out, to = OutputQueue(), transport(capacity=LONG)
    out.append([b"head", file.slice(10, LONG), b"tail"])
    assert out.flush(to, SHARE) == BLOCKED
    assert file.pins == 1
    to.capacity = UNBOUNDED
    assert out.flush(to, SHARE) == DONE
    assert file.pins == 0
    assert bytes(to.outbox) == b"head" + file.data[10 : 10 + LONG] + b"tail"


def test_a_short_slice_is_sent_with_its_neighbours() -> None:
    file = PinnedFile(b"0123456789")
    out, to = OutputQueue(), transport()
    out.append([b"head", file.slice(2, 3), b"tail"])
    assert out.flush(to, SHARE) == DONE
    assert (bytes(to.outbox), to.sends, file.pins) == (b"head234tail", [11], 0)


def test_an_empty_slice_is_released_at_once() -> None:
    file = PinnedFile(b"")
    out = OutputQueue()
    out.append([file.slice(0, 0)])
    assert (out.queued_bytes, file.pins) == (0, 0)


def test_flush_sends_its_share_and_yields() -> None:
    file = PinnedFile(b"x" * 10_000_000)
    out, to = OutputQueue(), transport()
    out.append([file.slice(0, 2_500_000)])
    ends = []
    while out.queued_bytes:
        ends.append(out.flush(to, 1_000_000))
    assert ends == [YIELDED, YIELDED, DONE]
    assert to.sends == [1_000_000, 1_000_000, 500_000]


@pytest.mark.parametrize("length", [10, LONG])
def test_a_disk_error_is_raised_and_discard_releases_the_slices(length: int) -> None:
    file = PinnedFile(b"x" * LONG)
    out = OutputQueue()
    out.append([b"head", file.slice(0, length), file.slice(0, LONG)])
    file.broken = OSError(errno.EIO, "broken disk")
    with pytest.raises(OSError, match="broken disk"):
        out.flush(transport(), SHARE)
    out.discard()
    assert (file.pins, out.queued_bytes) == (0, 0)


def test_a_file_shorter_than_its_slice_is_an_os_error() -> None:
    file = PinnedFile(b"short")
    out = OutputQueue()
    out.append([file.slice(0, 10)])
    with pytest.raises(OSError, match="ends before byte 10"):
        out.flush(transport(), SHARE)


SIZES = st.sampled_from([0, 1, 50, 1000, INLINE_BYTES, JOIN_BYTES - 1, 3 * LONG])
PARTS = st.lists(st.tuples(st.sampled_from(["bytes", "slice"]), SIZES), max_size=10)


@given(
    answers=st.lists(PARTS, max_size=4),
    room=st.integers(2000, 3 * LONG),
    share=st.integers(2000, 99_999),
)
def test_any_parts_and_any_capacity_send_the_bytes_in_order(
    answers: list[list[tuple[str, int]]], room: int, share: int
) -> None:
    file = PinnedFile(bytes(range(256)) * 400)
    out, to = OutputQueue(), transport(room)
    expected, got = bytearray(), bytearray()
    for offset, answer in enumerate(answers):
        for kind, size in answer:
            data = file.read(offset, size)
            out.append([data if kind == "bytes" else file.slice(offset, size)])
            expected += data
    while out.queued_bytes:
        end = out.flush(to, share)
        assert end != BLOCKED or len(to.outbox) == room
        assert (end == DONE) == (out.queued_bytes == 0)
        got += to.outbox
        to.outbox.clear()
    assert got == expected
    assert file.pins == 0
