"""DeleteRecords: the response is sent when the deleted records cannot come back."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

import pytest

from odradek.log.log_config import LogConfig
from odradek.log.memory_disk import MemoryDisk
from odradek.log.retention import delete_old_segments
from odradek.model.errors import ErrorCode
from odradek.replication.delete_records import DelayedDeleteRecords, DeleteRecordsStatus
from odradek.replication.partition import Partition
from unit.replication.memory_replicas import NOW_MS, TOPIC_ID, MemoryReplicas


class BrokenDisk(MemoryDisk):
    """Fails effects of the kind `broken` on `durable-ends`, and counts its syncs."""

    broken = ""
    code = errno.EIO
    syncs = 0

    def effect(self, kind: str, path: str) -> None:
        if path.endswith("durable-ends"):
            self.syncs += kind == "sync"
            if kind == self.broken:
                raise OSError(self.code, "broken", path)


def leading_with_records(
    partitions: int = 1, *, fsync: bool = True, disk: MemoryDisk | None = None
) -> tuple[MemoryReplicas, list[Partition]]:
    leading = MemoryReplicas(fsync=fsync, disk=disk)
    made = [leading.partition(number) for number in range(partitions)]
    for partition in made:
        leading.append(partition, 5)
    leading.run_until_idle()
    return leading, made


def delete(leading: MemoryReplicas, *offsets: int) -> list[DeleteRecordsStatus]:
    """Delete from partition 0, 1, ... up to these offsets, and wait as the handler does."""
    replicas = leading.replicas
    statuses = [replicas.delete_records("t", number, to) for number, to in enumerate(offsets)]
    if any(status.pending for status in statuses):
        wait(leading, statuses, lambda _: None)
    return statuses


def wait(
    leading: MemoryReplicas,
    statuses: list[DeleteRecordsStatus],
    answer: Callable[[Sequence[DeleteRecordsStatus]], None],
) -> None:
    operation = DelayedDeleteRecords(30_000, statuses, answer)
    keys = [s.partition.topic_partition for s in statuses if s.partition is not None]
    leading.replicas.delete_records_purgatory.try_complete_else_watch(operation, keys)


def after_a_kill(leading: MemoryReplicas, disk: MemoryDisk) -> int:
    """The log start offset after a restart."""
    disk.locks.clear()
    return MemoryReplicas(disk=disk).partition().log.log_start_offset


def test_one_sync_serves_all_partitions_of_a_request():
    disk = BrokenDisk()
    leading, partitions = leading_with_records(3, disk=disk)
    before = disk.syncs
    statuses = delete(leading, 1, 2, -1)
    assert [status.error for status in statuses] == [ErrorCode.REQUEST_TIMED_OUT] * 3
    assert [part.log.log_start_offset for part in partitions] == [1, 2, 5], "not visible to readers"
    leading.run_until_idle()
    assert [(status.error, status.low_watermark) for status in statuses] == [(0, 1), (0, 2), (0, 5)]
    assert disk.syncs == before + 1
    assert leading.replicas.delete_records_purgatory.num_delayed == 0


def test_a_request_during_a_sync_waits_for_the_next():
    leading, _ = leading_with_records()
    (first,) = delete(leading, 1)
    leading.begin_flushes()
    (second,) = delete(leading, 2)
    leading.begin_flushes()
    assert len(leading.work) == 1
    leading.end_flush()
    leading.begin_flushes()
    assert (first.pending, first.low_watermark) == (False, 1)
    assert second.pending
    leading.run_until_idle()
    assert second.low_watermark == 2


def test_a_durable_log_start_is_answered_at_once():
    leading, _ = leading_with_records()
    delete(leading, 3)
    leading.run_until_idle()
    (status,) = delete(leading, 2)
    assert (status.pending, status.error, status.low_watermark) == (False, 0, 3)


def test_with_durability_os_it_is_answered_at_once_and_survives_the_process():
    disk = BrokenDisk()
    leading, _ = leading_with_records(fsync=False, disk=disk)
    (status,) = delete(leading, 3)
    assert (status.pending, status.error, status.low_watermark) == (False, 0, 3)
    assert leading.work == []
    assert after_a_kill(leading, disk) == 3


def test_a_log_start_survives_the_process_without_a_checkpoint():
    disk = BrokenDisk()
    leading, _ = leading_with_records(disk=disk)
    delete(leading, 3)
    leading.run_until_idle()
    assert after_a_kill(leading, disk) == 3


def test_later_flushes_keep_the_log_start():
    disk = BrokenDisk()
    leading, (partition,) = leading_with_records(disk=disk)
    delete(leading, 3)
    for _ in range(3):
        leading.append(partition)
        leading.run_until_idle()
    assert after_a_kill(leading, disk) == 3


@pytest.mark.parametrize("fsync", [False, True])
def test_a_response_makes_an_earlier_retention_durable_too(fsync: bool):
    disk = BrokenDisk()
    config = LogConfig(segment_bytes=100, retention_bytes=0)
    leading = MemoryReplicas(fsync=fsync, config=config, disk=disk)
    partition = leading.partition()
    for _ in range(5):
        leading.append(partition)
    leading.run_until_idle()
    assert delete_old_segments(partition.log, NOW_MS) is not None
    assert partition.log.log_start_offset == 4, "no checkpoint knows of that yet"
    (status,) = delete(leading, 2)
    leading.run_until_idle()
    assert (status.pending, status.error, status.low_watermark) == (False, 0, 4)
    assert after_a_kill(leading, disk) == 4


def test_a_log_start_known_only_from_files_is_noted_for_the_response():
    disk = BrokenDisk()
    leading = MemoryReplicas(config=LogConfig(segment_bytes=100, retention_bytes=0), disk=disk)
    partition = leading.partition()
    for _ in range(5):
        leading.append(partition)
    leading.run_until_idle()
    deletion = delete_old_segments(partition.log, NOW_MS)
    assert deletion is not None
    deletion.rename()
    disk.locks.clear()
    disk.remove("data/durable-ends")
    again = MemoryReplicas(disk=disk)
    assert again.partition().log.log_start_offset == 4
    (status,) = delete(again, 2)
    again.run_until_idle()
    assert (status.pending, status.error, status.low_watermark) == (False, 0, 4)


def test_a_response_that_raises_does_not_stop_the_others():
    leading, _ = leading_with_records(3)

    def fail(_: object) -> None:
        raise RuntimeError("another response failed")

    wait(leading, [leading.replicas.delete_records("t", 0, 1)], fail)
    with_it = leading.replicas.delete_records("t", 1, 1)
    wait(leading, [with_it], lambda _: None)
    leading.begin_flushes()
    after_it = leading.replicas.delete_records("t", 2, 2)
    wait(leading, [after_it], lambda _: None)
    leading.begin_flushes()
    leading.end_flush()
    with pytest.raises(RuntimeError, match="another response"):
        leading.begin_flushes()
    leading.run_until_idle()
    assert (with_it.pending, with_it.error, with_it.low_watermark) == (False, 0, 1)
    assert (after_it.pending, after_it.error, after_it.low_watermark) == (False, 0, 2)


def test_a_log_start_noted_by_a_killed_process_is_synced_before_a_response():
    disk = BrokenDisk()
    leading, _ = leading_with_records(disk=disk)
    delete(leading, 3)
    disk.locks.clear()  # killed before the sync
    again = MemoryReplicas(disk=disk)
    again.partition()
    before = disk.syncs
    (status,) = delete(again, 3)
    assert status.pending
    again.run_until_idle()
    assert (status.error, status.low_watermark, disk.syncs) == (0, 3, before + 1)


def test_a_log_start_in_the_checkpoint_needs_no_sync():
    disk = BrokenDisk()
    leading, _ = leading_with_records(disk=disk)
    delete(leading, 3)
    leading.directory.checkpoint()()
    disk.locks.clear()
    again = MemoryReplicas(disk=disk)
    again.partition()
    (status,) = delete(again, 3)
    assert (status.pending, status.error, status.low_watermark) == (False, 0, 3)


def test_a_sync_covers_the_log_starts_noted_when_it_began():
    disk = BrokenDisk()
    leading, (partition,) = leading_with_records(disk=disk)
    (first,) = delete(leading, 2)
    partition.log.raise_log_start(4)  # and noted nowhere
    leading.begin_flushes()
    leading.end_flush()
    leading.begin_flushes()
    assert (first.pending, first.low_watermark) == (False, 2)
    (second,) = delete(leading, 3)
    assert second.pending
    leading.run_until_idle()
    assert (second.pending, second.error) == (False, 0)
    assert after_a_kill(leading, disk) == 4


def test_a_failed_sync_takes_all_partitions_offline():
    disk = BrokenDisk()
    leading, (partition,) = leading_with_records(disk=disk)
    (status,) = delete(leading, 3)
    disk.broken = "sync"
    leading.run_until_idle()
    assert status.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.availability() == ErrorCode.KAFKA_STORAGE_ERROR


def test_nothing_is_deleted_if_the_log_start_cannot_be_noted():
    disk = BrokenDisk()
    disk.code = errno.ENOSPC
    leading, (partition,) = leading_with_records(disk=disk)
    disk.broken = "write"
    (status,) = delete(leading, 3)
    assert (status.pending, status.error) == (False, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (partition.log.log_start_offset, partition.availability()) == (0, 0)
    disk.broken = ""
    delete(leading, 2)
    leading.run_until_idle()
    assert after_a_kill(leading, disk) == 2


def test_a_removed_partition_completes_with_unknown_topic_or_partition():
    leading, (partition,) = leading_with_records()
    (status,) = delete(leading, 3)
    leading.replicas.remove(partition.topic_partition)
    assert status.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    leading.run_until_idle()
    assert TOPIC_ID not in {topic_id for topic_id, _ in leading.replicas.by_id}


@pytest.mark.parametrize("offset", [6, -1])
def test_records_on_their_way_to_the_disk_are_deleted_when_they_are_there(offset: int):
    """`acks=1` has acknowledged them: OFFSET_OUT_OF_RANGE would be wrong for its producer."""
    leading, [partition] = leading_with_records()
    leading.append(partition)
    (status,) = delete(leading, offset)
    assert status.pending
    assert partition.log.log_start_offset == 0
    leading.append(partition)
    leading.run_until_idle()
    assert (status.pending, status.error, status.low_watermark) == (False, 0, 6)
    assert partition.high_watermark == 7


def test_an_offset_beyond_the_log_end_is_refused_at_once():
    leading, [partition] = leading_with_records()
    leading.append(partition)
    (status,) = delete(leading, 7)
    assert (status.pending, status.error) == (False, ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_partition_that_is_removed_while_its_records_are_flushed_deletes_nothing():
    leading, [partition] = leading_with_records()
    leading.append(partition)
    (status,) = delete(leading, 6)
    leading.replicas.remove(partition.topic_partition)
    assert (status.pending, status.error) == (False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    leading.run_until_idle()
    assert partition.log.log_start_offset == 0
