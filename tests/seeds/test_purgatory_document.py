"""The worked examples of 000_43eea49d07aca3da.txt: DelayedOperationPurgatory, produce and fetch.

Each test quotes the example by its numbers. The document counts buckets from 0 in some places and
from 1 in others; where that makes it contradict itself, the test's name or comment says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from odradek.log.log_config import LogConfig
from odradek.model.errors import ErrorCode
from odradek.replication.fetch import (
    DelayedFetch,
    FetchOutcome,
    FetchParams,
    FetchTarget,
    read_targets,
)
from odradek.replication.partition import Isolation, Partition
from odradek.replication.produce import DelayedProduce, ProduceStatus
from odradek.timing import DelayedOperation, DelayedOperationPurgatory, SystemTimer
from seeds.led_partitions import LedPartitions
from seeds.wheel_places import WheelPlace, levels, place_of, started, wake_ups

# -- TimingWheel -----------------------------------------------------------------------------------


def test_tasks_10_12_and_15_ms_after_t_share_the_list_of_bucket_2_and_none_20_ms_after() -> None:
    """T1 is due at t+10, T2 at t+15, T3 at t+12: the list of bucket 2 of the second wheel, which
    expires at t, holds what is due from t to t+20 ms. (t+20 ms itself belongs to the next.)"""
    timer, t = SystemTimer(0), 40
    inside = started(timer, t, t + 10, t + 15, t + 12, t + 19)
    before, after = started(timer, t - 1, t + 20)
    assert {place_of(timer, task) for task in inside} == {WheelPlace(2, 2, t, t + 20)}
    assert place_of(timer, before) == WheelPlace(2, 1, t - 20, t)
    assert place_of(timer, after) == WheelPlace(2, 3, t + 20, t + 40)


def test_with_the_hand_at_3_ms_the_wheel_spans_3_to_23_ms() -> None:
    ct = 1_000
    timer = SystemTimer(ct)
    timer.advance_clock(ct + 3)
    last, beyond = started(timer, 19, 20)
    assert place_of(timer, last) == WheelPlace(1, 2, ct + 22, ct + 23)
    assert len(levels(timer)) == 2
    place = place_of(timer, beyond)
    assert place is not None and place.level == 2, "ct+23 ms itself is no longer of this wheel"


@pytest.mark.parametrize(
    ("counted_from_1", "first_turn", "second_turn"),
    [(2, (1, 2), (21, 22)), (3, (2, 3), (22, 23))],
)
def test_a_bucket_stands_for_20_ms_later_on_the_next_turn_unlike_the_bucket_2_of_the_document(
    counted_from_1: int, first_turn: tuple[int, int], second_turn: tuple[int, int]
) -> None:
    """The document: bucket 2 stands for [ct+1, ct+2] first and, with the hand at 3 ms, for
    [ct+22, ct+23]. That is 21 ms later: the first range counts buckets from 1, the second from 0.
    By one count, bucket 2 goes from [1, 2) to [21, 22), or (from 0) from [2, 3) to [22, 23)."""
    ct = 1_000
    timer = SystemTimer(ct)
    bucket = timer.timing_wheel.buckets[counted_from_1 - 1]
    (task,) = started(timer, first_turn[0])
    assert task.task_list is bucket
    assert place_of(timer, task) == WheelPlace(
        1, counted_from_1 - 1, ct + first_turn[0], ct + first_turn[1]
    )
    timer.advance_clock(ct + 3)
    (task,) = started(timer, second_turn[0] - 3)
    assert task.task_list is bucket
    assert bucket.expiration_ms == ct + second_turn[0]


def test_a_task_of_445_ms_descends_at_400_and_440_ms() -> None:
    """The document calls its bucket "the first" on level 3 and "the third" on level 2. The first
    is bucket 1 counted from 0, the third is bucket 2 counted from 0: one of them counts from 1."""
    timer = SystemTimer(0)
    (task,) = started(timer, 445)
    assert place_of(timer, task) == WheelPlace(3, 1, 400, 800)
    timer.advance_clock(400)
    assert task.expiration_ms - timer.now_ms == 45
    assert place_of(timer, task) == WheelPlace(2, 2, 440, 460)
    timer.advance_clock(440)
    assert place_of(timer, task) == WheelPlace(1, 5, 445, 446)
    timer.advance_clock(445)
    assert task.ran_at_ms == [445]


def test_the_spans_that_are_too_short_for_445_ms_are_20_and_400_ms_and_8000_ms_will_do() -> None:
    timer = SystemTimer(0)
    started(timer, 445)
    assert [wheel.interval_ms for wheel in levels(timer)] == [20, 400, 8000]


def test_an_overflow_wheel_is_made_only_when_a_task_needs_it_and_counts_its_tasks_with_all() -> (
    None
):
    timer = SystemTimer(0)
    assert timer.timing_wheel.overflow_wheel is None
    started(timer, 5, 50, 500)
    assert len({wheel.task_counter for wheel in levels(timer)}) == 1
    assert len({wheel.queue for wheel in levels(timer)}) == 1
    assert timer.size == 3


# -- SystemTimer -----------------------------------------------------------------------------------


def test_a_task_that_is_due_when_it_is_added_goes_on_no_wheel_and_runs_at_the_next_advance() -> (
    None
):
    """In the document a thread pool runs it. There is no pool here: the owner of the timer does."""
    timer = SystemTimer(0)
    (task,) = started(timer, 0)
    assert place_of(timer, task) is None
    assert task.ran_at_ms == []
    assert wake_ups(timer) == [0]
    assert task.ran_at_ms == [0]


def test_of_an_expired_list_tasks_that_are_due_run_and_the_others_descend() -> None:
    timer = SystemTimer(0)
    due, not_due = started(timer, 400, 455)
    assert place_of(timer, due) == place_of(timer, not_due)
    assert timer.advance_clock(400) == 1
    assert (due.ran_at_ms, not_due.ran_at_ms) == ([400], [])
    place = place_of(timer, not_due)
    assert place is not None and place.level == 2


# -- DelayedOperation ------------------------------------------------------------------------------


class RecordingOperation(DelayedOperation):
    def __init__(self, delay_ms: int = 1000) -> None:
        super().__init__(delay_ms)
        self.calls: list[str] = []

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.calls.append("onComplete")

    def on_expiration(self) -> None:
        self.calls.append("onExpiration")


def test_force_complete_takes_the_operation_off_the_wheel_and_completes_it_once() -> None:
    timer, operation = SystemTimer(0), RecordingOperation()
    timer.add(operation)
    assert [operation.force_complete(), operation.force_complete()] == [True, False]
    assert (operation.calls, timer.size) == (["onComplete"], 0)


def test_at_its_deadline_run_calls_on_complete_and_then_on_expiration() -> None:
    timer, operation = SystemTimer(0), RecordingOperation(30)
    timer.add(operation)
    wake_ups(timer)
    assert operation.calls == ["onComplete", "onExpiration"]


def test_a_watch_list_that_becomes_empty_leaves_the_purgatory() -> None:
    timer = SystemTimer(0)
    purgatory = DelayedOperationPurgatory("produce", timer)
    operation = RecordingOperation()
    purgatory.try_complete_else_watch(operation, ["test-0"])
    operation.force_complete()
    assert purgatory.watched == 1, "it stays until somebody looks at its key, or a purge does"
    purgatory.check_and_complete("test-0")
    assert purgatory.watched == 0


# -- DelayedProduce: acks = -1 to test-0 -----------------------------------------------------------


def delayed_produce(
    led: LedPartitions, *partitions: Partition, timeout_ms: int = 30_000
) -> tuple[DelayedProduce, list[list[ErrorCode]]]:
    """Append two records to each and park the request, as the handler of Produce does."""
    answers: list[list[ErrorCode]] = []
    statuses = [led.produce_status(p, b"3", b"4") for p in partitions]

    def respond(statuses: Sequence[ProduceStatus]) -> None:
        answers.append([ErrorCode(status.response.error_code) for status in statuses])

    operation = DelayedProduce(timeout_ms, statuses, respond)
    keys = [partition.topic_partition for partition in partitions]
    led.replicas.produce_purgatory.try_complete_else_watch(operation, keys)
    return operation, answers


def test_a_produce_to_test_0_waits_under_its_key_until_the_high_watermark_moves() -> None:
    """In the document three replicas have to fetch the records. One broker has one replica, so the
    high watermark moves when the records are on the disk. The key and the rule are the same."""
    led = LedPartitions()
    partition = led.lead("test", 0)
    led.append(partition, b"0", b"1", b"2")
    led.flush()
    operation, answers = delayed_produce(led, partition)
    purgatory = led.replicas.produce_purgatory
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    assert purgatory.check_and_complete(partition.topic_partition) == 0
    assert (partition.high_watermark, answers) == (3, [])
    led.flush()
    assert (partition.high_watermark, answers) == (5, [[ErrorCode.NONE]])
    assert operation.is_completed and purgatory.num_delayed == 0


def test_the_required_offset_is_the_last_offset_plus_1_and_the_high_watermark_reaches_it() -> None:
    """The document: the high watermark is *greater than* the offset of the last message. Kafka and
    this broker keep the offset after it, and the high watermark is *at least* that."""
    led = LedPartitions()
    partition = led.lead("test", 0)
    result = led.append(partition, b"0", b"1", b"2")
    assert (result.base_offset, result.required_offset) == (0, 3)
    led.flush()
    assert partition.high_watermark == result.required_offset > 2


def test_a_produce_that_expires_answers_the_request_timed_out_that_was_set_when_it_was_made() -> (
    None
):
    led = LedPartitions()
    operation, answers = delayed_produce(led, led.lead("test", 0))
    led.timer.advance_clock(29_999)
    assert answers == []
    led.timer.advance_clock(30_000)
    assert answers == [[ErrorCode.REQUEST_TIMED_OUT]]
    assert operation.is_completed


def test_a_produce_to_two_partitions_watches_two_keys_and_needs_both() -> None:
    led = LedPartitions()
    first, second = led.lead("test", 0), led.lead("test", 1)
    operation, answers = delayed_produce(led, first, second)
    assert led.replicas.produce_purgatory.watched == 2
    first.high_watermark = 2
    led.replicas.produce_purgatory.check_and_complete(first.topic_partition)
    assert not operation.is_completed
    second.high_watermark = 2
    led.replicas.produce_purgatory.check_and_complete(second.topic_partition)
    assert answers == [[ErrorCode.NONE, ErrorCode.NONE]]


def test_a_produce_to_a_partition_that_is_no_longer_led_here_is_answered_with_an_error() -> None:
    led = LedPartitions()
    partition = led.lead("test", 0)
    _, answers = delayed_produce(led, partition)
    led.replicas.remove(partition.topic_partition)
    assert answers == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]


# -- DelayedFetch ----------------------------------------------------------------------------------


def delayed_fetch(
    led: LedPartitions, *partitions: Partition, min_bytes: int = 1
) -> tuple[DelayedFetch, list[FetchOutcome]]:
    """Read the log first; then wait, as the handler of Fetch does when that was not enough."""
    asked = FetchParams(min_bytes, 1 << 20, Isolation.READ_UNCOMMITTED)
    targets = [FetchTarget(p, ErrorCode.NONE, p.high_watermark, 1 << 20) for p in partitions]
    first = read_targets(targets, asked)
    assert first.size == 0 and not first.at_once
    first.release()
    answers: list[FetchOutcome] = []
    operation = DelayedFetch(500, targets, asked, answers.append)
    keys = [partition.topic_partition for partition in partitions]
    led.replicas.fetch_purgatory.try_complete_else_watch(operation, keys)
    return operation, answers


def test_appended_records_complete_the_fetch_that_waits_for_them() -> None:
    """Steps (1) to (8) of the document's figures: produce and fetch complete each other. A consumer
    is given no more than the high watermark, so it is the flush that completes its fetch."""
    led = LedPartitions()
    partition = led.lead("test", 0)
    fetch, fetched = delayed_fetch(led, partition)
    _, produced = delayed_produce(led, partition)
    assert not fetch.is_completed
    led.flush()
    assert produced == [[ErrorCode.NONE]]
    assert [outcome.size > 0 for outcome in fetched] == [True]


def test_one_partition_that_meets_a_condition_completes_the_whole_fetch() -> None:
    """ "Unlike a DelayedProduce": a reason in one of its partitions is enough."""
    led = LedPartitions()
    first, second = led.lead("test", 0), led.lead("test", 1)
    fetch, fetched = delayed_fetch(led, first, second, min_bytes=1 << 20)
    led.replicas.remove(second.topic_partition)
    assert fetch.is_completed
    assert [result.error for result in fetched[0].results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_min_bytes_are_counted_over_all_partitions_of_the_fetch() -> None:
    led = LedPartitions()
    first, second = led.lead("test", 0), led.lead("test", 1)
    fetch, fetched = delayed_fetch(led, first, second, min_bytes=2 * 73)
    led.append(first, b"value")
    led.flush()
    assert not fetch.is_completed, "73 bytes of 146"
    led.append(second, b"value")
    led.flush()
    assert [outcome.size for outcome in fetched] == [2 * 73]


def test_a_fetch_offset_outside_the_active_segment_completes_the_fetch_below_min_bytes() -> None:
    """What is left of an older segment is one stretch of one file, which sendfile can send; what
    follows is in another file."""
    led = LedPartitions(LogConfig(segment_bytes=2 * 73))
    partition = led.lead("test", 0)
    fetch, _ = delayed_fetch(led, partition, min_bytes=1 << 20)
    for _ in range(2):
        led.append(partition, b"value")
        led.flush()
        assert not fetch.is_completed
    led.append(partition, b"value")
    led.flush()
    assert len(partition.log.segments) == 2
    assert fetch.is_completed


def test_a_fetch_that_expires_answers_with_a_second_read_of_the_log() -> None:
    led = LedPartitions()
    partition = led.lead("test", 0)
    _, fetched = delayed_fetch(led, partition, min_bytes=1 << 20)
    led.append(partition, b"value")
    led.flush()
    led.timer.advance_clock(499)
    assert fetched == []
    led.timer.advance_clock(500)
    assert [outcome.size for outcome in fetched] == [73]
