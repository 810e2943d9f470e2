"""The worked examples of 003_6e98b32bef1a34c8.txt: SystemTimer, DelayedOperation, the purgatory.

Each test quotes the example by its numbers. Where the document's own count is wrong, the test's
name or docstring says so.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.config.producer import ProducerConfig
from odradek.timing import DelayedOperation, DelayedOperationPurgatory, SystemTimer
from odradek.timing.threaded import ThreadedDelayedOperation
from seeds.wheel_places import RecordingTask, WheelPlace, levels, place_of, started

# -- levels and buckets ----------------------------------------------------------------------------


def test_the_levels_span_20_ms_400_ms_and_8_s() -> None:
    timer = SystemTimer(0)
    started(timer, 7_999)
    shape = [(wheel.wheel_size, wheel.tick_ms, wheel.interval_ms) for wheel in levels(timer)]
    assert shape == [(20, 1, 20), (20, 20, 400), (20, 400, 8_000)]


def test_bucket_1_holds_0_to_1_ms_which_is_now_and_bucket_2_holds_1_to_2_ms() -> None:
    """Counted from 1, as in this part of the document. What is due in [0, 1) is due at once."""
    timer = SystemTimer(0)
    now, next_one = started(timer, 0, 1)
    assert place_of(timer, now) is None and now.is_due
    assert place_of(timer, next_one) == WheelPlace(level=1, bucket=1, begins_ms=1, ends_ms=2)


def test_a_task_of_18_and_a_half_ms_belongs_into_the_19th_bucket_of_the_first_level() -> None:
    """Deadlines are whole milliseconds: 18.5 ms lies in the bucket of 18 ms, [18, 19)."""
    timer = SystemTimer(0)
    (task,) = started(timer, int(18.5))
    assert place_of(timer, task) == WheelPlace(level=1, bucket=19 - 1, begins_ms=18, ends_ms=19)


def test_a_task_of_123_ms_goes_into_the_7th_bucket_of_the_second_level_not_the_6th() -> None:
    """The document says the 6th, counting from 1 as for 18.5 ms. But the 6th of 20 ms each ends at
    120 ms: 123 ms is in the 7th, [120, 140), which is number 6 only if one counts from 0."""
    timer = SystemTimer(0)
    (task,) = started(timer, 123)
    assert place_of(timer, task) == WheelPlace(level=2, bucket=7 - 1, begins_ms=120, ends_ms=140)
    assert levels(timer)[1].buckets[6 - 1].is_empty


# -- advanceClock: T0, T18 to T21 ------------------------------------------------------------------


@pytest.fixture
def timer() -> SystemTimer:
    return SystemTimer(0)


@pytest.fixture
def tasks(timer: SystemTimer) -> list[RecordingTask]:
    """Tasks 1, 2 and 3 of the document's figure, due at T19, T20 and T21."""
    return started(timer, 19, 20, 21)


def test_at_t0_task_1_is_on_level_0_and_tasks_2_and_3_are_in_bucket_1_of_level_1(
    timer: SystemTimer, tasks: list[RecordingTask]
) -> None:
    assert place_of(timer, tasks[0]) == WheelPlace(1, 19, 19, 20)
    assert place_of(timer, tasks[1]) == place_of(timer, tasks[2]) == WheelPlace(2, 1, 20, 40)


def test_at_t18_nothing_has_happened(timer: SystemTimer, tasks: list[RecordingTask]) -> None:
    assert timer.advance_clock(18) == 0
    assert [wheel.current_time_ms for wheel in levels(timer)] == [18, 0]


def test_at_t19_task_1_runs_and_level_1_has_not_moved(
    timer: SystemTimer, tasks: list[RecordingTask]
) -> None:
    assert timer.advance_clock(19) == 1
    assert tasks[0].ran_at_ms == [19]
    assert levels(timer)[1].current_time_ms == 0
    assert place_of(timer, tasks[1]) == place_of(timer, tasks[2]) == WheelPlace(2, 1, 20, 40)


def test_at_t20_level_1_moves_by_one_task_2_runs_and_task_3_descends_to_bucket_1_not_21(
    timer: SystemTimer, tasks: list[RecordingTask]
) -> None:
    """The document puts tasks 2 and 3 into "the 20th and 21st" bucket of level 0. It has 20, of
    which the document numbers the first 0 and the last 19: the numbers are those of the deadlines,
    T20 and T21, and their buckets 0 and 1. Bucket 0 is where the hand is, so task 2 is due and goes
    into none."""
    timer.advance_clock(19)
    assert timer.advance_clock(20) == 1
    assert levels(timer)[1].current_time_ms == 20
    assert tasks[1].ran_at_ms == [20]
    assert len(timer.timing_wheel.buckets) == 20
    assert place_of(timer, tasks[2]) == WheelPlace(1, 21 % 20, 21, 22)


def test_at_t21_task_3_runs(timer: SystemTimer, tasks: list[RecordingTask]) -> None:
    for now_ms in (19, 20, 21):
        timer.advance_clock(now_ms)
    assert [task.ran_at_ms for task in tasks] == [[19], [20], [21]]
    assert timer.size == 0


