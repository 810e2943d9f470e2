"""Rounds of the reactor in simulated time: sleep, order of calls, and bugs in callbacks."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from odradek.network.reactor import Reactor
from odradek.network.transport import SocketTransport
from odradek.timing.timer import SystemTimer

FOREVER = -1.0


class SetClock:
    """A clock that the test sets."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms


class SleepingPoller:
    """A poller whose sleep advances the simulated time."""

    def __init__(self, clock: SetClock) -> None:
        self.clock = clock
        self.sleeps: list[float] = []
        self.events: list[tuple[int, int]] = []

    def register(self, fd: int, eventmask: int, /) -> None: ...

    def modify(self, fd: int, eventmask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, timeout: float, /) -> list[tuple[int, int]]:
        self.sleeps.append(timeout)
        if timeout > 0:
            self.clock.now_ms += round(timeout * 1000)
        return self.events

    def close(self) -> None: ...


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def poller(clock: SetClock) -> SleepingPoller:
    return SleepingPoller(clock)


@pytest.fixture
def reactor(clock: SetClock, poller: SleepingPoller) -> Iterator[Reactor]:
    reactor = Reactor(clock, SystemTimer(clock.now_ms), poller=poller)  # type: ignore[arg-type]
    yield reactor
    reactor.close()


# The sleep.


def test_without_work_it_sleeps_without_a_timeout(reactor: Reactor, poller: SleepingPoller) -> None:
    reactor.run_once()
    assert poller.sleeps == [FOREVER]


def test_it_sleeps_until_the_deadline_and_then_runs_the_task(
    reactor: Reactor, poller: SleepingPoller, clock: SetClock
) -> None:
    ran_at: list[int] = []
    reactor.timer.call_later(15, lambda: ran_at.append(clock.now_ms))
    reactor.run_once()
    assert (ran_at, poller.sleeps) == ([15], [0.015])


def test_an_idle_hour_with_a_thousand_far_deadlines_costs_few_wake_ups(
    reactor: Reactor, clock: SetClock
) -> None:
    ran: list[int] = []
    for _ in range(1000):
        reactor.timer.call_later(3_600_000, lambda: ran.append(clock.now_ms))
    while not ran:
        reactor.run_once()
    assert ran == [3_600_000] * 1000
    assert reactor.wakeups <= 5, "one for each level of the wheel"


def test_it_does_not_sleep_if_a_deadline_passed_during_a_callback(
    reactor: Reactor, poller: SleepingPoller, clock: SetClock
) -> None:
    ran: list[int] = []
    reactor.timer.call_later(10, lambda: ran.append(clock.now_ms))
    clock.now_ms = 25
    reactor.run_once()
    assert (ran, poller.sleeps) == ([25], [0.0])


def test_a_task_without_delay_runs_in_the_next_round(reactor: Reactor) -> None:
    ran: list[str] = []
    reactor.timer.call_later(0, lambda: ran.append("now"))
    reactor.run_once()
    assert ran == ["now"]


def test_the_timer_is_advanced_before_events_are_handled(
    reactor: Reactor, poller: SleepingPoller, clock: SetClock
) -> None:
    left, right = socket.socketpair()
    transport = SocketTransport(left)
    deadlines: list[int | None] = []

    def readable() -> None:
        reactor.timer.call_later(10, reactor.stop)
        deadlines.append(reactor.timer.next_deadline_ms())

    reactor.register(transport, readable, readable)
    poller.events = [(transport.fileno(), 1)]
    clock.now_ms = 5_000
    reactor.run_once()
    assert deadlines == [5_010]
    transport.close()
    right.close()


# Callbacks.


def test_callbacks_run_in_order_and_added_ones_run_a_round_later(
    reactor: Reactor, poller: SleepingPoller
) -> None:
    ran: list[str] = []
    reactor.call_soon(lambda: (ran.append("a"), reactor.call_soon(lambda: ran.append("c")))[0])
    reactor.call_soon(lambda: ran.append("b"))
    reactor.run_once()
    assert ran == ["a", "b"]
    reactor.run_once()
    assert ran == ["a", "b", "c"]
    assert poller.sleeps == [0.0, 0.0]


def test_a_bug_in_a_callback_is_logged_and_counted_and_the_loop_goes_on(
    reactor: Reactor, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Exception] = []
    reactor.on_bug = lambda where, error: told.append(error)
    ran: list[str] = []
    reactor.call_soon(lambda: [].pop())
    reactor.call_soon(lambda: ran.append("next"))
    reactor.timer.call_later(1, lambda: {}["missing"])  # type: ignore[index]
    reactor.run_once()
    reactor.run_once()
    assert (reactor.bugs, ran) == (2, ["next"])
    assert [type(error) for error in told] == [IndexError, KeyError]
    assert all(record.exc_info for record in caplog.records)


def test_timers_after_one_with_a_bug_still_run(reactor: Reactor) -> None:
    ran: list[str] = []
    reactor.timer.call_later(1, lambda: [].pop())
    reactor.timer.call_later(1, lambda: ran.append("behind"))
    reactor.run_once()
    reactor.run_once()
    assert ran == ["behind"]


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_system_exit_and_keyboard_interrupt_end_the_loop(
    reactor: Reactor, ending: type[BaseException]
) -> None:
    def end() -> None:
        raise ending

    reactor.call_soon(end)
    with pytest.raises(ending):
        reactor.run()


# Driven by another loop.


def test_wait_ms_is_the_time_another_loop_may_sleep(reactor: Reactor, clock: SetClock) -> None:
    assert reactor.wait_ms() is None
    ran: list[int] = []
    reactor.timer.call_later(15, lambda: ran.append(15))
    assert reactor.wait_ms() == 15
    clock.now_ms += 15
    assert reactor.wait_ms() == 0
    reactor.run_ready()
    assert (ran, reactor.wait_ms()) == ([15], None)
    reactor.call_soon(lambda: ran.append(0))
    assert reactor.wait_ms() == 0
    reactor.run_ready()
    assert ran == [15, 0]


def test_run_ready_does_not_sleep(reactor: Reactor, poller: SleepingPoller) -> None:
    reactor.timer.call_later(1000, lambda: None)
    reactor.run_ready()
    assert poller.sleeps == [0.0]
