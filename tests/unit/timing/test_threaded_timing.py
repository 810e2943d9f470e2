"""ThreadedTimer and ThreadedPurgatory: exactly once and no lost wake-up under racing threads."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from odradek.timing import TimerTask
from odradek.timing.threaded import (
    ThreadedDelayedOperation,
    ThreadedPurgatory,
    ThreadedTimer,
)

PATIENCE_S = 30


@pytest.fixture
def timer() -> Iterator[ThreadedTimer]:
    with ThreadedTimer("test") as timer:
        yield timer


@pytest.fixture
def often_switching() -> Iterator[None]:
    """Switch threads a thousand times more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def race(*contenders: Callable[[], object]) -> None:
    """Run each function on a thread of its own, all started at the same moment."""
    barrier = threading.Barrier(len(contenders))
    failures: list[BaseException] = []

    def run(contender: Callable[[], object]) -> None:
        barrier.wait()
        try:
            contender()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(contender,)) for contender in contenders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a deadlock"
    if failures:
        raise failures[0]


class RacingOperation(ThreadedDelayedOperation):
    """Completes when `ready`; records if it completes twice, or while it is being tried."""

    def __init__(self, delay_ms: int = 60_000) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self.inside = 0
        self.overlapped = False
        self.completions = 0
        self.expirations = 0
        self.done = threading.Event()

    def try_complete(self) -> bool:
        self.inside += 1
        self.overlapped = self.overlapped or self.inside != 1
        done = self.ready and self.force_complete()
        self.inside -= 1
        return done

    def on_complete(self) -> None:
        self.overlapped = self.overlapped or self.inside > 1
        self.completions += 1
        self.done.set()

    def on_expiration(self) -> None:
        self.expirations += 1


def test_a_task_runs_on_the_reaper_and_never_before_its_deadline(timer: ThreadedTimer) -> None:
    ran: queue.Queue[tuple[str, int]] = queue.Queue()
    start_ns = time.monotonic_ns()
    timer.call_later(
        15, lambda: ran.put((threading.current_thread().name, time.monotonic_ns() - start_ns))
    )
    name, after_ns = ran.get(timeout=PATIENCE_S)
    assert name == "test-reaper"
    assert after_ns >= 15_000_000


def test_an_earlier_task_wakes_the_reaper(
    timer: ThreadedTimer,
) -> None:
    timer.call_later(3_600_000, lambda: None)
    for _ in range(50):  # Mostly the reaper sleeps again by then, sometimes not yet.
        rang = threading.Event()
        timer.call_later(1, rang.set)
        assert rang.wait(PATIENCE_S)
    assert timer.size == 1


def test_the_reaper_sleeps_while_nothing_is_due(timer: ThreadedTimer) -> None:
    rang = threading.Event()
    timer.call_later(1, rang.set)
    assert rang.wait(PATIENCE_S)
    tasks = [timer.call_later(3_600_000, lambda: None) for _ in range(1000)]
    for task in tasks:
        task.cancel()
    before = timer.wakeups
    later = threading.Event()
    timer.call_later(300, later.set)  # A bucket of level 3, then one of each level below.
    assert later.wait(PATIENCE_S)
    assert timer.wakeups - before <= 10  # A wake-up of before may come late.


def test_a_cancelled_task_does_not_run_and_a_moved_one_runs_once(timer: ThreadedTimer) -> None:
    ran: list[str] = []
    end = threading.Event()
    cancelled = timer.call_later(5, lambda: ran.append("cancelled"))
    moved = timer.call_later(10, lambda: ran.append("moved"))
    assert cancelled.cancel()
    timer.add(moved)
    timer.call_later(50, end.set)
    assert end.wait(PATIENCE_S)
    assert ran == ["moved"]


def test_a_task_can_move_from_one_timer_to_another(timer: ThreadedTimer) -> None:
    with ThreadedTimer("other") as other:
        moved = threading.Event()
        task = timer.call_later(3_600_000, moved.set)
        task.delay_ms = 1
        other.add(task)
        assert timer.size == 0
        assert moved.wait(PATIENCE_S)


