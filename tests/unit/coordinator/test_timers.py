"""Timers by key: one for each, moved at no cost, and gone without a trace."""

from __future__ import annotations

from odradek.coordinator.timers import KeyedTimers
from odradek.coordinator.turn import TimerKey
from odradek.timing import SystemTimer


def test_a_key_fires_once_and_when_it_was_last_set_for() -> None:
    timer = SystemTimer(0)
    fired: list[TimerKey] = []
    timers = KeyedTimers(timer, fired.append)
    timers.schedule(("a",), 100)
    timers.schedule(("b",), 50)
    timer.advance_clock(60)
    timers.schedule(("a",), 100)
    timer.advance_clock(159)
    assert fired == [("b",)]
    timer.advance_clock(160)
    assert fired == [("b",), ("a",)]
    assert [*timers.keys()] == []
    assert timer.size == 0


def test_what_is_cancelled_does_not_fire() -> None:
    timer = SystemTimer(0)
    fired: list[TimerKey] = []
    timers = KeyedTimers(timer, fired.append)
    for name in "abc":
        timers.schedule((name,), 10)
    timers.cancel(("b",))
    timers.cancel(("unheard of",))
    timer.advance_clock(10)
    assert fired == [("a",), ("c",)]
    timers.schedule(("d",), 10)
    timers.clear()
    timer.advance_clock(100)
    assert fired == [("a",), ("c",)]


def test_a_key_may_be_set_again_while_it_fires() -> None:
    timer = SystemTimer(0)
    fired: list[int] = []

    def fire(key: TimerKey) -> None:
        fired.append(timer.now_ms)
        if len(fired) < 3:
            timers.schedule(key, 10)

    timers = KeyedTimers(timer, fire)
    timers.schedule(("again",), 10)
    for now_ms in (10, 20, 30, 40):
        timer.advance_clock(now_ms)
    assert fired == [10, 20, 30]


def test_heartbeats_of_many_members_hold_one_task_each() -> None:
    timer = SystemTimer(0)
    timers = KeyedTimers(timer, lambda key: None)
    for _ in range(20):
        for number in range(5_000):
            timers.schedule(("heartbeat", "g", str(number)), 10_000)
        timer.advance_clock(timer.now_ms + 100)
    assert timer.size == 5_000
