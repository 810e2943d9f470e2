"""Appending to a log and reading from it."""

from __future__ import annotations

import errno

import pytest

from odradek.log.fence import Fence, LogDirFailure
from odradek.log.log_config import LogConfig
from odradek.log.log_reader import LogOffsetMetadata
from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import is_intact, records_of
from unit.log.log_making import (
    SMALL,
    batch,
    fill,
    headers,
    log_files,
    new_log,
    offsets,
    read,
    reopen,
)


def test_an_append_stamps_offset_and_epoch_and_leaves_the_checksum_valid():
    log = new_log()
    log.append(batch(3), 4, now_ms=0)
    info = log.append(batch(2), 7, now_ms=0)
    assert (info.error, info.base_offset, info.last_offset) == (ErrorCode.NONE, 3, 4)
    assert log.log_end_offset == 5
    data = read(log, 0)
    first, second = headers(data)
    assert (first.base_offset, first.partition_leader_epoch) == (0, 4)
    assert (second.base_offset, second.partition_leader_epoch) == (3, 7)
    assert is_intact(data, first)
    assert is_intact(data, second)
    assert [record.offset for record in records_of(data, second)] == [3, 4]


def test_an_append_is_one_write():
    disk = MemoryDisk()
    log = new_log(disk)
    effects: list[str] = []
    disk.effect = lambda kind, path: effects.append(kind)  # type: ignore[method-assign]
    log.append(batch(3), 0, now_ms=0)
    assert effects == ["append"]


def test_duplicate_and_out_of_order_batches_are_not_appended():
    log = new_log()
    infos = [
        log.append(each, 0, now_ms=0)
        for each in (
            batch(producer=(9, 0, 0)),
            batch(producer=(9, 0, 1)),
            batch(producer=(9, 0, 1)),
            batch(producer=(9, 0, 5)),
            batch(),
        )
    ]
    assert [(info.error, info.base_offset, info.duplicate) for info in infos] == [
        (ErrorCode.NONE, 0, False),
        (ErrorCode.NONE, 1, False),
        (ErrorCode.NONE, 1, True),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, False),
        (ErrorCode.NONE, 2, False),
    ]
    assert log.log_end_offset == 3


@pytest.mark.parametrize("max_bytes", [1, 120, 400, 950, 5000])
def test_a_read_begins_with_the_batch_that_holds_the_offset(max_bytes: int):
    log = new_log()
    fill(log, 40, records=3)
    assert len(log.segments) > 3
    for offset in range(log.log_end_offset):
        found = offsets(read(log, offset, max_bytes))
        assert found[0][0] <= offset <= found[0][1]
        assert [base for base, _ in found[1:]] == [last + 1 for _, last in found[:-1]]


def test_a_read_after_a_restart_uses_index_and_headers():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 40, records=3)
    everything = read(log, 0)
    log.close()
    again, _ = reopen(disk, clean=True, recovery_point=120)
    assert read(again, 0) == everything
    size = len(everything) // 40
    for offset in range(120):
        start = offset // 3 * size
        for limit in (1, 300, 5000):
            data = read(again, offset, limit)
            assert data == everything[start : start + len(data)]
            assert size <= len(data) <= max(size, limit)


def test_a_read_does_not_pass_the_given_end():
    log = new_log()
    fill(log, 20, records=3)
    for end in range(0, 61, 3):
        for offset in range(61):
            found = offsets(read(log, offset, up_to=end))
            assert (
                found == [(n, n + 2) for n in range(offset - offset % 3, end, 3)] or offset >= end
            )
            assert all(last < end for _, last in found)


def test_a_read_up_to_an_end_inside_a_batch_excludes_the_batch():
    log = new_log()
    fill(log, 3, records=3)
    assert offsets(read(log, 0, up_to=5)) == [(0, 2)]
    assert read(log, 3, up_to=5) == b""


def test_a_first_batch_above_the_limit_is_returned_only_with_min_one():
    log = new_log()
    fill(log, 2)
    large = log.read(0, 10, 4)
    assert large.size > 10
    large.release()
    refused = log.read(0, 10, 4, min_one=False)
    assert refused.first_entry_incomplete
    assert (refused.size, refused.slices) == (0, [])


def test_a_read_stays_within_the_limit_if_the_first_batch_fits():
    log = new_log()
    fill(log, 60)
    for offset in range(0, 120, 2):
        for limit in range(110, 1500, 70):
            assert len(read(log, offset, limit)) <= limit


def test_a_read_outside_the_log_answers_offset_out_of_range():
    log = new_log()
    fill(log, 2)
    assert log.read(5, 100, 4).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(-1, 100, 4).error == ErrorCode.OFFSET_OUT_OF_RANGE
    at_end = log.read(4, 100, 4)
    assert (at_end.error, at_end.size) == (ErrorCode.NONE, 0)
    assert at_end.start == log.offset_metadata(4)
    log.high_watermark = 4
    assert log.delete_records(3) == ErrorCode.NONE
    assert log.read(2, 100, 4).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets(read(log, 3)) == [(2, 3)]


def test_slices_are_pinned_until_they_are_released():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 2)
    result = log.read(0, 1000, 4)
    (file,) = [disk.files[path] for path in log_files(disk)]
    assert file.pins == 1
    result.release()
    assert file.pins == 0


