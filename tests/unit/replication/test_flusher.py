"""Flushes that cannot begin, and what their end must not hold up."""

from __future__ import annotations

import errno

import pytest
from leading import Leading

from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.model.errors import ErrorCode
from odradek.timing import DelayedOperation


class ScarceFile(MemoryFile):
    def pin(self) -> None:
        disk = self.disk
        assert isinstance(disk, ScarceDisk)
        if disk.refused and self.name.endswith(disk.refused):
            raise OSError(disk.code, "refused", self.name)
        super().pin()


class ScarceDisk(MemoryDisk):
    """Files whose paths end like this cannot be opened."""

    refused = ""
    code = errno.EMFILE

    def new_file(self, path: str) -> MemoryFile:
        return ScarceFile(self, path)

    def pinned(self) -> list[str]:
        return [path for path, file in self.files.items() if file.pins and "-0/" in path]


def test_a_flush_that_lacks_a_descriptor_is_tried_again_with_the_next():
    disk = ScarceDisk()
    leading = Leading(disk=disk)
    partition, other = leading.partition(0), leading.partition(1)
    leading.settle()
    leading.append(partition)
    leading.append(other)
    disk.refused = "-0/00000000000000000000.log"
    leading.replicas.flusher.request(partition, checkpoint=True)
    leading.settle()
    assert (partition.high_watermark, other.high_watermark) == (0, 1)
    assert disk.pinned() == []
    disk.refused = ""
    leading.append(other)
    leading.settle()
    assert (partition.high_watermark, other.high_watermark) == (1, 2)
    assert partition.log.recovery_point == 1


def test_a_flush_whose_file_is_gone_fences_the_directory():
    disk = ScarceDisk()
    leading = Leading(disk=disk)
    partition = leading.partition()
    leading.settle()
    disk.refused, disk.code = "-0/00000000000000000000.log", errno.ENOENT
    leading.append(partition)
    leading.settle()
    assert partition.availability() is ErrorCode.KAFKA_STORAGE_ERROR
    assert leading.replicas.directory_failed


def test_a_fence_that_a_worker_closed_is_met_before_its_end_is_told():
    leading = Leading()
    partition, other = leading.partition(0), leading.partition(1)
    leading.settle()
    leading.append(partition)
    leading.directory.fence.fail(OSError(errno.EIO, "Input/output error"))
    leading.begin_flushes()
    assert leading.work == []
    assert other.availability() is ErrorCode.KAFKA_STORAGE_ERROR


class Faulty(DelayedOperation):
    def try_complete(self) -> bool:
        raise ZeroDivisionError

    def on_complete(self) -> None:
        """Never comes to that."""


def test_an_operation_with_a_bug_holds_up_neither_other_purgatories_nor_other_flushes():
    leading = Leading()
    first, second = leading.partition(0), leading.partition(1)
    leading.settle()
    leading.replicas.flusher._max_in_flight = 1
    with pytest.raises(ZeroDivisionError):
        leading.replicas.produce_purgatory.try_complete_else_watch(
            Faulty(5), [first.topic_partition]
        )
    leading.replicas.produce_purgatory._watcher_lists[0].watch(first.topic_partition, Faulty(5))
    told: list[str] = []

    class Fetch(DelayedOperation):
        def try_complete(self) -> bool:
            return first.high_watermark > 0 and self.force_complete()

        def on_complete(self) -> None:
            told.append("fetch")

    leading.replicas.fetch_purgatory.try_complete_else_watch(Fetch(5), [first.topic_partition])
    leading.append(first)
    leading.append(second)
    leading.begin_flushes()
    with pytest.raises(ZeroDivisionError):
        leading.end_flush()
    assert told == ["fetch"]
    leading.settle()
    assert second.high_watermark == 1
