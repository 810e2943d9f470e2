"""A simulated process: its loop, its timer, its end."""

from odradek.testing.process import Crash, SimOffload, SimProcess
from odradek.testing.scheduler import MS, SECOND, Scheduler, SimClock


class Alarm:
    """A timer with a list of deadlines."""

    def __init__(self, process: SimProcess, deadlines_ms: list[int]) -> None:
        self.process, self.deadlines_ms = process, deadlines_ms
        self.rung_ms: list[int] = []
        self.told_ms: list[int] = []

    def next_deadline_ms(self) -> int | None:
        return min(self.deadlines_ms, default=None)

    def advance_clock(self, now_ms: int) -> None:
        self.told_ms.append(now_ms)
        if min(self.deadlines_ms, default=now_ms + 1) <= now_ms:
            self.rung_ms.append(now_ms)
        self.deadlines_ms = [d for d in self.deadlines_ms if d > now_ms]


def process_of(scheduler: Scheduler) -> SimProcess:
    return SimProcess(scheduler, "p", SimClock(scheduler, monotonic_base_ms=1000))


def test_call_soon_runs_after_the_event_in_order_at_the_same_time() -> None:
    scheduler, seen = Scheduler(1), []
    process = process_of(scheduler)

    def event() -> None:
        process.call_soon(lambda: seen.append(("soon", scheduler.now_ns)))
        process.call_soon(lambda: process.call_soon(lambda: seen.append(("nested", 0))))
        seen.append(("event", scheduler.now_ns))

    process.post(5, "event", event)
    scheduler.run(SECOND)
    assert seen == [("event", 5), ("soon", 5), ("nested", 0)]
    assert scheduler.events == 1


def test_call_soon_outside_of_an_event_makes_one() -> None:
    scheduler, seen = Scheduler(1), []
    process_of(scheduler).call_soon(lambda: seen.append(1))
    assert seen == []
    scheduler.run(SECOND)
    assert seen == [1]


def test_the_process_wakes_for_the_timer_exactly_at_its_deadlines() -> None:
    scheduler = Scheduler(1)
    process = process_of(scheduler)
    alarm = Alarm(process, [1007, 1500])
    process.drive(alarm)
    process.post(100 * MS, "nothing due", lambda: None)
    process.post(200 * MS, "sooner", lambda: alarm.deadlines_ms.append(1300))
    scheduler.run(SECOND)
    assert alarm.rung_ms == [1007, 1300, 1500]
    assert scheduler.events == 5


def test_the_timer_is_advanced_before_every_event() -> None:
    scheduler = Scheduler(1)
    process = process_of(scheduler)
    alarm = Alarm(process, [])
    process.drive(alarm)
    told_before: list[list[int]] = []
    process.post(100 * MS, "adds a task", lambda: told_before.append(list(alarm.told_ms)))
    scheduler.run(SECOND)
    assert told_before == [[1100]]


def test_a_dead_process_runs_no_event() -> None:
    scheduler, seen = Scheduler(1), []
    process = process_of(scheduler)
    process.drive(Alarm(process, [1100]))
    process.post(10, "never", lambda: seen.append("event"))
    process.kill()
    scheduler.run(SECOND)
    assert seen == []


def test_a_crash_ends_a_callback_and_notifies_the_machine() -> None:
    scheduler, seen = Scheduler(1), []
    process = process_of(scheduler)
    process.crashed = lambda: seen.append("crashed")

    def event() -> None:
        seen.append("before")
        process.call_soon(lambda: seen.append("soon"))
        raise Crash

    process.post(1, "event", event)
    process.post(2, "event", lambda: seen.append("after"))
    scheduler.run(SECOND)
    assert seen == ["before", "crashed"]
    assert not process.alive


def test_a_paused_process_gets_its_events_when_it_wakes() -> None:
    scheduler, seen = Scheduler(1), []
    process = process_of(scheduler)
    process.post(10 * MS, "event", lambda: seen.append(scheduler.now_ns))
    process.paused_until_ns = 400 * MS
    scheduler.run(SECOND)
    assert seen == [400 * MS]


def test_a_stalled_process_gets_its_events_late_but_its_workers_go_on() -> None:
    scheduler = Scheduler(1)
    seen: list[tuple[str, int]] = []
    process = process_of(scheduler)
    process.stalled_until_ns = 400 * MS
    process.post(10 * MS, "event", lambda: seen.append(("owner", scheduler.now_ns)))
    SimOffload(process, scheduler.stream("workers")).submit(
        lambda: seen.append(("worker", scheduler.now_ns)),
        lambda _: seen.append(("done", scheduler.now_ns)),
        lambda _: None,
    )
    scheduler.run(SECOND)
    (worker, worked_ns), *owner = seen
    assert worker == "worker" and worked_ns < 400 * MS
    assert sorted(what for what, _ in owner) == ["done", "owner"]
    assert all(at_ns >= 400 * MS for _, at_ns in owner)


def test_every_event_is_observed() -> None:
    scheduler, seen = Scheduler(1), []
    process = process_of(scheduler)
    process.observe = lambda: seen.append(scheduler.now_ns)
    process.post(1, "event", lambda: None)
    process.post(5, "event", lambda: None)
    scheduler.run(SECOND)
    assert seen == [1, 5]
