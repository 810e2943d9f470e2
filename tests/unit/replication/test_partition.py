"""One partition: what its log cannot tell, and epochs in which nothing was appended."""

from __future__ import annotations

import errno

import pytest
from leading import NOW_MS, Leading

from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk, MemoryFile
from odradek.model.errors import ErrorCode
from odradek.replication.delete_records import DelayedDeleteRecords, DeleteRecordsStatus
from odradek.replication.fetch import (
    DelayedFetch,
    FetchOutcome,
    FetchParams,
    FetchTarget,
    available_bytes,
)
from odradek.replication.partition import Isolation, Partition
from odradek.replication.produce import DelayedProduce

ALL = Isolation.READ_UNCOMMITTED
UNKNOWN = -1


def test_a_leader_epoch_without_records_ends_where_the_one_before_it_does():
    """A consumer at the end of the log has the epoch from metadata; it must not be told that its
    records are lost.
    """
    leading = Leading()
    partition = leading.partition()
    leading.append(partition)
    partition.leader_epoch = 2
    assert partition.end_offset_for_epoch(1) == (0, 1)
    assert partition.end_offset_for_epoch(2) == (2, 1)
    assert partition.end_offset_for_epoch(3) == (UNKNOWN, -1)
    leading.append(partition)
    assert partition.end_offset_for_epoch(1) == (0, 1)
    assert partition.end_offset_for_epoch(2) == (2, 2)


def test_in_an_empty_log_every_epoch_until_now_ends_at_its_beginning():
    partition = Leading().partition(leader_epoch=2)
    assert partition.end_offset_for_epoch(1) == (1, 0)
    assert partition.end_offset_for_epoch(UNKNOWN) == (UNKNOWN, -1)


class Refusing(MemoryFile):
    refusal: int | None = None

    def read(self, offset: int, count: int) -> bytes:
        if self.refusal is not None:
            raise OSError(self.refusal, "refused", self.name)
        return super().read(offset, count)


class RefusingDisk(MemoryDisk):
    def new_file(self, path: str) -> MemoryFile:
        return Refusing(self, path)

    def refuse(self, code: int | None) -> None:
        for file in self.files.values():
            assert isinstance(file, Refusing)
            file.refusal = code


def unread(disk: MemoryDisk) -> tuple[Leading, Partition]:
    """Some batches, and nothing of where they are in memory."""
    leading = Leading(disk=disk)
    partition = leading.partition()
    for _ in range(3):
        leading.append(partition)
    leading.settle()
    active = partition.log.segments.active
    active.recent.clear()
    return leading, partition


@pytest.mark.parametrize(
    ("code", "afterwards"),
    [(errno.EMFILE, ErrorCode.NONE), (errno.EIO, ErrorCode.KAFKA_STORAGE_ERROR)],
)
def test_a_read_that_lacks_a_descriptor_fails_alone_and_one_that_fails_ends_the_partition(
    code: int, afterwards: ErrorCode
):
    disk = RefusingDisk()
    _, partition = unread(disk)
    disk.refuse(code)
    assert partition.read(1, 1 << 20, ALL, True).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.availability() is afterwards
    assert partition.offset_for_timestamp(NOW_MS, ALL) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_parked_fetch_whose_position_cannot_be_read_is_completed():
    disk = RefusingDisk()
    leading, partition = unread(disk)
    leading.append(partition)
    target = FetchTarget(partition, ErrorCode.NONE, 0, 1 << 20)
    target.start = partition.log.offset_metadata(0)
    active = partition.log.segments.active
    active.recent.clear()
    disk.refuse(errno.EIO)
    assert available_bytes(target, ALL) is None
    assert partition.availability() is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("found_by", ["fetch", "search"])
def test_whoever_waits_for_a_partition_that_cannot_be_read_is_told(found_by: str):
    disk = RefusingDisk()
    leading = Leading(disk=disk, config=LogConfig(segment_bytes=1000, index_interval_bytes=1))
    partition = leading.partition()
    for _ in range(300):
        leading.append(partition)
    leading.settle()
    produces = leading.produce_status(partition)
    replicas, key = leading.replicas, partition.topic_partition
    produced: list[bool] = []
    produce = DelayedProduce(30_000, [produces], lambda _: produced.append(True))
    replicas.produce_purgatory.try_complete_else_watch(produce, [key])
    fetched: list[FetchOutcome] = []
    target = FetchTarget(partition, ErrorCode.NONE, partition.high_watermark, 1 << 20)
    fetch = DelayedFetch(30_000, [target], FetchParams(1, 1 << 20, ALL), fetched.append)
    replicas.fetch_purgatory.try_complete_else_watch(fetch, [key])
    trim = DeleteRecordsStatus(partition, 5, True, ErrorCode.REQUEST_TIMED_OUT)
    delete = DelayedDeleteRecords(30_000, [trim], lambda _: None)
    replicas.delete_records_purgatory.try_complete_else_watch(delete, [key])
    disk.refuse(errno.EIO)
    if found_by == "fetch":
        assert partition.read(0, 100, ALL, True).error == ErrorCode.KAFKA_STORAGE_ERROR
    else:
        partition.offset_for_timestamp(NOW_MS, ALL)
    assert (produced, fetched) == ([], []), "not within the request that met it"
    leading.begin_flushes()
    assert (produced, produces.response.error_code) == ([True], ErrorCode.KAFKA_STORAGE_ERROR)
    assert [each.results[0].error for each in fetched] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert trim.error == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_search_by_time_that_meets_a_changed_batch_ends_the_partition():
    disk = MemoryDisk()
    _, partition = unread(disk)
    file = disk.files[partition.log.segments.active.file.path]
    file.content[61:73] = b"\xff" * 12
    found = partition.offset_for_timestamp(NOW_MS, ALL)
    assert found is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.availability() is ErrorCode.KAFKA_STORAGE_ERROR


def test_records_are_not_deleted_where_the_policy_does_not_delete():
    leading = Leading(config=LogConfig(delete=False, compact=True))
    partition = leading.partition()
    leading.append(partition)
    leading.settle()
    assert partition.delete_records(1) is ErrorCode.POLICY_VIOLATION
    assert partition.log.log_start_offset == 0