# -- Timer.add -------------------------------------------------------------------------------------


def test_add_puts_a_pending_task_on_the_wheel_a_due_one_aside_and_a_cancelled_one_nowhere() -> None:
    timer = SystemTimer(0)
    pending, due, cancelled = started(timer, 10, 0, 10)
    assert cancelled.cancel()
    assert timer.size == 1
    assert (pending.is_scheduled, due.is_due, cancelled.is_scheduled) == (True, True, False)
    timer.advance_clock(10)
    assert [task.ran_at_ms for task in (pending, due, cancelled)] == [[10], [10], []]


# -- DelayedOperation ------------------------------------------------------------------------------


class Operation(DelayedOperation):
    """Completes when `ready`; `during_try` is called in each try, after it has looked."""

    def __init__(self, delay_ms: int = 30_000) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self.tries = self.completions = self.expirations = 0
        self.during_try: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        self.tries += 1
        ready = self.ready
        self.during_try()
        return ready and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expirations += 1


def test_a_try_that_comes_during_a_try_makes_that_one_look_again_instead_of_being_lost() -> None:
    """`tryCompletePending` of maybeTryComplete: the thread with the lock finds the condition false,
    another finds it true and has no lock. The first one tries again."""
    operation = Operation()

    def becomes_ready() -> None:
        operation.during_try = lambda: None
        operation.ready = True
        assert not operation.safe_try_complete(), "the try that runs does it"

    operation.during_try = becomes_ready
    assert operation.safe_try_complete()
    assert (operation.tries, operation.completions) == (2, 1)


def test_run_is_force_complete_and_then_on_expiration_only_for_the_one_who_completed() -> None:
    expired, completed = Operation(), Operation()
    completed.force_complete()
    for operation in (expired, completed):
        operation.run()
        operation.run()
    assert (expired.completions, expired.expirations) == (1, 1)
    assert (completed.completions, completed.expirations) == (1, 0)


def test_a_lock_belongs_to_an_operation_only_where_threads_share_it() -> None:
    """`lockOpt: Option[Lock] = None`: Kafka makes a lock anyway. An owner loop needs none."""

    class Shared(ThreadedDelayedOperation):
        def try_complete(self) -> bool:
            return False

    assert Operation().lock is None
    assert Shared(1000).lock is not None


# -- DelayedOperationPurgatory ---------------------------------------------------------------------


def test_an_operation_that_can_complete_is_not_watched(timer: SystemTimer) -> None:
    purgatory = DelayedOperationPurgatory("produce", timer)
    operation = Operation()
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (operation.tries, purgatory.watched, timer.size) == (1, 0, 0)


def test_one_that_cannot_is_watched_under_each_key_tried_a_second_time_and_timed(
    timer: SystemTimer,
) -> None:
    purgatory = DelayedOperationPurgatory("produce", timer)
    operation = Operation()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert (operation.tries, purgatory.watched, timer.size) == (2, 2, 1)


def test_the_second_try_completes_what_became_ready_while_it_was_entered(
    timer: SystemTimer,
) -> None:
    purgatory = DelayedOperationPurgatory("produce", timer)
    operation = Operation()

    def becomes_ready() -> None:
        operation.ready = True

    operation.during_try = becomes_ready
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.tries, operation.completions, timer.size) == (2, 1, 0)


def test_check_and_complete_tries_those_of_the_key_and_returns_how_many_it_completed(
    timer: SystemTimer,
) -> None:
    purgatory = DelayedOperationPurgatory("produce", timer)
    operations = [Operation() for _ in range(4)]
    for operation, key in zip(operations, "aaab", strict=True):
        purgatory.try_complete_else_watch(operation, [key])
    for operation in operations[1:]:
        operation.ready = True
    assert purgatory.check_and_complete("no such key") == 0
    assert purgatory.check_and_complete("a") == 2
    assert [operation.is_completed for operation in operations] == [False, True, True, False]


def test_the_purge_interval_of_1000_counts_operations_not_milliseconds(timer: SystemTimer) -> None:
    """The document says that the reaper purges once a second. `purgeInterval` is a number of
    completed operations, as producer.purgatory.purge.interval.requests says in its name: no time
    passes here at all. (The question at the document's end: `purged` is how many completed
    operations left the watch lists.)"""
    purgatory = DelayedOperationPurgatory("produce", timer)
    assert purgatory.purge_interval == 1000

    def completed_operations(count: int) -> None:
        for _ in range(count):
            operation = Operation()
            purgatory.try_complete_else_watch(operation, ["a"])
            operation.force_complete()

    completed_operations(1000)
    purgatory.check_and_complete("another key")
    assert purgatory.watched == 1000
    completed_operations(1)
    purgatory.check_and_complete("another key")
    assert purgatory.watched == 0
    assert timer.now_ms == 0


def test_the_time_limit_of_a_produce_is_the_clients_request_timeout_ms() -> None:
    """It is usually the client's request.timeout.ms, whose default is 30 s."""
    assert ProducerConfig.declared["request.timeout.ms"].default == 30_000