def test_an_exception_of_a_task_is_reported_and_the_others_run(
    timer: ThreadedTimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: queue.Queue[threading.ExceptHookArgs] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", told.put)

    def fail() -> None:
        raise KeyError("broken")

    rang = threading.Event()
    timer.call_later(1, fail)
    timer.call_later(1, rang.set)
    assert rang.wait(PATIENCE_S)
    args = told.get(timeout=PATIENCE_S)
    assert isinstance(args.exc_value, KeyError)
    assert args.thread is not None
    assert args.thread.name == "test-reaper"


def test_shutdown_stops_the_reaper_and_pending_tasks_never_run() -> None:
    timer = ThreadedTimer("test")
    ran: list[int] = []
    timer.call_later(3_600_000, lambda: ran.append(1))
    timer.shutdown()
    assert "test-reaper" not in [thread.name for thread in threading.enumerate()]
    assert (ran, timer.size) == ([], 0)
    with pytest.raises(RuntimeError, match="shut down"):
        timer.call_later(1, lambda: None)


def test_a_task_may_shut_its_timer_down() -> None:
    timer = ThreadedTimer("test")
    ended = threading.Event()

    def end() -> None:
        timer.shutdown()
        ended.set()

    timer.call_later(1, end)
    assert ended.wait(PATIENCE_S)


@pytest.mark.usefixtures("often_switching")
def test_under_racing_threads_each_task_either_runs_or_is_cancelled(
    timer: ThreadedTimer,
) -> None:
    class Task(TimerTask):
        ran = 0

        def run(self) -> None:
            self.ran += 1

    tasks = [[Task(number % 4) for number in range(500)] for _ in range(4)]
    cancelled = [0] * 4
    drained = threading.Event()

    def start_and_cancel(which: int) -> None:
        for task in tasks[which]:
            timer.add(task)
        cancelled[which] = sum(task.cancel() for task in tasks[which])

    race(*(lambda which=which: start_and_cancel(which) for which in range(4)))
    timer.call_later(10, drained.set)
    assert drained.wait(PATIENCE_S)
    assert all(task.ran <= 1 for group in tasks for task in group)
    assert sum(task.ran for group in tasks for task in group) == 2000 - sum(cancelled)
    assert timer.size == 0


@pytest.mark.usefixtures("often_switching")
def test_under_racing_threads_an_operation_completes_exactly_once(timer: ThreadedTimer) -> None:
    purgatory = ThreadedPurgatory("test", timer)
    for _ in range(60):
        operations = [RacingOperation(delay_ms=number % 3) for number in range(20)]
        won: list[bool] = []

        def enter(operations: list[RacingOperation] = operations) -> None:
            for operation in operations:
                purgatory.try_complete_else_watch(operation, ["a", "b"])

        def check(key: str, operations: list[RacingOperation] = operations) -> None:
            for operation in operations:
                operation.ready = True
                purgatory.check_and_complete(key)

        def force(operations: list[RacingOperation] = operations, won: list[bool] = won) -> None:
            won.extend([operation.force_complete() for operation in operations])

        race(enter, lambda: check("a"), lambda: check("b"), force, force)
        for operation in operations:
            assert operation.done.wait(PATIENCE_S)
        assert [operation.completions for operation in operations] == [1] * 20
        assert not any(operation.overlapped for operation in operations)
        assert sum(won) <= 20
    has_run = threading.Event()
    timer.call_later(5, has_run.set)
    assert has_run.wait(PATIENCE_S)
    assert (purgatory.num_delayed, timer.size) == (0, 0)


@pytest.mark.usefixtures("often_switching")
def test_no_wakeup_is_lost_between_the_watch_and_the_check(timer: ThreadedTimer) -> None:
    # The event comes while the operation is being added. With a delay of an hour, only a check
    # completes it.
    purgatory = ThreadedPurgatory("test", timer)
    for number in range(1000):
        operation = RacingOperation(delay_ms=3_600_000)

        def happen(operation: RacingOperation = operation, number: int = number) -> None:
            operation.ready = True
            purgatory.check_and_complete(number % 5)

        race(
            lambda operation=operation, number=number: purgatory.try_complete_else_watch(  # type: ignore[misc]
                operation, [number % 5, "other"]
            ),
            happen,
        )
        assert operation.is_completed, f"round {number}: the wake-up was lost"
    assert (purgatory.num_delayed, timer.size) == (0, 0)


def test_a_check_waits_for_an_operation_being_added(timer: ThreadedTimer) -> None:
    # The same race in one order: the check finds the watch before the second try ends.
    purgatory = ThreadedPurgatory("test", timer)
    in_second_try, checking = threading.Event(), threading.Event()

    class Slow(RacingOperation):
        tries = 0

        def try_complete(self) -> bool:
            self.tries += 1
            saw_ready = self.ready
            if self.tries == 2:
                in_second_try.set()
                assert checking.wait(PATIENCE_S)
            return saw_ready and self.force_complete()

    operation = Slow()

    def check() -> None:
        assert in_second_try.wait(PATIENCE_S)
        operation.ready = True  # After the second try checked the condition.
        checking.set()
        purgatory.check_and_complete("a")

    race(lambda: purgatory.try_complete_else_watch(operation, ["a"]), check)
    assert operation.completions == 1
    assert timer.size == 0


def test_an_operation_expires_on_the_reaper(timer: ThreadedTimer) -> None:
    purgatory = ThreadedPurgatory("test", timer, purge_interval=0)
    operation = RacingOperation(delay_ms=2)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.done.wait(PATIENCE_S)
    purged = threading.Event()
    timer.call_later(1, purged.set)
    assert purged.wait(PATIENCE_S)
    assert (operation.completions, operation.expirations) == (1, 1)
    assert purgatory.watched == 0


def test_an_operation_without_a_lock_is_refused(timer: ThreadedTimer) -> None:
    operation = RacingOperation()
    operation.lock = None
    with pytest.raises(ValueError, match="ThreadedDelayedOperation"):
        ThreadedPurgatory("test", timer).try_complete_else_watch(operation, ["a"])
