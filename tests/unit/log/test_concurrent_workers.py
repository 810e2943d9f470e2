"""Workers that use one log at the same time: a flush, retention, the deletion of the partition.

Each must succeed if another has removed a file first.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from uuid import UUID

import pytest

from odradek.log.durable_ends import FREE
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.log.retention import delete_old_segments
from odradek.model.topics import TopicIdPartition
from unit.log.log_making import batch, fill

SMALL = LogConfig(segment_bytes=1000, retention_bytes=0)


def key(partition: int) -> TopicIdPartition:
    return TopicIdPartition(UUID(int=7), partition)


class RacingDisk(MemoryDisk):
    """A disk on which another worker removes files with this suffix first."""

    removed_first: str | None = None

    def remove(self, path: str) -> None:
        if self.removed_first is not None and path.endswith(self.removed_first):
            super().remove(path)
        super().remove(path)


def open_directory(disk: MemoryDisk) -> LogDirectory:
    return LogDirectory(disk, "data", random.Random(1), cluster_id=None, node_id=1)


def filled(directory: LogDirectory, partition: int) -> Log:
    log = directory.open_log(key(partition), SMALL, 0)
    for _ in range(3):
        fill(log, 10)
        log.flush(checkpoint=True)
    log.high_watermark = log.log_end_offset
    return log


def retention(directory: LogDirectory):
    found = directory.retention(0)
    assert found is not None
    return found


def test_a_flush_succeeds_if_retention_has_removed_the_old_snapshot():
    disk = RacingDisk()
    directory = open_directory(disk)
    log = filled(directory, 0)
    fill(log, 1)
    disk.removed_first = ".snapshot"
    assert log.flush(checkpoint=True) == log.log_end_offset
    assert directory.fence.failure is None


def test_retention_succeeds_if_a_flush_has_removed_the_old_snapshot():
    disk = RacingDisk()
    directory = open_directory(disk)
    log = filled(directory, 0)
    deletion = delete_old_segments(log, 0)
    assert deletion is not None
    disk.removed_first = ".snapshot"
    deletion.rename()


def test_retention_skips_a_partition_deleted_meanwhile():
    disk = MemoryDisk()
    directory = open_directory(disk)
    filled(directory, 0)
    filled(directory, 1)
    done = retention(directory)
    removing = directory.delete_log(key(0))
    done.run()
    removing()
    kept = directory.directory_of(key(1))
    assert any(name.endswith(".deleted") for name in disk.list(kept))
    done.close()
    done.remove()
    assert not any(name.endswith(".deleted") for name in disk.list(kept))


@pytest.mark.parametrize("reused", [False, True])
def test_a_flush_that_ends_after_its_partition_was_deleted_does_not_write_the_slot(reused: bool):
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = filled(directory, 0)
    log.append(batch(), 0, now_ms=0)
    flush = log.begin_flush()
    assert flush is not None
    remove: Callable[[], None] = directory.delete_log(key(0))
    if reused:
        other = directory.open_log(key(1), SMALL, 0)
        other.append(batch(), 0, now_ms=0)
        other.flush()
    before = disk.read_file("data/durable-ends")
    flush.run()
    log.end_flush(flush)
    remove()
    assert disk.read_file("data/durable-ends") == before
    assert before.startswith(FREE) is not reused
