"""SystemTimer: its contract with the owner loop."""

from __future__ import annotations

import pytest

from odradek.timing import SystemTimer, TimerTask
from unit.timing.recorded import RecordedTask

Log = list[tuple[int, str]]


def drive(timer: SystemTimer) -> int:
    """Run an ideal owner loop until nothing is pending; return how often it woke."""
    wakeups = 0
    while (deadline_ms := timer.next_deadline_ms()) is not None:
        timer.advance_clock(deadline_ms)
        wakeups += 1
    return wakeups


def test_tasks_run_at_exactly_their_deadlines_through_every_level() -> None:
    timer, log = SystemTimer(1_000), Log()
    delays = [0, 1, 19, 20, 21, 399, 400, 445, 7_999, 8_000, 160_001, 86_400_000]
    for delay_ms in reversed(delays):
        timer.add(RecordedTask(delay_ms, "", log, timer))
    drive(timer)
    assert [now_ms - 1_000 for now_ms, _ in log] == delays
    assert timer.size == 0


def test_a_far_deadline_costs_one_wake_up_per_level() -> None:
    timer, log = SystemTimer(0), Log()
    timer.add(RecordedTask(365 * 86_400_000, "in a year", log, timer))
    assert drive(timer) <= 8
    assert log == [(365 * 86_400_000, "in a year")]


def test_a_deadline_beyond_the_maximum_neither_runs_nor_overflows() -> None:
    timer, log = SystemTimer(10**12), Log()
    timer.add(RecordedTask(10**40, "never", log, timer))
    timer.advance_clock(10**15)
    assert (log, timer.size) == ([], 1)


def test_without_pending_tasks_there_is_no_deadline() -> None:
    timer = SystemTimer(5)
    assert timer.next_deadline_ms() is None
    task = timer.call_later(100, lambda: None)
    assert timer.next_deadline_ms() is not None
    task.cancel()
    assert timer.next_deadline_ms() is None


def test_a_clock_jump_over_several_levels_runs_everything_in_order_of_deadlines() -> None:
    timer, log = SystemTimer(0), Log()
    for delay_ms in (9_000, 1, 450, 20, 8_001, 446, 399):
        timer.add(RecordedTask(delay_ms, str(delay_ms), log, timer))
    assert timer.advance_clock(8_500) == 6
    assert [name for _, name in log] == ["1", "20", "399", "446", "450", "8001"]
    assert timer.size == 1


def test_delays_count_from_the_last_advance_of_the_clock() -> None:
    timer, log = SystemTimer(0), Log()
    assert timer.advance_clock(10_000) == 0
    timer.add(RecordedTask(5, "", log, timer))
    assert timer.next_deadline_ms() == 10_005


def test_time_never_goes_back() -> None:
    timer = SystemTimer(1_000)
    timer.advance_clock(900)
    assert timer.now_ms == 1_000
    with pytest.raises(ValueError, match="0 or later"):
        SystemTimer(-1)


def test_adding_never_runs_a_task_even_if_it_is_due() -> None:
    timer, log = SystemTimer(7), Log()
    timer.add(RecordedTask(0, "due", log, timer))
    assert log == []
    assert timer.next_deadline_ms() == 7
    assert timer.advance_clock(7) == 1
    assert log == [(7, "due")]


def test_adding_a_task_again_moves_it() -> None:
    timer, log = SystemTimer(0), Log()
    task = RecordedTask(100, "moved", log, timer)
    timer.add(task)
    timer.advance_clock(60)
    timer.add(task)
    assert timer.size == 1
    drive(timer)
    assert log == [(160, "moved")]


def test_a_due_task_moves_too_and_can_be_cancelled() -> None:
    timer, log = SystemTimer(0), Log()
    moved, cancelled = (
        RecordedTask(0, "moved", log, timer),
        RecordedTask(0, "cancelled", log, timer),
    )
    timer.add(moved)
    timer.add(cancelled)
    timer.schedule(moved, 30)
    assert cancelled.cancel()
    assert timer.next_deadline_ms() == 20  # The bucket that it moves down from.
    drive(timer)
    assert log == [(30, "moved")]


