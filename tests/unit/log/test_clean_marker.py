"""The clean-shutdown marker: written only if all logs were read since the last unclean stop."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from odradek.log.fence import LogDamaged
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.topics import TopicIdPartition
from unit.log.log_making import batch

MARKER = "data/.kafka_cleanshutdown"
DAMAGED, SOUND = (TopicIdPartition(UUID(int=7), number) for number in (0, 1))


def started(disk: MemoryDisk) -> LogDirectory:
    disk.locks.clear()
    return LogDirectory(disk, "data", random.Random(1), cluster_id=None, node_id=1)


def damage(disk: MemoryDisk, directory: LogDirectory) -> None:
    """Change a durable byte that a start after a clean stop does not read."""
    path = f"{directory.directory_of(DAMAGED)}/00000000000000000000.log"
    disk.files[path].content[-1] ^= 0xFF


def test_a_damaged_log_is_refused_again_after_a_clean_stop():
    disk = MemoryDisk()
    directory = started(disk)
    for key in (DAMAGED, SOUND):
        log = directory.open_log(key, LogConfig(), 0)
        log.append(batch(3), 0, now_ms=0)
        log.flush(checkpoint=True)
        log.append(batch(3), 0, now_ms=0)
        log.flush()
    damage(disk, directory)
    for _ in range(2):
        directory = started(disk)
        assert directory.open_log(SOUND, LogConfig(), 0).log_end_offset == 6
        with pytest.raises(LogDamaged):
            directory.open_log(DAMAGED, LogConfig(), 0)
        directory.close()


def test_logs_not_opened_since_a_clean_start_stay_clean():
    disk = MemoryDisk()
    directory = started(disk)
    directory.open_log(SOUND, LogConfig(), 0).append(batch(), 0, now_ms=0)
    directory.close()
    started(disk).close()
    assert started(disk).was_clean


def test_a_start_that_fails_before_opening_a_log_keeps_the_marker():
    disk = MemoryDisk()
    directory = started(disk)
    directory.open_log(SOUND, LogConfig(), 0).append(batch(), 0, now_ms=0)
    directory.close()
    started(disk).abandon()
    directory = started(disk)
    assert directory.was_clean and disk.exists(MARKER)
    directory.open_work(SOUND, LogConfig(), 0)
    assert not disk.exists(MARKER)
    assert directory.was_clean


def test_no_log_is_opened_before_the_marker_is_durably_removed(monkeypatch):
    disk = MemoryDisk()
    started(disk).close()
    directory = started(disk)
    synced = disk.sync_directory

    def failing(path: str) -> None:
        raise OSError(5, "the disk does not answer")

    monkeypatch.setattr(disk, "sync_directory", failing)
    for _ in range(2):
        with pytest.raises(OSError, match="does not answer"):
            directory.open_work(SOUND, LogConfig(), 0)
    monkeypatch.setattr(disk, "sync_directory", synced)
    directory.open_work(SOUND, LogConfig(), 0)
    assert not disk.exists(MARKER)
