"""DelayedOperation: completion exactly once, and the safe try."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.timing import DelayedOperation, SystemTimer
from unit.timing.recorded import RecordedOperation


def test_only_the_first_force_complete_completes() -> None:
    operation = RecordedOperation()
    assert not operation.is_completed
    assert operation.force_complete()
    assert operation.is_completed
    assert not operation.force_complete()
    assert operation.events == ["complete"]


def test_completing_cancels_the_timer_before_on_complete() -> None:
    timer = SystemTimer(0)

    class Looks(RecordedOperation):
        def on_complete(self) -> None:
            super().on_complete()
            assert timer.size == 0

    operation = Looks(10)
    timer.add(operation)
    assert operation.force_complete()
    timer.advance_clock(20)
    assert operation.events == ["complete"]


def test_a_passed_deadline_completes_it_and_then_calls_on_expiration() -> None:
    timer, operation = SystemTimer(0), RecordedOperation(10)
    timer.add(operation)
    timer.advance_clock(10)
    assert operation.events == ["complete", "expire"]


def test_a_completion_in_the_same_round_prevents_the_expiration() -> None:
    timer, operation = SystemTimer(0), RecordedOperation(10)
    timer.call_later(10, operation.force_complete)
    timer.add(operation)
    timer.advance_clock(10)
    operation.run()
    assert operation.events == ["complete"]


def test_a_safe_try_returns_true_only_if_it_completed_the_operation() -> None:
    operation = RecordedOperation()
    assert not operation.safe_try_complete()
    operation.ready = True
    assert operation.safe_try_complete()
    assert not operation.safe_try_complete()
    assert operation.events == ["try", "try", "complete"]


class Reentrant(DelayedOperation):
    """Calls `meanwhile` in its first try, after checking the condition."""

    def __init__(self, meanwhile: Callable[[Reentrant], object]) -> None:
        super().__init__(1000)
        self.meanwhile = meanwhile
        self.ready = False
        self.tries = self.depth = self.completions = 0

    def try_complete(self) -> bool:
        self.tries += 1
        self.depth += 1
        assert self.depth == 1, "a try inside a try"
        saw_ready = self.ready
        if self.tries == 1:
            self.meanwhile(self)
        self.depth -= 1
        return saw_ready and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1


def test_a_check_during_a_try_makes_it_check_once_more() -> None:
    def wake(operation: Reentrant) -> None:
        operation.ready = True
        assert not operation.safe_try_complete()

    operation = Reentrant(wake)
    assert operation.safe_try_complete()
    assert (operation.tries, operation.completions) == (2, 1)


def test_an_operation_completed_within_its_own_try_is_completed_once() -> None:
    operation = Reentrant(lambda operation: operation.force_complete())
    assert not operation.safe_try_complete()
    assert operation.is_completed
    assert (operation.tries, operation.completions) == (1, 1)


def test_after_an_error_in_a_try_it_waits_and_can_be_tried_again() -> None:
    def fail(operation: Reentrant) -> None:
        raise KeyError("broken")

    operation = Reentrant(fail)
    with pytest.raises(KeyError, match="broken"):
        operation.safe_try_complete()
    operation.depth = 0
    operation.ready = True
    assert operation.safe_try_complete()


def test_an_error_in_on_complete_is_raised_to_the_caller_and_it_stays_completed() -> None:
    class Fails(RecordedOperation):
        def on_complete(self) -> None:
            super().on_complete()
            raise KeyError("broken")

    operation = Fails()
    with pytest.raises(KeyError, match="broken"):
        operation.force_complete()
    assert operation.is_completed
    assert not operation.force_complete()
    assert operation.completions == 1


def test_with_a_lock_tries_and_completion_run_under_it() -> None:
    class Lock:
        depth = 0

        def __enter__(self) -> None:
            self.depth += 1

        def __exit__(self, *error: object) -> None:
            self.depth -= 1

    class Looks(RecordedOperation):
        def try_complete(self) -> bool:
            assert lock.depth == 1
            return super().try_complete()

        def on_complete(self) -> None:
            assert lock.depth >= 1
            super().on_complete()

    lock = Lock()
    operation = Looks()
    operation.lock = lock
    assert not operation.safe_try_complete()
    operation.ready = True
    assert operation.safe_try_complete()
    other = Looks()
    other.lock = lock
    other.run()
    assert other.events == ["complete", "expire"]
    assert lock.depth == 0
