"""Flushes: what they sync, when they are due, and what a failed one does."""

from __future__ import annotations

import errno

import pytest

from odradek.log.fence import Fence, LogDirFailure
from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk
from unit.log.log_making import batch, fill, new_log, reopen


class Recorder(MemoryDisk):
    """A disk that records effects and fails chosen ones."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: list[tuple[str, str]] = []
        self.fail_kind = ""

    def effect(self, kind: str, path: str) -> None:
        if kind == self.fail_kind:
            raise OSError(errno.EIO, "Input/output error", path)
        self.effects.append((kind, path.removeprefix("data/partition/")))

    def take(self) -> list[tuple[str, str]]:
        taken, self.effects = self.effects, []
        return taken


def flushed_log(disk: MemoryDisk, fence: Fence | None = None):
    """Return a log after its first flush, which syncs the new directory."""
    log = new_log(disk, fence=fence)
    log.flush(checkpoint=True)
    return log


def test_the_durable_end_is_the_log_end_when_the_flush_began():
    log = flushed_log(MemoryDisk())
    fill(log, 2)
    flush = log.begin_flush()
    assert flush is not None
    fill(log, 3)
    flush.run()
    assert log.flushed_offset == 0, "not before `end_flush`"
    assert log.end_flush(flush) == 4
    assert (log.flushed_offset, log.log_end_offset, log.dirty) == (4, 10, True)
    assert log.flush() == 10
    assert log.begin_flush() is None


def test_a_second_flush_does_not_begin_while_one_is_under_way():
    log = flushed_log(MemoryDisk())
    fill(log, 1)
    flush = log.begin_flush()
    fill(log, 1)
    assert flush is not None
    assert log.begin_flush() is None
    flush.run()
    log.end_flush(flush)
    assert log.begin_flush() is not None


def test_a_flush_without_checkpoint_syncs_only_the_data():
    disk = Recorder()
    log = flushed_log(disk)
    fill(log, 1)
    log.flush()
    disk.take()
    fill(log, 2)
    log.flush()
    assert disk.take() == [
        ("append", "00000000000000000000.log"),
        ("append", "00000000000000000000.log"),
        ("sync", "00000000000000000000.log"),
    ]


def test_segments_are_synced_in_order_and_the_directory_after_them():
    disk = Recorder()
    log = flushed_log(disk)
    fill(log, 12)
    assert len(log.segments) == 2
    disk.take()
    log.flush()
    synced = [path for kind, path in disk.take() if kind.startswith("sync")]
    assert [path for path in synced if not path.endswith("index")] == [
        "00000000000000000000.log",
        "00000000000000000018.log",
        "data/partition",
    ]
    assert len(synced) == 7, "a roll moves the recovery point: indexes too"


def test_the_first_flush_syncs_the_directory_and_the_one_above():
    disk = Recorder()
    log = new_log(disk)
    assert log.dirty
    disk.take()
    log.flush()
    assert [path for kind, path in disk.take() if kind == "sync_directory"] == [
        "data/partition",
        "data",
    ]


def test_the_recovery_point_moves_after_a_roll_enough_bytes_or_on_request():
    log = new_log(config=LogConfig(checkpoint_bytes=1000))
    fill(log, 2)
    log.flush()
    assert (log.flushed_offset, log.recovery_point) == (4, 0)
    log.flush(checkpoint=True)
    assert log.recovery_point == 4
    fill(log, 8)
    assert not log.checkpoint_due
    fill(log, 2)
    assert log.checkpoint_due
    log.flush()
    assert log.recovery_point == 24
    log.roll(0)
    fill(log, 1)
    log.flush()
    assert log.recovery_point == 26


def test_a_flush_is_due_by_flush_messages_and_flush_ms():
    log = new_log(config=LogConfig(flush_messages=4, flush_ms=1000))
    log.flush()
    log.append(batch(3), 0, now_ms=5000)
    assert not log.flush_due(5999)
    assert log.flush_due(6000)
    log.append(batch(1), 0, now_ms=5000)
    assert log.flush_due(5000)
    log.flush()
    assert not log.flush_due(10_000_000)


@pytest.mark.parametrize("kind", ["sync", "sync_directory", "replace"])
def test_a_failed_flush_fences_the_directory(kind: str):
    disk = Recorder()
    fence = Fence("data")
    log = flushed_log(disk, fence)
    other, _ = reopen(disk, fence=fence)
    fill(log, 2)
    log.roll(0)
    flush = log.begin_flush()
    assert flush is not None
    disk.fail_kind = kind
    with pytest.raises(LogDirFailure, match=r"fenced.*Input/output error"):
        flush.run()
    disk.fail_kind = ""  # as after fsyncgate: the next sync would succeed
    with pytest.raises(LogDirFailure):
        log.end_flush(flush)
    assert log.flushed_offset == 0
    with pytest.raises(LogDirFailure):
        log.begin_flush()
    with pytest.raises(LogDirFailure):
        other.append(batch(), 0, now_ms=0)


def test_another_logs_flush_that_ends_after_the_failure_makes_nothing_durable():
    disk = Recorder()
    fence = Fence("data")
    log = flushed_log(disk, fence)
    fill(log, 1)
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    fence.fail(OSError(errno.EIO, "elsewhere"))
    with pytest.raises(LogDirFailure):
        log.end_flush(flush)
    assert log.flushed_offset == 0


def test_a_truncation_voids_the_flush_under_way():
    log = flushed_log(MemoryDisk())
    fill(log, 4)
    log.flush()
    fill(log, 4)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate_to(6)
    fill(log, 5, epoch=1)
    flush.run()
    assert log.end_flush(flush) == 6
    assert log.flush() == 16


def test_a_truncation_resets_offsets_epochs_producers_and_positions():
    disk = MemoryDisk()
    log = new_log(disk)
    for n in range(30):
        log.append(batch(2, n * 1000, producer=(1, 0, 2 * n)), n // 10, now_ms=0)
    for cut in (44, 20, 6, 0):
        log.truncate_to(cut)
        assert log.log_end_offset == cut
        assert log.epochs.entries() == [(e, 20 * e) for e in range(3) if 20 * e < cut]
        entry = log.producers.entry(1)
        assert (entry.last_sequence if entry else -1) == cut - 1
        assert log.append(batch(2, producer=(1, 0, cut)), 2, now_ms=0).base_offset == cut
        log.truncate_to(cut)
    assert len(log.segments) == 1
