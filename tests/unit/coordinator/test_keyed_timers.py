"""Timers by key: one task for each key, rescheduled at no cost, exact to the tick."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.operation import TimerKey
from odradek.coordinator.timers import KeyedTimers
from odradek.timing import SystemTimer, TimerTask

SESSION_MS = 10_000
KEYS = st.sampled_from([("a",), ("b",), ("c",)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), KEYS, st.integers(0, 500)),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("pass"), st.just(("",)), st.integers(0, 300)),
    ),
    max_size=60,
)


def at_once(callback: Callable[[], None]) -> None:
    """Call a function at once: no request has arrived."""
    callback()


class CountingTimer(SystemTimer):
    """Counts how often a task is put on the wheel."""

    placed = 0

    def schedule(self, task: TimerTask, deadline_ms: int) -> None:
        self.placed += 1
        super().schedule(task, deadline_ms)


class Firing:
    """Timers, with the keys that fired and the times."""

    def __init__(self) -> None:
        self.timer = CountingTimer(0)
        self.fired: list[tuple[TimerKey, int]] = []
        self.soon: list[Callable[[], None]] = []
        self.timers = KeyedTimers(self.timer, self._fire, self.soon.append)

    def _fire(self, key: TimerKey) -> None:
        self.fired.append((key, self.timer.now_ms))

    def pass_until(self, now_ms: int) -> None:
        """Advance the clock as a loop does: to each deadline of the timer."""
        while (deadline_ms := self.timer.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            self.advance(deadline_ms)
        self.advance(now_ms)

    def advance(self, now_ms: int) -> None:
        """One round of a loop in which no request arrives."""
        self.timer.advance_clock(now_ms)
        while self.soon:
            self.soon.pop(0)()


def test_a_key_fires_once_at_its_last_deadline() -> None:
    timer = SystemTimer(0)
    fired: list[TimerKey] = []
    timers = KeyedTimers(timer, fired.append, at_once)
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


def test_a_session_is_put_on_the_wheel_once_per_timeout_not_per_heartbeat() -> None:
    firing = Firing()
    for _ in range(100):
        firing.timers.schedule(("heartbeat", "g", "m"), SESSION_MS)
        firing.pass_until(firing.timer.now_ms + 50)
    assert firing.timer.placed == 1
    for _ in range(1000):
        firing.timers.schedule(("heartbeat", "g", "m"), SESSION_MS)
        firing.pass_until(firing.timer.now_ms + 50)
    heard_ms = firing.timer.now_ms - 50
    assert firing.timer.placed <= 1 + heard_ms // (SESSION_MS - 50)
    assert firing.fired == []
    firing.pass_until(heard_ms + 2 * SESSION_MS)
    assert firing.fired == [(("heartbeat", "g", "m"), heard_ms + SESSION_MS)]
    assert firing.timer.size == 0


def test_an_earlier_deadline_holds_also_after_a_later_one() -> None:
    firing = Firing()
    firing.timers.schedule(("put off, then set for earlier",), 100)
    firing.timers.schedule(("put off, then put off for less",), 100)
    firing.timers.schedule(("set for earlier",), 100)
    firing.timers.schedule(("set for earlier",), 60)
    firing.pass_until(50)
    firing.timers.schedule(("put off, then set for earlier",), 100)
    firing.timers.schedule(("put off, then set for earlier",), 20)
    firing.timers.schedule(("put off, then put off for less",), 100)
    firing.timers.schedule(("put off, then put off for less",), 60)
    firing.pass_until(1000)
    assert firing.fired == [
        (("set for earlier",), 60),
        (("put off, then set for earlier",), 70),
        (("put off, then put off for less",), 110),
    ]


def test_a_key_rescheduled_by_another_at_the_same_tick_does_not_fire() -> None:
    timer = SystemTimer(0)
    fired: list[tuple[TimerKey, int]] = []

    def fire(key: TimerKey) -> None:
        fired.append((key, timer.now_ms))
        if key == ("first",):
            timers.schedule(("second",), 30)

    timers = KeyedTimers(timer, fire, at_once)
    timers.schedule(("first",), 10)
    timers.schedule(("second",), 10)
    for now_ms in (10, 39, 40):
        timer.advance_clock(now_ms)
    assert fired == [(("first",), 10), (("second",), 40)]


@given(STEPS)
def test_keys_fire_at_the_tick_of_their_last_deadline(
    steps: list[tuple[str, TimerKey, int]],
) -> None:
    firing = Firing()
    due: dict[TimerKey, int] = {}
    expected: list[tuple[TimerKey, int]] = []
    for step, key, ms in [*steps, ("pass", ("",), 1000)]:
        now_ms = firing.timer.now_ms
        if step == "schedule":
            firing.timers.schedule(key, ms)
            due[key] = now_ms + ms
        elif step == "cancel":
            firing.timers.cancel(key)
            due.pop(key, None)
        else:
            firing.pass_until(now_ms + ms)
            expected += [(each, at_ms) for each, at_ms in due.items() if at_ms <= now_ms + ms]
            due = {each: at_ms for each, at_ms in due.items() if at_ms > now_ms + ms}
        assert sorted(firing.fired) == sorted(expected)
        assert sorted(firing.timers.keys()) == sorted(due)
    assert firing.timer.size == 0


def test_a_cancelled_key_does_not_fire() -> None:
    timer = SystemTimer(0)
    fired: list[TimerKey] = []
    timers = KeyedTimers(timer, fired.append, at_once)
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


def test_a_key_can_be_scheduled_while_it_fires() -> None:
    timer = SystemTimer(0)
    fired: list[int] = []

    def fire(key: TimerKey) -> None:
        fired.append(timer.now_ms)
        if len(fired) < 3:
            timers.schedule(key, 10)

    timers = KeyedTimers(timer, fire, at_once)
    timers.schedule(("again",), 10)
    for now_ms in (10, 20, 30, 40):
        timer.advance_clock(now_ms)
    assert fired == [10, 20, 30]


def test_heartbeats_of_many_members_keep_one_task_each() -> None:
    timer = SystemTimer(0)
    timers = KeyedTimers(timer, lambda key: None, at_once)
    for _ in range(20):
        for number in range(5_000):
            timers.schedule(("heartbeat", "g", str(number)), 10_000)
        timer.advance_clock(timer.now_ms + 100)
    assert timer.size == 5_000


def test_keys_are_counted_by_kind_and_tell_the_time_left() -> None:
    timer = SystemTimer(0)
    timers = KeyedTimers(timer, lambda key: None, at_once)
    timers.schedule(("heartbeat", "g", "m"), 100)
    timers.schedule(("join", "g"), 50)
    timers.schedule(("heartbeat", "g", "m"), 300)
    assert {kind: each.count for kind, each in timer.counters.items()} == {
        "heartbeat": 1,
        "join": 1,
    }
    timer.advance_clock(20)
    assert timers.left_ms(("heartbeat", "g", "m")) == 280
    assert timers.left_ms(("join", "g")) == 30
    assert timers.left_ms(("join", "other")) is None


def test_a_due_key_fires_after_the_requests_that_have_arrived() -> None:
    firing = Firing()
    firing.timers.schedule(("join", "g"), 0)
    firing.timer.advance_clock(0)
    assert firing.fired == []
    firing.advance(0)
    assert firing.fired == [(("join", "g"), 0)]
    assert firing.timer.size == 0


def test_a_due_key_that_a_request_schedules_again_or_cancels_does_not_fire() -> None:
    firing = Firing()
    for name in ("later", "at once", "off"):
        firing.timers.schedule((name,), 10)
    firing.timer.advance_clock(10)
    firing.timers.schedule(("later",), 100)
    firing.timers.schedule(("at once",), 0)
    firing.timers.cancel(("off",))
    firing.pass_until(109)
    assert firing.fired == [(("at once",), 10)]
    firing.pass_until(110)
    assert firing.fired == [(("at once",), 10), (("later",), 110)]
    assert firing.timer.size == 0
