"""One partition: epochs without records, errors of reads, the deletion policy."""

from __future__ import annotations

import errno

import pytest

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
from unit.replication.memory_replicas import NOW_MS, MemoryReplicas

ALL = Isolation.READ_UNCOMMITTED
UNKNOWN = -1


def test_a_leader_epoch_without_records_ends_at_the_log_end():
    """A consumer at the log end has this epoch from Metadata and must not report lost records."""
    leading = MemoryReplicas()
    partition = leading.partition()
    leading.append(partition)
    partition.leader_epoch = 2
    assert partition.end_offset_for_epoch(1) == (0, 1)
    assert partition.end_offset_for_epoch(2) == (2, 1)
    assert partition.end_offset_for_epoch(3) == (UNKNOWN, -1)
    leading.append(partition)
    assert partition.end_offset_for_epoch(1) == (0, 1)
    assert partition.end_offset_for_epoch(2) == (2, 2)


def test_in_an_empty_log_every_known_epoch_ends_at_its_start():
    partition = MemoryReplicas().partition(leader_epoch=2)
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


def unread(disk: MemoryDisk) -> tuple[MemoryReplicas, Partition]:
    """A partition with batches whose positions are not in memory."""
    leading = MemoryReplicas(disk=disk)
    partition = leading.partition()
    for _ in range(3):
        leading.append(partition)
    leading.run_until_idle()
    active = partition.log.segments.active
    active.recent.clear()
    return leading, partition


@pytest.mark.parametrize(
    ("code", "afterwards"),
    [(errno.EMFILE, ErrorCode.NONE), (errno.EIO, ErrorCode.KAFKA_STORAGE_ERROR)],
)
def test_a_read_without_a_descriptor_fails_alone_and_a_disk_error_takes_the_partition_offline(
    code: int, afterwards: ErrorCode
):
    disk = RefusingDisk()
    _, partition = unread(disk)
    disk.refuse(code)
    assert partition.read(1, 1 << 20, ALL, True).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.availability() is afterwards
    assert partition.offset_for_timestamp(NOW_MS, ALL) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_delayed_fetch_completes_if_its_position_cannot_be_read():
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
def test_delayed_requests_complete_when_their_partition_cannot_be_read(found_by: str):
    disk = RefusingDisk()
    leading = MemoryReplicas(
        disk=disk, config=LogConfig(segment_bytes=1000, index_interval_bytes=1)
    )
    partition = leading.partition()
    for _ in range(300):
        leading.append(partition)
    leading.run_until_idle()
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


def test_a_search_by_time_in_a_damaged_batch_takes_the_partition_offline():
    disk = MemoryDisk()
    _, partition = unread(disk)
    file = disk.files[partition.log.segments.active.file.path]
    file.content[61:73] = b"\xff" * 12
    found = partition.offset_for_timestamp(NOW_MS, ALL)
    assert found is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.availability() is ErrorCode.KAFKA_STORAGE_ERROR


def test_delete_records_is_a_policy_violation_without_delete_in_the_policy():
    leading = MemoryReplicas(config=LogConfig(delete=False, compact=True))
    partition = leading.partition()
    leading.append(partition)
    leading.run_until_idle()
    assert partition.delete_records(1) is ErrorCode.POLICY_VIOLATION
    assert partition.log.log_start_offset == 0
