"""DelayedOperationPurgatory: watching, checking, expiring, purging."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.timing import (
    DelayedOperation,
    DelayedOperationPurgatory,
    SystemTimer,
    TimerTask,
)
from unit.timing.recorded import RecordedOperation


@pytest.fixture
def timer() -> SystemTimer:
    return SystemTimer(0)


@pytest.fixture
def purgatory(timer: SystemTimer) -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory("test", timer)


def test_an_operation_completed_by_the_first_try_is_neither_watched_nor_timed(
    purgatory: DelayedOperationPurgatory,
) -> None:
    operation = RecordedOperation()
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events == ["try", "complete"]
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_an_incomplete_operation_is_watched_under_every_key_tried_again_and_timed(
    purgatory: DelayedOperationPurgatory,
) -> None:
    operation = RecordedOperation()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    assert operation.events == ["try", "try"]
    assert (purgatory.watched, purgatory.num_delayed) == (3, 1)


def test_the_second_try_sees_an_event_between_the_first_try_and_the_watch(
    purgatory: DelayedOperationPurgatory,
) -> None:
    class BecomesReady(RecordedOperation):
        def try_complete(self) -> bool:
            done = super().try_complete()
            self.ready = True  # After the first try, and before the watch.
            assert purgatory.check_and_complete("a") == 0
            return done

    operation = BecomesReady()
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.events.count("complete") == 1
    assert purgatory.num_delayed == 0


def test_an_operation_completed_while_watching_is_watched_under_no_further_key(
    purgatory: DelayedOperationPurgatory,
) -> None:
    operation = RecordedOperation()

    def keys():
        yield "a"
        operation.force_complete()
        yield "b"
        yield "c"

    assert not purgatory.try_complete_else_watch(operation, keys())
    assert (purgatory.watched, purgatory.num_delayed) == (1, 0)


def test_an_operation_completed_just_before_its_timer_starts_leaves_no_timer() -> None:
    class Late(SystemTimer):
        def add(self, task: TimerTask) -> None:
            assert operation.force_complete()  # As another thread would, after the last check.
            super().add(task)

    timer, operation = Late(0), RecordedOperation()
    purgatory = DelayedOperationPurgatory("test", timer)
    assert not purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.completions, purgatory.num_delayed, timer.size) == (1, 0, 0)


def test_an_operation_without_keys_is_refused(purgatory: DelayedOperationPurgatory) -> None:
    with pytest.raises(ValueError, match="at least one key"):
        purgatory.try_complete_else_watch(RecordedOperation(), [])


def test_a_check_tries_the_operations_of_its_key_and_returns_how_many_it_completed(
    purgatory: DelayedOperationPurgatory,
) -> None:
    first, second, elsewhere = RecordedOperation(), RecordedOperation(), RecordedOperation()
    purgatory.try_complete_else_watch(first, ["a", "b"])
    purgatory.try_complete_else_watch(second, ["a"])
    purgatory.try_complete_else_watch(elsewhere, ["c"])
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("an unwatched key") == 0
    first.ready = elsewhere.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (first.is_completed, second.is_completed, elsewhere.is_completed) == (True, False, False)
    assert purgatory.num_delayed == 2


def test_equal_keys_of_any_hashable_type_are_the_same_key(
    purgatory: DelayedOperationPurgatory,
) -> None:
    operation = RecordedOperation()
    purgatory.try_complete_else_watch(operation, [("topic", 1), 7, None])
    operation.ready = True
    assert purgatory.check_and_complete(("topic", int("1"))) == 1


def test_checking_a_key_removes_its_completed_operations(
    purgatory: DelayedOperationPurgatory,
) -> None:
    operations = [RecordedOperation(), RecordedOperation(), RecordedOperation()]
    for operation, keys in zip(operations, (["x"], ["x", "y"], ["x", "y", "z"]), strict=True):
        purgatory.try_complete_else_watch(operation, keys)
    assert (purgatory.watched, purgatory.num_delayed) == (6, 3)
    operations[1].force_complete()
    operations[2].force_complete()
    assert (purgatory.watched, purgatory.num_delayed) == (6, 1)
    watched = []
    for key in ("x", "y", "z"):
        purgatory.check_and_complete(key)
        watched.append(purgatory.watched)
    assert watched == [4, 2, 1]


def test_purgatories_that_share_a_timer_count_only_their_own_operations(timer: SystemTimer) -> None:
    produce = DelayedOperationPurgatory("produce", timer)
    fetch = DelayedOperationPurgatory("fetch", timer)
    timer.call_later(5, lambda: None)
    expiring, staying = RecordedOperation(10), RecordedOperation(100)
    produce.try_complete_else_watch(expiring, ["a"])
    fetch.try_complete_else_watch(staying, ["a"])
    assert (produce.num_delayed, fetch.num_delayed, timer.size) == (1, 1, 3)
    timer.advance_clock(50)
    assert (produce.num_delayed, fetch.num_delayed, timer.size) == (0, 1, 1)
    assert expiring.events == ["try", "try", "complete", "expire"]


def test_all_lists_are_purged_after_more_than_the_interval_completed(timer: SystemTimer) -> None:
    purgatory = DelayedOperationPurgatory("test", timer, purge_interval=10)
    waiting = RecordedOperation(10_000)
    purgatory.try_complete_else_watch(waiting, ["kept", "shared"])
    for count in range(11):
        operation = RecordedOperation()
        purgatory.try_complete_else_watch(operation, [f"key {count}", "shared"])
        operation.force_complete()
    assert purgatory.watched == 2 + 22  # Eleven are more than ten, but no purge has run yet.
    purgatory.check_and_complete("any key")
    assert purgatory.watched == 2
    waiting.ready = True
    assert purgatory.check_and_complete("shared") == 1


def test_expired_operations_are_purged_after_the_clock_advanced(timer: SystemTimer) -> None:
    purgatory = DelayedOperationPurgatory("test", timer, purge_interval=0)
    purgatory.try_complete_else_watch(RecordedOperation(10), ["a"])
    timer.advance_clock(10)
    assert purgatory.watched == 0


def test_a_large_purge_runs_in_pieces(timer: SystemTimer) -> None:
    purgatory = DelayedOperationPurgatory("test", timer)
    operations = [RecordedOperation() for _ in range(30_000)]
    for number, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, [number % 100])
    for operation in operations:
        operation.force_complete()
    largest_step, before = 0, purgatory.watched
    for _ in range(10):
        purgatory.check_and_complete("any key")
        largest_step = max(largest_step, before - purgatory.watched)
        before = purgatory.watched
    assert purgatory.watched == 0
    assert largest_step <= 4096 + 300


def test_the_lists_stay_bounded_under_many_completed_operations(timer: SystemTimer) -> None:
    class Quiet(DelayedOperation):
        def try_complete(self) -> bool:
            return False

        def on_complete(self) -> None:
            """Nobody waits for it."""

    purgatory = DelayedOperationPurgatory("test", timer)
    most, live = 0, 500
    for start in range(0, 100_000, live):
        operations = [Quiet(200) for _ in range(live)]
        for number, operation in enumerate(operations, start):
            purgatory.try_complete_else_watch(operation, (number % 97,))
        for operation in operations:
            operation.force_complete()
        most = max(most, purgatory.watched)
    assert most <= 2 * live + purgatory.purge_interval


def test_cancel_for_key_returns_the_waiting_operations_not_completed(
    purgatory: DelayedOperationPurgatory, timer: SystemTimer
) -> None:
    first, second, done, other = (
        RecordedOperation(10),
        RecordedOperation(10),
        RecordedOperation(10),
        RecordedOperation(10),
    )
    for operation in (first, second, done):
        purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.try_complete_else_watch(other, ["b"])
    done.force_complete()
    assert purgatory.cancel_for_key("a") == [first, second]
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    timer.advance_clock(100)
    assert (first.is_completed, other.is_completed) == (False, True)
    assert purgatory.cancel_for_key("a") == []


def test_shutdown_returns_each_waiting_operation_once_and_refuses_new_ones(
    purgatory: DelayedOperationPurgatory, timer: SystemTimer
) -> None:
    first, second = RecordedOperation(), RecordedOperation()
    purgatory.try_complete_else_watch(first, ["a", "b"])
    purgatory.try_complete_else_watch(second, ["b"])
    assert purgatory.shutdown() == [first, second]
    assert (purgatory.watched, purgatory.num_delayed, timer.size) == (0, 0, 0)
    ready = RecordedOperation()
    ready.ready = True
    assert purgatory.try_complete_else_watch(ready, ["a"])
    with pytest.raises(RuntimeError, match="shut down"):
        purgatory.try_complete_else_watch(RecordedOperation(), ["a"])


class CallbackOperation(RecordedOperation):
    """Calls a function when it completes."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self.then = then

    def on_complete(self) -> None:
        super().on_complete()
        self.then()