def test_cancel_returns_true_only_if_it_prevented_the_run() -> None:
    timer = SystemTimer(0)
    task = TimerTask(5)
    assert not task.cancel()
    timer.add(task)
    assert task.is_scheduled
    assert task.cancel()
    assert not task.cancel()
    assert not task.is_scheduled
    ran = timer.call_later(5, lambda: None)
    timer.advance_clock(5)
    assert not ran.cancel()


def test_a_task_may_cancel_another_that_is_due_in_the_same_round() -> None:
    timer, log = SystemTimer(0), Log()
    victim = RecordedTask(5, "victim", log, timer)
    timer.add(RecordedTask(5, "canceller", log, timer, then=victim.cancel))
    timer.add(victim)
    assert timer.advance_clock(5) == 1
    assert log == [(5, "canceller")]
    assert timer.next_deadline_ms() is None


def test_tasks_added_by_a_task_run_in_a_later_round() -> None:
    timer, log = SystemTimer(0), Log()
    task = RecordedTask(0, "again", log, timer)
    task.then = lambda: timer.add(task)
    timer.add(task)
    for round_ms in (0, 0, 3):
        assert timer.advance_clock(round_ms) == 1
    assert log == [(0, "again"), (0, "again"), (3, "again")]


def test_periodic_tasks_do_not_drift() -> None:
    timer, log = SystemTimer(0), Log()
    task = RecordedTask(50, "tick", log, timer)
    task.then = lambda: timer.schedule(task, task.expiration_ms + 50)
    timer.add(task)
    for now_ms in (53, 104, 151, 260):
        timer.advance_clock(now_ms)
    assert [now_ms for now_ms, _ in log] == [53, 104, 151, 260]
    assert task.expiration_ms == 250


def test_after_an_error_the_remaining_due_tasks_stay_due() -> None:
    timer, log = SystemTimer(0), Log()

    def fail() -> None:
        raise KeyError("broken")

    timer.add(RecordedTask(5, "first", log, timer))
    timer.add(RecordedTask(5, "fails", log, timer, then=fail))
    timer.add(RecordedTask(5, "behind", log, timer))
    with pytest.raises(KeyError, match="broken"):
        timer.advance_clock(5)
    assert [name for _, name in log] == ["first", "fails"]
    assert timer.next_deadline_ms() == 5
    assert timer.advance_clock(5) == 1
    assert [name for _, name in log] == ["first", "fails", "behind"]


def test_a_hundred_thousand_cancelled_timers_leave_nothing_to_do() -> None:
    timer = SystemTimer(0)
    tasks = [timer.call_later(30_000 + i % 997, lambda: None) for i in range(100_000)]
    last = timer.call_later(40_000, lambda: None)
    for task in tasks:
        task.cancel()
    assert timer.size == 1
    assert drive(timer) <= 5
    assert not last.is_scheduled


def test_a_coarse_tick_runs_tasks_up_to_a_tick_early_and_never_late() -> None:
    timer, log = SystemTimer(0, tick_ms=10), Log()
    for delay_ms in (9, 10, 19, 234):
        timer.add(RecordedTask(delay_ms, str(delay_ms), log, timer))
    drive(timer)
    assert log == [(0, "9"), (10, "10"), (10, "19"), (230, "234")]


def test_shutdown_cancels_everything_and_refuses_more() -> None:
    timer, log = SystemTimer(0), Log()
    timer.add(RecordedTask(0, "due", log, timer))
    timer.add(RecordedTask(10, "pending", log, timer))
    timer.shutdown()
    assert timer.next_deadline_ms() is None
    timer.advance_clock(100)
    assert (log, timer.size) == ([], 0)
    with pytest.raises(RuntimeError, match="shut down"):
        timer.call_later(1, lambda: None)


def test_tasks_are_counted_by_the_kind_that_their_owner_names() -> None:
    timer, log = SystemTimer(0), Log()
    called = timer.call_later(100, lambda: None, timer.counter("calls"))
    timer.call_later(500, lambda: None, timer.counter("calls"))
    timer.add(RecordedTask(10, "of no kind", log, timer))
    counts = {kind: counter.count for kind, counter in timer.counters.items()}
    assert (counts, timer.size) == ({"calls": 2}, 3)
    called.cancel()
    assert timer.counter("calls").count == 1
    drive(timer)
    assert timer.counter("calls").count == 0
