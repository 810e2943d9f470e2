"""Retention by age, by size and below the log start, and the removal of the files."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from odradek.log.fence import LogDamaged
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk
from odradek.log.retention import Deletion, RetentionClock, delete_old_segments
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch import batches
from unit.log.log_making import SMALL, batch, files, fill, log_files, new_log, offsets, read, reopen

KEEP = replace(SMALL, retention_ms=-1)


def filled(config: LogConfig, count: int = 40) -> Log:
    """Make a log of segments of 9 batches of 2 records; timestamps are 1000 times the offset."""
    log = new_log(MemoryDisk(), config)
    fill(log, count)
    log.high_watermark = log.log_end_offset
    return log


class SetClock:
    """A wall clock that is set by hand, beside a monotonic one."""

    def __init__(self, wall_ms: int) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = 0

    def set(self, wall_ms: int, *, after_ms: int) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms += after_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def monotonic_ns(self) -> int:
        return self._monotonic_ms * 1_000_000

    def wall_ms(self) -> int:
        return self._wall_ms


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments.items]


def test_segments_are_deleted_by_the_age_of_their_youngest_record():
    log = filled(replace(SMALL, retention_ms=10_000))
    assert bases(log) == [0, 18, 36, 54, 72]
    youngest = 34_001  # of the segment from 18 to 35
    assert delete_old_segments(log, 16_001 + 10_000) is None
    deletion = delete_old_segments(log, youngest + 10_000)
    assert deletion is not None
    assert [segment.base_offset for segment in deletion.segments] == [0]
    deletion = delete_old_segments(log, youngest + 10_001)
    assert deletion is not None
    assert [segment.base_offset for segment in deletion.segments] == [18]
    assert log.log_start_offset == 36
    assert log.read(35, 100, 80).error == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("delete", "bases_left"), [(True, [18, 36, 54, 72]), (False, [0, 18, 36, 54, 72])]
)
def test_a_compacted_log_has_retention_if_its_policy_also_is_to_delete(delete, bases_left):
    log = filled(replace(SMALL, retention_ms=10_000, compact=True, delete=delete))
    delete_old_segments(log, 34_001 + 10_000)
    assert bases(log) == bases_left


def test_a_log_with_only_expired_records_becomes_empty():
    log = filled(replace(SMALL, retention_ms=10_000))
    assert delete_old_segments(log, 10_000_000) is not None
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([80], 80, 80)
    fill(log, 1)
    assert offsets(read(log, 80)) == [(80, 81)]


def test_records_without_timestamps_do_not_age():
    log = new_log(MemoryDisk(), replace(SMALL, retention_ms=1))
    for _ in range(40):
        log.append(batch(timestamp=-1), 0, now_ms=0)
    log.high_watermark = 40
    assert delete_old_segments(log, 1 << 50) is None


def test_retention_by_size_deletes_only_the_excess():
    log = filled(replace(KEEP, retention_bytes=2900))
    before = log.size
    deletion = delete_old_segments(log, 0)
    assert deletion is not None
    assert [segment.base_offset for segment in deletion.segments] == [0]
    assert before - deletion.bytes == log.size
    assert log.size >= 2900
    log.configure(replace(KEEP, retention_bytes=0))
    delete_old_segments(log, 0)
    assert bases(log) == [72], "the active segment stays"


def test_nothing_above_the_high_watermark_is_deleted():
    log = filled(replace(SMALL, retention_ms=1, retention_bytes=0))
    log.high_watermark = 40
    delete_old_segments(log, 10_000_000)
    assert bases(log) == [36, 54, 72]


def test_without_the_delete_policy_only_records_below_the_log_start_are_deleted():
    log = filled(replace(SMALL, retention_ms=1, retention_bytes=0, delete=False))
    assert delete_old_segments(log, 10_000_000) is None
    assert log.delete_records(53) == ErrorCode.NONE
    delete_old_segments(log, 0)
    assert (bases(log), log.log_start_offset) == ([36, 54, 72], 53)
    assert log.delete_records(-1) == ErrorCode.NONE
    assert log.log_start_offset == 80
    assert log.delete_records(81) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records(10) == ErrorCode.NONE
    assert log.log_start_offset == 80, "never back"


def test_files_are_renamed_then_removed_while_readers_finish():
    disk = MemoryDisk()
    log = new_log(disk, KEEP)
    fill(log, 40)
    log.high_watermark = 80
    reading = log.read(0, 500, 80)
    expected = b"".join(piece.read() for piece in reading.slices)
    log.delete_records(20)
    deletion = delete_old_segments(log, 0)
    assert isinstance(deletion, Deletion)
    deletion.rename()
    assert [name for name in files(disk) if name.endswith(".deleted")] == [
        "00000000000000000000.log.deleted",
        "00000000000000000000.index.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    assert b"".join(piece.read() for piece in reading.slices) == expected
    deletion.close()
    deletion.remove()
    assert not [name for name in files(disk) if name.endswith(".deleted")]
    assert len(log_files(disk)) == 4
    reading.release()


def test_a_crash_at_any_point_of_a_deletion_leaves_a_log_without_a_hole():
    class Crash(Exception):
        pass

    for point in range(8):
        disk = MemoryDisk()
        log = new_log(disk, KEEP)
        fill(log, 40)
        log.flush(checkpoint=True)
        log.high_watermark = 80
        log.delete_records(40)
        deletion = delete_old_segments(log, 0)
        assert deletion is not None
        left = point

        def crash(kind: str, path: str) -> None:
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1

        disk.effect = crash  # type: ignore[method-assign]
        try:
            deletion.rename()
            deletion.remove()
        except Crash:
            pass
        disk.effect = lambda kind, path: None  # type: ignore[method-assign]
        try:
            again, _ = reopen(disk, KEEP, recovery_point=80, log_start_offset=40)
        except LogDamaged as damaged:
            raise AssertionError(point) from damaged
        assert again.log_start_offset == 40
        assert [base for base, _ in offsets(read(again, 40))] == list(range(40, 80, 2))


def test_a_clock_set_forward_deletes_nothing_at_once():
    clock = SetClock(wall_ms=1_000_000)
    retention_clock = RetentionClock(clock)
    year = 365 * 24 * 3600 * 1000
    clock.set(1_300_000, after_ms=300_000)
    assert retention_clock.now_ms() == 1_300_000
    clock.set(1_600_000 + year, after_ms=300_000)
    assert retention_clock.now_ms() == 1_900_000, "at most twice as fast"
    clock.set(1_900_000, after_ms=300_000)
    assert retention_clock.now_ms() == 1_900_000, "the clock is corrected"
    clock.set(1_000_000, after_ms=100_000)
    assert retention_clock.now_ms() == 1_000_000, "a clock set back is followed at once"


def rolled_at_its_recovery_point() -> tuple[MemoryDisk, Log]:
    """A log with offsets 0 to 7 in a segment that was closed after its checkpoint."""
    disk = MemoryDisk()
    log = new_log(disk, KEEP)
    fill(log, 4)
    log.flush(checkpoint=True)
    assert log.recovery_point == 8
    log.roll(0)
    return disk, log


def test_an_index_completed_by_a_roll_is_synced_by_the_next_flush_even_without_records():
    disk, log = rolled_at_its_recovery_point()
    synced: list[str] = []
    disk.effect = lambda kind, path: synced.append(path) if kind == "sync" else None  # type: ignore
    log.flush(checkpoint=True)
    stem = f"data/partition/{0:020d}"
    assert synced == [f"{stem}.index", f"{stem}.timeindex"]
    log.flush(checkpoint=True)
    assert len(synced) == 2


def test_an_index_that_lost_entries_in_a_power_loss_is_completed():
    for kept in (0, 12, None):
        disk, _ = rolled_at_its_recovery_point()
        time_index = disk.files[f"data/partition/{0:020d}.timeindex"].content
        whole = bytes(time_index)
        del time_index[len(whole) if kept is None else kept :]
        log, _ = reopen(disk, replace(KEEP, retention_ms=1000), recovery_point=8)
        assert bytes(time_index[-12:]) == whole[-12:]
        log.high_watermark = 8
        assert delete_old_segments(log, 6_001 + 1000) is None
        assert delete_old_segments(log, 6_001 + 1001) is not None


def test_a_flipped_bit_in_an_index_deletes_nothing_early():
    disk, _ = rolled_at_its_recovery_point()
    for position in range(12):
        log, _ = reopen(disk, replace(KEEP, retention_ms=1000), clean=True, recovery_point=8)
        log.high_watermark = 8
        disk.files[f"data/partition/{0:020d}.timeindex"].content[-12 + position] ^= 1
        assert delete_old_segments(log, 6_001 + 1000) is None, position


def test_a_flush_ignores_segments_deleted_before_it():
    log = new_log(MemoryDisk(), replace(SMALL, retention_ms=0))
    fill(log, 20)
    log.high_watermark = log.log_end_offset
    deletion = delete_old_segments(log, 1 << 50)
    assert deletion is not None
    deletion.rename()
    log.flush(checkpoint=True)
    assert (log.fence.failure, log.flushed_offset) == (None, 40)


def test_a_producer_is_known_after_its_records_are_deleted():
    disk = MemoryDisk()
    config = replace(SMALL, retention_ms=1000)
    log = new_log(disk, config)
    log.append(batch(timestamp=0, producer=(7, 0, 0)), 0, now_ms=0)
    log.flush(checkpoint=True)
    log.high_watermark = 1
    assert files(disk, ".snapshot") == {}, "the records are still there"
    assert delete_old_segments(log, 2000) is None
    assert log.checkpoint_due, "a snapshot comes first"
    log.flush()
    deletion = delete_old_segments(log, 2000)
    assert deletion is not None
    deletion.rename()
    log, _ = reopen(disk, config, recovery_point=1, log_start_offset=1)
    again = log.append(batch(timestamp=0, producer=(7, 0, 0)), 0, now_ms=0)
    assert (again.duplicate, again.base_offset) == (True, 0)
    assert log.append(batch(timestamp=0, producer=(7, 0, 1)), 0, now_ms=0).base_offset == 1


def test_records_are_kept_while_there_is_no_room_for_a_snapshot():
    class Full(MemoryDisk):
        full = True

        def effect(self, kind: str, path: str) -> None:
            if self.full and path.endswith(".snapshot"):
                raise OSError(errno.ENOSPC, "full", path)

    disk = Full()
    log = new_log(disk, replace(SMALL, retention_ms=1000))
    log.append(batch(timestamp=0, producer=(7, 0, 0)), 0, now_ms=0)
    log.flush(checkpoint=True)
    log.high_watermark = 1
    for _ in range(3):
        assert delete_old_segments(log, 2000) is None
        log.flush()
    disk.full = False
    log.flush()
    assert delete_old_segments(log, 2000) is not None


def without_its_last_batch(disk: MemoryDisk) -> Log:
    """A log whose first segment lost offsets 16 and 17 after a clean stop."""
    config = replace(SMALL, retention_ms=1000)
    log = new_log(disk, config)
    fill(log, 30)
    end = log.flush(checkpoint=True)
    log.close()
    content = disk.files[log_files(disk)[0]].content
    last = list(batches(bytes(content)))[-1]
    assert (last.base_offset, last.next_offset) == (16, 18)
    del content[last.position :]
    log, _ = reopen(disk, config, clean=True, recovery_point=end)
    log.high_watermark = end
    return log


def test_retention_deletes_nothing_of_a_damaged_log():
    log = without_its_last_batch(MemoryDisk())
    for _ in range(2):
        with pytest.raises(LogDamaged, match="ends before offset 16"):
            delete_old_segments(log, 18_000)
        with pytest.raises(LogDamaged, match="ends before offset 16"):
            log.read(16, 1000, 60)
    assert (bases(log)[0], log.log_start_offset) == (0, 0)


def test_a_segment_that_could_not_be_read_is_read_again_by_the_next_pass():
    class NoDescriptors(MemoryDisk):
        refusing = False

        def effect(self, kind: str, path: str) -> None:
            if self.refusing and kind == "append" and path.endswith("index"):
                raise OSError(errno.EMFILE, "too many", path)

    disk = NoDescriptors()
    log = without_its_last_batch(disk)
    del disk.files[f"data/partition/{0:020d}.index"].content[1:]  # to rebuild it
    disk.refusing = True
    with pytest.raises(OSError, match="too many"):
        log.read(16, 1000, 60)
    disk.refusing = False
    with pytest.raises(LogDamaged, match="ends before offset 16"):
        log.read(16, 1000, 60)


def test_an_idle_log_without_a_snapshot_gets_one_before_records_are_deleted():
    disk = MemoryDisk()
    log = new_log(disk)
    for sequence in range(20):
        log.append(batch(producer=(7, 0, sequence), size=100), 0, now_ms=0)
    end = log.flush(checkpoint=True)
    log.close()
    disk.remove(f"data/partition/{end:020d}.snapshot")
    log, _ = reopen(disk, replace(KEEP, retention_bytes=0), clean=True, recovery_point=end)
    log.high_watermark = end
    assert not log.checkpoint_due
    assert delete_old_segments(log, 0) is None
    assert log.checkpoint_due, "though there is nothing else to flush"
    log.flush()
    assert not log.checkpoint_due
    assert delete_old_segments(log, 0) is not None