def test_nested_checks_of_the_same_key_count_only_their_own_completions(
    purgatory: DelayedOperationPurgatory,
) -> None:
    nested: list[int] = []
    second = RecordedOperation()
    first = CallbackOperation(lambda: nested.append(purgatory.check_and_complete("a")))
    third = RecordedOperation()
    for operation in (first, second, third):
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert nested == [2]
    assert [operation.completions for operation in (first, second, third)] == [1, 1, 1]
    assert purgatory.watched == 0


def test_on_complete_may_watch_a_new_operation_under_the_same_key(
    purgatory: DelayedOperationPurgatory,
) -> None:
    new = RecordedOperation()
    first = CallbackOperation(lambda: purgatory.try_complete_else_watch(new, ["a"]))
    purgatory.try_complete_else_watch(first, ["a"])
    first.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    new.ready = True
    assert purgatory.check_and_complete("a") == 1


def test_on_complete_may_cancel_its_own_key(purgatory: DelayedOperationPurgatory) -> None:
    handed_over: list[object] = []
    first = CallbackOperation(lambda: handed_over.extend(purgatory.cancel_for_key("a")))
    second = RecordedOperation()
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["a"])
    first.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert handed_over == [second]
    assert purgatory.watched == 0


def fail() -> None:
    raise KeyError("broken")