def test_offset_metadata_gives_distances_in_bytes():
    log = new_log()
    fill(log, 4)
    size = len(read(log, 0)) // 4
    assert log.offset_metadata(0) == LogOffsetMetadata(0, 0, 0)
    assert log.offset_metadata(4) == LogOffsetMetadata(4, 0, 2 * size)
    assert log.offset_metadata(5).relative_position == 2 * size, (
        "the start of the batch that holds it"
    )
    assert log.offset_metadata(8) == LogOffsetMetadata(8, 0, 4 * size)
    assert log.offset_metadata(8).bytes_after(log.offset_metadata(4)) == 2 * size
    fill(log, 10)
    assert log.offset_metadata(4).on_older_segment_than(log.offset_metadata(log.log_end_offset))


def test_the_log_rolls_by_size():
    log = new_log(config=LogConfig(segment_bytes=500))
    fill(log, 20)
    assert all(segment.size <= 500 for segment in log.segments.items)
    assert log.append(batch(size=600), 0, 0).error == ErrorCode.RECORD_LIST_TOO_LARGE


def test_the_log_rolls_when_record_timestamps_span_segment_ms():
    log = new_log(config=LogConfig(segment_ms=5000, segment_jitter_ms=1000))
    log.append(batch(timestamp=10_000), 0, now_ms=0)
    log.append(batch(timestamp=14_000), 0, now_ms=0)
    assert len(log.segments) == 1
    log.append(batch(timestamp=14_001), 0, now_ms=0)
    assert len(log.segments) == 2


def test_the_log_rolls_by_segment_age_without_timestamps():
    log = new_log(config=LogConfig(segment_ms=5000))
    log.append(batch(timestamp=-1), 0, now_ms=0)
    log.append(batch(timestamp=-1), 0, now_ms=5000)
    assert len(log.segments) == 1
    log.append(batch(timestamp=-1), 0, now_ms=5001)
    assert len(log.segments) == 2


def test_the_log_rolls_when_an_index_is_full():
    log = new_log(config=LogConfig(segment_index_bytes=48, index_interval_bytes=1))
    fill(log, 20)
    assert len(log.segments) > 3
    assert all(len(segment.time_index) <= 4 for segment in log.segments.items)


def test_the_log_rolls_before_an_offset_exceeds_the_index_range():
    log = new_log(config=LogConfig())
    fill(log, 1)
    log.log_end_offset = 1 << 31  # as after a gap in a compacted log
    log.append(batch(), 0, now_ms=0)
    assert [segment.base_offset for segment in log.segments.items] == [0, 1 << 31]


def test_an_append_to_a_full_disk_fails_and_the_next_may_succeed():
    disk = MemoryDisk()
    log = new_log(disk)
    fill(log, 1)

    def full(kind: str, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    disk.effect = full  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space left"):
        log.append(batch(producer=(1, 0, 0)), 5, now_ms=0)
    assert (log.log_end_offset, log.latest_epoch) == (2, 0)
    assert log.producers.entry(1) is None
    disk.effect = lambda kind, path: None  # type: ignore[method-assign]
    assert log.append(batch(producer=(1, 0, 0)), 5, now_ms=0).base_offset == 2
    assert len(headers(read(log, 0))) == 2


def test_any_other_write_error_fences_the_directory():
    disk = MemoryDisk()
    fence = Fence("data")
    log = new_log(disk, fence=fence)
    other, _ = reopen(disk, fence=fence)

    def broken(kind: str, path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    disk.effect = broken  # type: ignore[method-assign]
    with pytest.raises(LogDirFailure):
        log.append(batch(), 0, now_ms=0)
    disk.effect = lambda kind, path: None  # type: ignore[method-assign]
    with pytest.raises(LogDirFailure):
        log.append(batch(), 0, now_ms=0)
    with pytest.raises(LogDirFailure):
        other.append(batch(), 0, now_ms=0)
    assert read(log, 0) == b"", "reads still work"


def test_end_offset_for_epoch_returns_the_end_of_the_epoch():
    log = new_log()
    for epoch, count in ((0, 2), (2, 3), (5, 1)):
        fill(log, count, epoch=epoch)
    assert log.epochs.entries() == [(0, 0), (2, 4), (5, 10)]
    assert log.end_offset_for_epoch(0) == (0, 4)
    assert log.end_offset_for_epoch(1) == (0, 4)
    assert log.end_offset_for_epoch(4) == (2, 10)
    assert log.end_offset_for_epoch(5) == (5, 12)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)


def test_new_settings_apply_from_the_next_append():
    log = new_log(config=LogConfig())
    fill(log, 10)
    log.configure(SMALL)
    fill(log, 1)
    assert len(log.segments) == 2


def test_a_truncation_clears_the_cached_end_position():
    log = new_log()
    fill(log, 3, records=2)
    assert offsets(read(log, 0, up_to=4)) == [(0, 1), (2, 3)]
    log.truncate_to(0)
    log.append(batch(4, size=50), 1, now_ms=0)
    log.append(batch(2), 1, now_ms=0)
    assert offsets(read(log, 0, up_to=4)) == [(0, 3)]
