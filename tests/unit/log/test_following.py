"""A follower's log: batches as the leader sent them, its log start, truncation and restarts."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition
from unit.log.log_making import SMALL, batch, fill, new_log, offsets, read

KEY = TopicIdPartition(UUID(int=5 << 64), 0)
ROOMY = LogConfig()


def leader(batches: int = 6, *, epoch: int = 0) -> Log:
    """A leader's log with batches of two records."""
    log = new_log(MemoryDisk(), ROOMY)
    fill(log, batches, epoch=epoch)
    return log


def fetched(log: Log, offset: int = 0) -> ByteRange:
    """What a fetch at `offset` returns, in a frame with other bytes around it."""
    data = read(log, offset)
    return ByteRange(b"head" + data + b"tail", 4, 4 + len(data))


def test_batches_of_a_leader_are_appended_byte_for_byte():
    source, log = leader(), new_log(MemoryDisk(), ROOMY)
    info = log.append_as_follower(fetched(source), 0, now_ms=0)
    assert (info.error, info.base_offset, info.last_offset) == (ErrorCode.NONE, 0, 11)
    assert read(log, 0) == read(source, 0)
    assert log.log_end_offset == 12


def test_one_fetch_fills_several_segments_at_whole_batches():
    source, log = leader(40), new_log(MemoryDisk(), SMALL)
    log.append_as_follower(fetched(source), 0, now_ms=0)
    assert len(log.segments) > 3
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments.items)
    whole = b"".join(read(log, segment.base_offset) for segment in log.segments.items[:1])
    assert whole == read(source, 0)
    assert log.offset_for_timestamp(30_000, log.log_end_offset) is not None


def test_a_batch_larger_than_a_segment_gets_one_of_its_own():
    source, log = new_log(MemoryDisk(), ROOMY), new_log(MemoryDisk(), SMALL)
    source.append(batch(size=20), 0, now_ms=0)
    source.append(batch(size=3000), 0, now_ms=0)
    source.append(batch(size=20), 0, now_ms=0)
    log.append_as_follower(fetched(source), 0, now_ms=0)
    assert [segment.base_offset for segment in log.segments.items] == [0, 1, 2]


def test_leader_epochs_and_producers_are_those_of_the_batches():
    source, log = new_log(MemoryDisk(), ROOMY), new_log(MemoryDisk(), ROOMY)
    for sequence, epoch in enumerate((0, 0, 3, 4)):
        source.append(batch(producer=(7, 0, sequence)), epoch, now_ms=0)
    log.append_as_follower(fetched(source), 4, now_ms=0)
    assert log.epochs.entries() == [(0, 0), (3, 2), (4, 3)]
    entry = log.producers.entry(7)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset) == (3, 3)


def test_a_flipped_byte_is_found_wherever_a_checksum_covers_it():
    source = leader(1)
    data = read(source, 0)
    for position in range(len(data)):
        log = new_log(MemoryDisk(), ROOMY)
        flipped = data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :]
        info = log.append_as_follower(ByteRange(flipped, 0, len(flipped)), 0, now_ms=0)
        if position in range(8):  # the base offset
            assert info.error in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
        elif position in range(8, 16):  # length and epoch: cut short, or of a later leader
            assert info.error is ErrorCode.CORRUPT_MESSAGE or info.base_offset == -1
        else:
            assert info.error is ErrorCode.CORRUPT_MESSAGE, position
            assert log.log_end_offset == 0


def test_one_damaged_batch_rejects_the_whole_fetch():
    data = bytearray(read(leader(3), 0))
    data[-1] ^= 1
    log = new_log(MemoryDisk(), ROOMY)
    info = log.append_as_follower(ByteRange(bytes(data), 0, len(data)), 0, now_ms=0)
    assert info.error is ErrorCode.CORRUPT_MESSAGE
    assert "checksum" in (info.error_message or "")
    assert (log.log_end_offset, log.size) == (0, 0)


def test_a_truncated_batch_ends_the_append():
    records = fetched(leader(3))
    log = new_log(MemoryDisk(), ROOMY)
    log.append_as_follower(ByteRange(records.data, 4, records.end - 1), 0, now_ms=0)
    assert log.log_end_offset == 4


def test_batches_before_the_log_end_are_refused():
    source, log = leader(3), new_log(MemoryDisk(), ROOMY)
    log.append_as_follower(fetched(source), 0, now_ms=0)
    again = log.append_as_follower(fetched(source), 0, now_ms=0)
    assert again.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_end_offset == 6


def test_offsets_and_epochs_do_not_go_back():
    first, second = leader(1, epoch=5), leader(2, epoch=4)
    log = new_log(MemoryDisk(), ROOMY)
    log.append_as_follower(fetched(first), 5, now_ms=0)
    older = log.append_as_follower(fetched(second, 2), 5, now_ms=0)
    assert older.error is ErrorCode.CORRUPT_MESSAGE
    data = read(second, 2) + read(second, 0)
    fresh = new_log(MemoryDisk(), ROOMY)
    back = fresh.append_as_follower(ByteRange(data, 0, len(data)), 5, 0)
    assert back.error is ErrorCode.CORRUPT_MESSAGE
    assert fresh.log_end_offset == 0


def test_batches_of_a_later_leader_than_the_one_asked_are_left_out():
    source, log = new_log(MemoryDisk(), ROOMY), new_log(MemoryDisk(), ROOMY)
    fill(source, 2, epoch=1)
    fill(source, 2, epoch=2)
    info = log.append_as_follower(fetched(source), 1, now_ms=0)
    assert (info.error, log.log_end_offset) == (ErrorCode.NONE, 4)


