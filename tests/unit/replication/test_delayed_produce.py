"""A produce with acks=-1 waits for its high watermarks and gets one response."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.replication.produce import DelayedProduce
from unit.replication.memory_replicas import MemoryReplicas


def parked(
    leading: MemoryReplicas, *partitions: Partition
) -> tuple[DelayedProduce, list[list[str]]]:
    """Append to each and wait; a response is the list of the names of the errors."""
    answers: list[list[str]] = []
    statuses = [leading.produce_status(partition) for partition in partitions]
    operation = DelayedProduce(
        1000,
        statuses,
        lambda statuses: answers.append([ErrorCode(s.response.error_code).name for s in statuses]),
    )
    keys = [partition.topic_partition for partition in partitions]
    leading.replicas.produce_purgatory.try_complete_else_watch(operation, keys)
    return operation, answers


def test_a_produce_completes_when_the_flush_has_ended() -> None:
    leading = MemoryReplicas()
    partition = leading.partition()
    _, answers = parked(leading, partition)
    leading.begin_flushes()
    assert answers == [] and partition.high_watermark == 0
    leading.end_flush()
    assert answers == [["NONE"]] and partition.high_watermark == 1


def test_a_produce_does_not_wait_with_durability_os() -> None:
    leading = MemoryReplicas(fsync=False)
    _, answers = parked(leading, leading.partition())
    assert answers == [["NONE"]] and not leading.work


def test_a_produce_waits_for_all_its_partitions() -> None:
    leading = MemoryReplicas()
    _, answers = parked(leading, leading.partition(0), leading.partition(1))
    leading.begin_flushes()
    leading.end_flush()
    assert answers == []
    leading.end_flush()
    assert answers == [["NONE", "NONE"]]


def test_at_the_deadline_pending_partitions_get_request_timed_out() -> None:
    leading = MemoryReplicas()
    first, second = leading.partition(0), leading.partition(1)
    operation, answers = parked(leading, first, second)
    leading.begin_flushes()
    leading.end_flush()
    leading.timer.advance_clock(1000)
    assert answers == [["NONE", "REQUEST_TIMED_OUT"]]
    leading.end_flush()
    assert operation.is_completed and len(answers) == 1


def test_appends_during_a_flush_share_the_next_flush() -> None:
    leading = MemoryReplicas()
    partition = leading.partition()
    _, first = parked(leading, partition)
    leading.begin_flushes()
    later = [parked(leading, partition)[1] for _ in range(10)]
    leading.begin_flushes()
    assert len(leading.work) == 1
    leading.end_flush()
    assert first == [["NONE"]] and later == [[]] * 10
    leading.begin_flushes()
    leading.end_flush()
    assert later == [[["NONE"]]] * 10 and not leading.work


def test_a_removed_partition_completes_its_produce_at_once() -> None:
    leading = MemoryReplicas()
    partition = leading.partition()
    _, answers = parked(leading, partition)
    leading.replicas.remove(partition.topic_partition)
    assert answers == [["UNKNOWN_TOPIC_OR_PARTITION"]]


def test_after_a_failed_fsync_nothing_is_acknowledged() -> None:
    leading = MemoryReplicas()
    first, second = leading.partition(0), leading.partition(1)
    _, answers = parked(leading, first)
    leading.begin_flushes()
    _, _, failed = leading.work.pop()
    failed(leading.directory.fence.fail(OSError(5, "input/output error")))
    assert answers == [["KAFKA_STORAGE_ERROR"]]
    assert leading.append(second).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert first.high_watermark == 0
