"""The flusher: flushes that cannot start, fail, or raise in a callback."""

from __future__ import annotations

import errno

import pytest

from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition, TopicPartition
from odradek.protocol.validate import BatchRules
from odradek.replication.partition import Partition
from odradek.timing import DelayedOperation
from unit.replication.memory_replicas import NOW_MS, TOPIC_ID, MemoryReplicas


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


def test_a_flush_without_a_free_descriptor_is_tried_again_with_the_next():
    disk = ScarceDisk()
    leading = MemoryReplicas(disk=disk)
    partition, other = leading.partition(0), leading.partition(1)
    leading.run_until_idle()
    leading.append(partition)
    leading.append(other)
    disk.refused = "-0/00000000000000000000.log"
    leading.replicas.flusher.request(partition, checkpoint=True)
    leading.run_until_idle()
    assert (partition.high_watermark, other.high_watermark) == (0, 1)
    assert disk.pinned() == []
    disk.refused = ""
    leading.append(other)
    leading.run_until_idle()
    assert (partition.high_watermark, other.high_watermark) == (1, 2)
    assert partition.log.recovery_point == 1


def test_a_flush_whose_file_is_gone_fences_the_directory():
    disk = ScarceDisk()
    leading = MemoryReplicas(disk=disk)
    partition = leading.partition()
    leading.run_until_idle()
    disk.refused, disk.code = "-0/00000000000000000000.log", errno.ENOENT
    leading.append(partition)
    leading.run_until_idle()
    assert partition.availability() is ErrorCode.KAFKA_STORAGE_ERROR
    assert leading.replicas.directory_failed


def test_a_fence_closed_by_a_worker_is_seen_before_its_flush_ends():
    leading = MemoryReplicas()
    partition, other = leading.partition(0), leading.partition(1)
    leading.run_until_idle()
    leading.append(partition)
    leading.directory.fence.fail(OSError(errno.EIO, "Input/output error"))
    leading.begin_flushes()
    assert leading.work == []
    assert other.availability() is ErrorCode.KAFKA_STORAGE_ERROR


def test_partitions_are_flushed_in_the_order_of_their_requests_as_flushes_end():
    leading = MemoryReplicas()
    partitions = [leading.partition(number) for number in range(30)]
    leading.run_until_idle()
    for partition in partitions:
        leading.append(partition)
    leading.begin_flushes()
    leading.append(partitions[0])  # again, while its flush is under way: behind all others
    begun = [leading.replicas.flusher.in_flight]
    ended = list[int]()
    while leading.work:
        before = {each.topic_partition.partition: each.high_watermark for each in partitions}
        leading.end_flush()
        begun.append(leading.replicas.flusher.in_flight)
        ended += [
            number for number, end in before.items() if partitions[number].high_watermark != end
        ]
    assert ended == [*range(30), 0]
    assert begun == [8] * 24 + [7, 6, 5, 4, 3, 2, 1, 0]


def test_flushes_that_have_nothing_to_do_do_not_hold_up_those_behind_them():
    leading = MemoryReplicas()
    idle = [leading.partition(number) for number in range(20)]
    last = leading.partition(20)
    leading.run_until_idle()
    for partition in idle:
        leading.replicas.flusher.request(partition)
    leading.append(last)
    leading.run_until_idle()
    assert last.high_watermark == 1
    assert leading.replicas.flusher.idle


def test_many_flushes_that_cannot_start_are_each_tried_once():
    disk = ScarceDisk()
    leading = MemoryReplicas(disk=disk)
    refused = [leading.partition(number) for number in range(10, 30)]
    last = leading.partition(0)
    leading.run_until_idle()
    for partition in [*refused, last]:
        leading.append(partition)
    disk.refused = "/00000000000000000000.log"
    leading.run_until_idle()
    assert leading.replicas.flusher.waiting == 21
    disk.refused = ""
    leading.append(last)
    leading.run_until_idle()
    assert [each.high_watermark for each in (*refused, last)] == [1] * 20 + [2]


def restarted(disk: MemoryDisk, count: int) -> tuple[MemoryReplicas, list[Partition]]:
    """Return a broker, killed with a record in each log, whose partitions others lead."""
    killed = MemoryReplicas(disk=disk)
    for number in range(count):
        killed.append(killed.partition(number))
    killed.directory.release()
    following = MemoryReplicas(disk=disk)
    partitions = []
    for number in range(count):
        opened, _ = following.directory.open_and_report(
            TopicIdPartition(TOPIC_ID, number), following.config, NOW_MS, is_led_elsewhere=True
        )
        name = TopicPartition("t", number)
        partitions.append(following.replicas.open(name, TOPIC_ID, opened, BatchRules()))
    return following, partitions


def durable(partitions: list[Partition]) -> list[tuple[int, int]]:
    return [(each.log.flushed_offset, each.log.recovery_point) for each in partitions]


def test_what_recoveries_left_dirty_is_flushed_by_workers_and_need_not_be_read_again():
    following, partitions = restarted(MemoryDisk(), 5)
    assert durable(partitions) == [(0, 0)] * 5
    following.run_until_idle()
    assert durable(partitions) == [(1, 1)] * 5
    assert following.replicas.flusher.idle


def test_an_append_does_not_wait_behind_recovered_logs():
    following, partitions = restarted(MemoryDisk(), 20)
    last = partitions[-1]
    following.begin_flushes()
    following.replicas.flusher.request(last)
    following.begin_flushes()
    while last.log.dirty:
        following.end_flush()
    assert durable(partitions) == [(1, 1)] * 2 + [(0, 0)] * 17 + [(1, 1)]
    following.run_until_idle()
    assert durable(partitions) == [(1, 1)] * 20


def test_a_recovered_log_whose_flush_is_refused_is_flushed_with_the_next():
    disk = ScarceDisk()
    following, partitions = restarted(disk, 3)
    disk.refused = "-0/00000000000000000000.log"
    following.begin_flushes()
    assert following.replicas.flusher.waiting == 3
    disk.refused = ""
    following.replicas.flusher.request(partitions[1])
    following.run_until_idle()
    assert durable(partitions) == [(1, 1)] * 3


class Faulty(DelayedOperation):
    def try_complete(self) -> bool:
        raise ZeroDivisionError

    def on_complete(self) -> None:
        """Not called."""


def test_a_raising_operation_stops_neither_other_purgatories_nor_flushes():
    leading = MemoryReplicas()
    first, second = leading.partition(0), leading.partition(1)
    leading.run_until_idle()
    leading.replicas.flusher._max_in_flight = 1
    with pytest.raises(ZeroDivisionError):
        leading.replicas.produce_purgatory.try_complete_else_watch(
            Faulty(5), [first.topic_partition]
        )
    leading.replicas.produce_purgatory._watcher_lists[0].watch(first.topic_partition, Faulty(5))
    completed: list[str] = []

    class Fetch(DelayedOperation):
        def try_complete(self) -> bool:
            return first.high_watermark > 0 and self.force_complete()

        def on_complete(self) -> None:
            completed.append("fetch")

    leading.replicas.fetch_purgatory.try_complete_else_watch(Fetch(5), [first.topic_partition])
    leading.append(first)
    leading.append(second)
    leading.begin_flushes()
    with pytest.raises(ZeroDivisionError):
        leading.end_flush()
    assert completed == ["fetch"]
    leading.run_until_idle()
    assert second.high_watermark == 1