def test_if_one_operation_raises_the_rest_are_still_tried(
    purgatory: DelayedOperationPurgatory,
) -> None:
    first, second = CallbackOperation(fail), RecordedOperation()
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    with pytest.raises(KeyError, match="broken"):
        purgatory.check_and_complete("a")
    assert second.is_completed
    assert purgatory.watched == 0


def test_if_several_operations_raise_the_error_has_them_all(
    purgatory: DelayedOperationPurgatory,
) -> None:
    for operation in (CallbackOperation(fail), CallbackOperation(fail)):
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    with pytest.raises(ExceptionGroup, match="test watching 'a'") as told:
        purgatory.check_and_complete("a")
    assert len(told.value.exceptions) == 2


def test_after_an_error_in_the_first_try_nothing_is_watched(
    purgatory: DelayedOperationPurgatory,
) -> None:
    operation = CallbackOperation(fail)
    operation.ready = True
    with pytest.raises(KeyError, match="broken"):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_after_an_error_in_the_second_try_the_timer_is_started(
    purgatory: DelayedOperationPurgatory, timer: SystemTimer
) -> None:
    class FailsLater(RecordedOperation):
        def try_complete(self) -> bool:
            super().try_complete()
            if len(self.events) == 2:
                fail()
            return False

    operation = FailsLater(10)
    with pytest.raises(KeyError, match="broken"):
        purgatory.try_complete_else_watch(operation, ["a"])
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    timer.advance_clock(10)
    assert operation.events[-2:] == ["complete", "expire"]


@pytest.mark.parametrize("shards", [1, 512])
def test_the_number_of_shards_changes_nothing(timer: SystemTimer, shards: int) -> None:
    purgatory = DelayedOperationPurgatory("test", timer, shards=shards)
    operations = [RecordedOperation() for _ in range(2000)]
    for number, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, [("key", number), -number])
        operation.ready = True
    assert purgatory.watched == 4000
    assert sum(purgatory.check_and_complete(-number) for number in range(2000)) == 2000
    assert len({operation.completions for operation in operations}) == 1
