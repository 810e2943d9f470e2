"""The scheduler: order, ties, digest, and exceptions of events."""

import pytest

from odradek.testing.scheduler import MS, SECOND, Scheduler, SimClock, SimulationError


def test_events_run_in_order_of_time_and_the_clock_jumps() -> None:
    scheduler, seen = Scheduler(1), []
    scheduler.after(3 * SECOND, "a", "late", lambda: seen.append(scheduler.now_ns))
    scheduler.after(5, "a", "soon", lambda: seen.append(scheduler.now_ns))
    assert scheduler.run(10 * SECOND) is False
    assert seen == [5, 3 * SECOND]
    assert scheduler.now_ns == 10 * SECOND


def tie_order(seed: int) -> list[int]:
    scheduler, seen = Scheduler(seed), []
    for number in range(6):
        scheduler.at(100, "a", "tie", lambda number=number: seen.append(number))  # type: ignore[misc]
    scheduler.run(100)
    return seen


def test_the_seed_decides_ties() -> None:
    assert tie_order(1) == tie_order(1)
    assert len(dict.fromkeys(tuple(tie_order(seed)) for seed in range(20))) > 10


def test_a_cancelled_event_leaves_no_trace() -> None:
    plain, other = Scheduler(1), Scheduler(1)
    for scheduler in (plain, other):
        event = scheduler.after(1, "a", "never", lambda: pytest.fail("cancelled"))
        event.cancel()
        scheduler.run(MS)
    assert plain.digest() == other.digest() == Scheduler(1).digest()


def test_the_digest_tells_runs_apart_by_time_node_kind_and_payload() -> None:
    def digest(delay: int, node: str, kind: str, crc: int) -> str:
        scheduler = Scheduler(1)
        scheduler.after(delay, node, kind, lambda: None, crc)
        scheduler.run(MS)
        return scheduler.digest()

    runs = [
        (1, "a", "k", 0),
        (2, "a", "k", 0),
        (1, "b", "k", 0),
        (1, "a", "l", 0),
        (1, "a", "k", 9),
    ]
    assert len(dict.fromkeys(digest(*run) for run in runs)) == len(runs)
    assert digest(1, "a", "k", 9) == digest(1, "a", "k", 9)


def test_an_exception_ends_the_run_and_names_the_seed() -> None:
    scheduler = Scheduler(42)
    scheduler.after(7 * MS, "broker", "boom", lambda: {}["missing"])  # type: ignore[index]
    with pytest.raises(SimulationError, match=r"seed 42, 0\.007000 s.*broker boom.*KeyError"):
        scheduler.run(SECOND)


def test_a_loop_that_spins_is_an_error() -> None:
    scheduler = Scheduler(1, spin_limit=100)

    def again() -> None:
        scheduler.after(1, "a", "spin", again)

    again()
    with pytest.raises(SimulationError, match="101 events within one millisecond"):
        scheduler.run(SECOND)


def test_run_stops_when_asked() -> None:
    scheduler, seen = Scheduler(1), []
    for delay in (1, 2, 3):
        scheduler.after(delay, "a", "step", lambda: seen.append(1))
    assert scheduler.run(SECOND, stop=lambda: len(seen) == 2) is True
    assert scheduler.now_ns == 2


def test_clocks_of_a_machine_may_be_wrong_but_monotonic_is_monotonic() -> None:
    scheduler = Scheduler(1)
    clock = SimClock(scheduler, monotonic_base_ms=500, wall_skew_ms=-3_600_000)
    wall = clock.wall_ms()
    scheduler.run(2 * SECOND)
    assert clock.monotonic_ms() == 2500
    clock.wall_skew_ms -= 10_000
    assert clock.wall_ms() == wall + 2000 - 10_000
    assert clock.at_ns(2500) == 2 * SECOND


def test_a_drifting_clock_gains_time_and_tells_when_it_shows_a_time() -> None:
    scheduler = Scheduler(1)
    clock = SimClock(scheduler, monotonic_base_ms=500)
    wall = clock.wall_ms()
    scheduler.run(2 * SECOND)
    clock.set_drift(10_000)
    assert clock.monotonic_ms() == 2500
    scheduler.run(12 * SECOND)
    assert clock.monotonic_ms() == 12_600
    assert clock.wall_ms() == wall + 12_100
    due_ns = clock.at_ns(20_000)
    clock.set_drift(10_000)
    assert abs(clock.at_ns(20_000) - due_ns) <= 1
    scheduler.run(clock.at_ns(20_000))
    assert clock.monotonic_ms() == 20_000
    clock.set_drift(0)
    scheduler.run(scheduler.now_ns + SECOND)
    assert clock.monotonic_ms() == 21_000
    assert clock.at_ns(21_000) <= scheduler.now_ns


def test_a_slow_clock_never_goes_back() -> None:
    scheduler = Scheduler(1)
    clock = SimClock(scheduler)
    seen = []
    for drift_ppm in (-50_000, 50_000, 0, -20_000):
        clock.set_drift(drift_ppm)
        for _ in range(50):
            scheduler.run(scheduler.now_ns + 700_001)
            seen.append(clock.monotonic_ms())
            assert scheduler.now_ns < clock.at_ns(seen[-1] + 1)
    assert seen == sorted(seen)


def test_a_restarted_clock_keeps_the_wall_time_it_has_gained() -> None:
    scheduler = Scheduler(1)
    clock = SimClock(scheduler, drift_ppm=50_000)
    scheduler.run(20 * SECOND)
    wall = clock.wall_ms()
    clock.restart(7)
    assert clock.wall_ms() == wall
    assert clock.monotonic_ms() == 7 + 20_000
