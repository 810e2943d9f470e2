"""Workers that meet at one log: a flush, retention and the deletion of the partition.

They run at the same time in any order. Whoever finds a file gone that the other removed goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from uuid import UUID

import pytest
from log_making import batch, fill

from odradek.log.durable_ends import FREE
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.log.retention import RetentionClock, delete_old_segments
from odradek.model.topics import TopicIdPartition

SMALL = LogConfig(segment_bytes=1000, retention_bytes=0)


def key(partition: int) -> TopicIdPartition:
    return TopicIdPartition(UUID(int=7), partition)


class BeatenDisk(MemoryDisk):
    """Before a file is removed, somebody else has done it, if its name ends like this."""

    beaten_to: str | None = None

    def remove(self, path: str) -> None:
        if self.beaten_to is not None and path.endswith(self.beaten_to):
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
    found = directory.retention(RetentionClock(0, 0), 0, 0)
    assert found is not None
    return found


def test_a_flush_goes_on_when_retention_removed_the_old_snapshot_first():
    disk = BeatenDisk()
    directory = open_directory(disk)
    log = filled(directory, 0)
    fill(log, 1)
    disk.beaten_to = ".snapshot"
    assert log.flush(checkpoint=True) == log.log_end_offset
    assert directory.fence.failure is None


def test_retention_goes_on_when_a_flush_removed_the_old_snapshot_first():
    disk = BeatenDisk()
    directory = open_directory(disk)
    log = filled(directory, 0)
    deletion = delete_old_segments(log, 0)
    assert deletion is not None
    disk.beaten_to = ".snapshot"
    deletion.rename()


def test_retention_leaves_out_a_partition_that_was_deleted_meanwhile():
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
def test_a_flush_that_ends_after_its_partition_was_deleted_leaves_the_slot_alone(reused: bool):
    disk = MemoryDisk()
    directory = open_directory(disk)
    log = filled(directory, 0)
    log.append(batch(), 0, now_ms=0)
    flush = log.begin_flush()
    assert flush is not None
    remove: Callable[[], None] = directory.delete_log(key(0))
    if reused:
        directory.open_log(key(1), SMALL, 0).flush()
    before = disk.read_file("data/durable-ends")
    flush.run()
    log.end_flush(flush)
    remove()
    assert disk.read_file("data/durable-ends") == before
    assert (before == FREE) is not reused