def test_a_gap_that_compaction_left_is_kept_and_survives_a_crash():
    disk = MemoryDisk()
    directory = LogDirectory(disk, "data", random.Random(0), cluster_id="c", node_id=1)
    log = directory.open_log(KEY, ROOMY, 0)
    source = leader(5)
    data = read(source, 0)
    size = len(data) // 5
    gap = data[:size] + data[3 * size :]
    log.append_as_follower(ByteRange(gap, 0, len(gap)), 0, now_ms=0)
    assert offsets(read(log, 0)) == [(0, 1), (6, 7), (8, 9)]
    directory.checkpoint()()
    disk.locks.clear()
    again = LogDirectory(disk, "data", random.Random(0), cluster_id="c", node_id=1)
    assert offsets(read(again.open_log(KEY, ROOMY, 0), 0)) == [(0, 1), (6, 7), (8, 9)]


def test_the_log_start_follows_the_leaders_up_to_the_high_watermark():
    log = leader(5)
    log.high_watermark = 6
    assert log.follow_log_start(4)
    assert log.follow_log_start(9)
    assert log.log_start_offset == 6
    assert log.follow_log_start(2)  # It is still to be made durable.
    log.durable_log_start = 6
    assert not log.follow_log_start(9)


def test_an_epoch_is_noted_when_its_leader_begins():
    log = leader(2)
    log.begin_epoch(3)
    assert log.dirty
    log.flush()
    assert log.epochs.entries() == [(0, 0), (3, 4)]
    assert log.end_offset_for_epoch(2) == (0, 4)


def test_a_truncation_at_the_log_end_removes_an_epoch_without_records():
    log = leader(2)
    log.begin_epoch(3)
    log.truncate_to(4)
    assert log.epochs.entries() == [(0, 0)]


def test_a_log_is_truncated_in_parts_the_middle_one_on_a_worker():
    log = leader(10)
    log.flush()
    assert log.may_truncate
    truncation = log.begin_truncation(6)
    assert truncation is not None
    assert log.truncating
    assert not log.may_truncate
    assert log.begin_flush() is None
    truncation.run()
    log.end_truncation(truncation)
    assert (log.log_end_offset, log.flushed_offset, log.may_truncate) == (6, 6, True)
    assert offsets(read(log, 0)) == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize("cold", [False, True])
def test_a_truncation_inside_a_batch_removes_all_of_it(cold: bool):
    log = leader(4)
    if cold:
        log.segments.active.recent.clear()
    log.truncate_to(5)
    assert (log.log_end_offset, offsets(read(log, 0))) == (4, [(0, 1), (2, 3)])


def test_a_truncation_waits_for_a_flush():
    log = leader(2)
    flush = log.begin_flush()
    assert flush is not None
    assert not log.may_truncate
    flush.run()
    log.end_flush(flush)
    assert log.may_truncate


def test_a_truncation_below_the_log_start_starts_the_log_again_there():
    log = leader(10)
    log.high_watermark = 20
    log.delete_records(9)
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert len(log.segments) == 1


@pytest.mark.parametrize("offset", [0, 3, 12, 40])
def test_a_log_that_starts_again_at_an_offset_is_empty_there_also_after_a_crash(offset: int):
    disk = MemoryDisk()
    directory = LogDirectory(disk, "data", random.Random(0), cluster_id="c", node_id=1)
    log = directory.open_log(KEY, SMALL, 0)
    for sequence in range(10):
        log.append(batch(producer=(1, 0, sequence)), 0, now_ms=0)
    log.flush(checkpoint=True)
    log.high_watermark = 8
    log.delete_records(6)
    directory.checkpoint()()
    log.truncate_fully_and_start_at(offset)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (offset,) * 3
    assert (log.latest_epoch, len(log.producers), log.size) == (-1, 0, 0)
    for _ in range(2):
        disk.locks.clear()
        directory = LogDirectory(disk, "data", random.Random(0), cluster_id="c", node_id=1)
        log = directory.open_log(KEY, SMALL, 0)
        assert (log.log_start_offset, log.log_end_offset) == (offset, offset)
    source = leader(30)
    log.append_as_follower(fetched(source, offset + offset % 2), 0, now_ms=0)
    assert log.log_end_offset == 60
    log.flush()
    disk.locks.clear()
    directory = LogDirectory(disk, "data", random.Random(0), cluster_id="c", node_id=1)
    log = directory.open_log(KEY, SMALL, 0)
    assert (log.log_start_offset, log.log_end_offset) == (offset, 60)


def test_a_damaged_log_is_set_aside_and_a_new_one_begins():
    disk = MemoryDisk()
    directory = LogDirectory(disk, "data", random.Random(0), cluster_id="c", node_id=1)
    for life in (1, 2):
        log = directory.open_log(KEY, SMALL, 0)
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        fill(log, 10)
        log.flush()
        directory.checkpoint()()
        directory.set_aside(KEY)()
        directory.begin_anew(KEY)()
        assert disk.exists(f"data/{KEY}.{life}-damaged")
        assert not disk.exists(f"data/{KEY}.{life - 1}-damaged")
    disk.locks.clear()
    again = LogDirectory(disk, "data", random.Random(0), cluster_id="c", node_id=1)
    assert again.open_log(KEY, SMALL, 0).log_end_offset == 0
    assert list(again.partitions) == [KEY]
