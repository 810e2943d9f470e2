"""DelayedOperation: completed exactly once, and the safe try."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from recorded import Waiting

from odradek.timing import DelayedOperation, SystemTimer


def test_only_the_first_force_complete_completes() -> None:
    operation = Waiting()
    assert not operation.is_completed
    assert operation.force_complete()
    assert operation.is_completed
    assert not operation.force_complete()
    assert operation.events == ["complete"]


def test_completing_takes_it_off_the_timer_first() -> None:
    timer = SystemTimer(0)

    class Looks(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            assert timer.size == 0

    operation = Looks(10)
    timer.add(operation)
    assert operation.force_complete()
    timer.advance_clock(20)
    assert operation.events == ["complete"]


def test_the_deadline_completes_it_and_only_then_tells_that_it_expired() -> None:
    timer, operation = SystemTimer(0), Waiting(10)
    timer.add(operation)
    timer.advance_clock(10)
    assert operation.events == ["complete", "expire"]


def test_a_deadline_that_loses_against_a_completion_in_the_same_round_does_nothing() -> None:
    timer, operation = SystemTimer(0), Waiting(10)
    timer.call_later(10, operation.force_complete)
    timer.add(operation)
    timer.advance_clock(10)
    operation.run()
    assert operation.events == ["complete"]


def test_a_safe_try_tells_whether_this_very_call_completed_it() -> None:
    operation = Waiting()
    assert not operation.safe_try_complete()
    operation.ready = True
    assert operation.safe_try_complete()
    assert not operation.safe_try_complete()
    assert operation.events == ["try", "try", "complete"]


class Reentrant(DelayedOperation):
    """Calls `meanwhile` in its first try, after it has looked at the condition."""

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


def test_a_wakeup_that_arrives_during_a_try_makes_it_look_once_more() -> None:
    def wake(operation: Reentrant) -> None:
        operation.ready = True
        assert not operation.safe_try_complete()

    operation = Reentrant(wake)
    assert operation.safe_try_complete()
    assert (operation.tries, operation.completions) == (2, 1)


def test_completed_from_within_its_own_try_it_is_completed_once() -> None:
    operation = Reentrant(lambda operation: operation.force_complete())
    assert not operation.safe_try_complete()
    assert operation.is_completed
    assert (operation.tries, operation.completions) == (1, 1)


def test_an_error_in_a_try_leaves_it_waiting_and_able_to_be_tried() -> None:
    def fail(operation: Reentrant) -> None:
        raise KeyError("broken")

    operation = Reentrant(fail)
    with pytest.raises(KeyError, match="broken"):
        operation.safe_try_complete()
    operation.depth = 0
    operation.ready = True
    assert operation.safe_try_complete()


def test_an_error_in_on_complete_goes_to_the_one_who_completed_and_it_stays_completed() -> None:
    class Fails(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            raise KeyError("broken")

    operation = Fails()
    with pytest.raises(KeyError, match="broken"):
        operation.force_complete()
    assert operation.is_completed
    assert not operation.force_complete()
    assert operation.completions == 1


def test_with_a_lock_everything_that_completes_runs_under_it() -> None:
    class Lock:
        depth = 0

        def __enter__(self) -> None:
            self.depth += 1

        def __exit__(self, *error: object) -> None:
            self.depth -= 1

    class Looks(Waiting):
        def try_complete(self) -> bool:
            assert lock.depth == 1
            return super().try_complete()

        def on_complete(self) -> None:
            assert lock.depth >= 1
            super().on_complete()

    lock = Lock()
    operation = Looks()
    operation.lock = lock  # type: ignore[assignment]
    assert not operation.safe_try_complete()
    operation.ready = True
    assert operation.safe_try_complete()
    other = Looks()
    other.lock = lock  # type: ignore[assignment]
    other.run()
    assert other.events == ["complete", "expire"]
    assert lock.depth == 0
