"""A produce with acks=-1 waits for its high watermarks, and is answered once."""

from __future__ import annotations

from leading import Leading

from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.replication.produce import DelayedProduce


def parked(leading: Leading, *partitions: Partition) -> tuple[DelayedProduce, list[list[str]]]:
    """Append to each and wait; the answers are the names of the errors."""
    answers: list[list[str]] = []
    statuses = [leading.produce_status(partition) for partition in partitions]
    operation = DelayedProduce(
        1000,
        statuses,
        lambda settled: answers.append([ErrorCode(s.response.error_code).name for s in settled]),
    )
    keys = [partition.topic_partition for partition in partitions]
    leading.replicas.produce_purgatory.try_complete_else_watch(operation, keys)
    return operation, answers


def test_it_is_answered_when_the_flush_has_ended_and_not_before() -> None:
    leading = Leading()
    partition = leading.partition()
    _, answers = parked(leading, partition)
    leading.begin_flushes()
    assert answers == [] and partition.high_watermark == 0
    leading.end_flush()
    assert answers == [["NONE"]] and partition.high_watermark == 1


def test_with_durability_os_it_need_not_wait() -> None:
    leading = Leading(fsync=False)
    _, answers = parked(leading, leading.partition())
    assert answers == [["NONE"]] and not leading.work


def test_it_waits_for_all_its_partitions() -> None:
    leading = Leading()
    _, answers = parked(leading, leading.partition(0), leading.partition(1))
    leading.begin_flushes()
    leading.end_flush()
    assert answers == []
    leading.end_flush()
    assert answers == [["NONE", "NONE"]]


def test_at_its_deadline_it_says_what_is_still_pending() -> None:
    leading = Leading()
    first, second = leading.partition(0), leading.partition(1)
    operation, answers = parked(leading, first, second)
    leading.begin_flushes()
    leading.end_flush()
    leading.timer.advance_clock(1000)
    assert answers == [["NONE", "REQUEST_TIMED_OUT"]]
    leading.end_flush()
    assert operation.is_completed and len(answers) == 1


def test_appends_during_a_flush_share_the_next_one() -> None:
    leading = Leading()
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


def test_a_partition_that_goes_away_is_answered_at_once() -> None:
    leading = Leading()
    partition = leading.partition()
    _, answers = parked(leading, partition)
    leading.replicas.remove(partition.topic_partition)
    assert answers == [["UNKNOWN_TOPIC_OR_PARTITION"]]


def test_after_a_failed_fsync_nothing_is_acknowledged() -> None:
    leading = Leading()
    first, second = leading.partition(0), leading.partition(1)
    _, answers = parked(leading, first)
    leading.begin_flushes()
    _, _, failed = leading.work.pop()
    failed(leading.directory.fence.fail(OSError(5, "input/output error")))
    assert answers == [["KAFKA_STORAGE_ERROR"]]
    assert leading.append(second).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert first.high_watermark == 0
