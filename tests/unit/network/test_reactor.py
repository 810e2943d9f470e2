"""The loop: how long it sleeps, what wakes it, in which order it calls, what a bug does to it."""

from __future__ import annotations

import ctypes
import functools
import os
import select
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from odradek.network.clock import SystemClock
from odradek.network.poller import Poller, SelectorPoller, default_poller
from odradek.network.selector import Reactor
from odradek.network.transport import SocketTransport
from odradek.timing.timer import SystemTimer

FOREVER = -1.0
LONG_MS = 60_000


class SetClock:
    """A clock that moves when it is told to."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class SleepingPoller:
    """A poller whose sleep is the passing of simulated time."""

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
    reactor = Reactor(clock, SystemTimer(clock.now_ms), poller=poller)
    yield reactor
    reactor.close()


@pytest.fixture(params=["default", "poll", "select"])
def real(request: pytest.FixtureRequest) -> Iterator[Reactor]:
    """A reactor over real descriptors, with each kind of poller."""
    kinds: dict[str, Callable[[], Poller]] = {
        "default": default_poller,
        "poll": lambda: SelectorPoller(selectors.PollSelector()),
        "select": lambda: SelectorPoller(selectors.SelectSelector()),
    }
    clock = SystemClock()
    reactor = Reactor(clock, SystemTimer(clock.monotonic_ms()), poller=kinds[request.param]())
    yield reactor
    reactor.close()


# The sleep.


def test_with_nothing_to_do_it_sleeps_for_ever(reactor: Reactor, poller: SleepingPoller) -> None:
    reactor.run_once()
    assert poller.sleeps == [FOREVER]


def test_it_sleeps_until_the_deadline_and_runs_it_then(
    reactor: Reactor, poller: SleepingPoller, clock: SetClock
) -> None:
    ran_at: list[int] = []
    reactor.timer.call_later(15, lambda: ran_at.append(clock.now_ms))
    reactor.run_once()
    assert (ran_at, poller.sleeps) == ([15], [0.015])


def test_an_idle_hour_with_a_thousand_far_deadlines_is_no_wake_up_per_second(
    reactor: Reactor, clock: SetClock
) -> None:
    ran: list[int] = []
    for _ in range(1000):
        reactor.timer.call_later(3_600_000, lambda: ran.append(clock.now_ms))
    while not ran:
        reactor.run_once()
    assert ran == [3_600_000] * 1000
    assert reactor.wakeups <= 5, "one for each level of the wheel"


def test_a_deadline_further_away_than_epoll_can_sleep_is_slept_for_in_pieces(real: Reactor) -> None:
    real.timer.call_later(2**40, real.stop)
    real.call_soon_threadsafe(lambda: None)
    real.run_once()
    assert real.wakeups == 1


def test_a_deadline_that_passed_while_something_ran_is_not_slept_for(
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


def test_the_timer_knows_the_time_before_events_are_handled(
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


def test_callbacks_run_in_order_and_what_they_add_runs_a_round_later(
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


def test_a_bug_in_a_callback_is_logged_counted_told_and_survived(
    reactor: Reactor, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Exception] = []
    reactor.on_bug = lambda where, error: told.append(error)
    ran: list[str] = []
    reactor.call_soon(lambda: [].pop())
    reactor.call_soon(lambda: ran.append("next"))
    reactor.timer.call_later(1, lambda: {}["missing"])
    reactor.run_once()
    reactor.run_once()
    assert (reactor.bugs, ran) == (2, ["next"])
    assert [type(error) for error in told] == [IndexError, KeyError]
    assert all(record.exc_info for record in caplog.records)


def test_timers_behind_one_with_a_bug_run_all_the_same(reactor: Reactor) -> None:
    ran: list[str] = []
    reactor.timer.call_later(1, lambda: [].pop())
    reactor.timer.call_later(1, lambda: ran.append("behind"))
    reactor.run_once()
    reactor.run_once()
    assert ran == ["behind"]


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_a_wish_to_end_ends_the_loop(reactor: Reactor, ending: type[BaseException]) -> None:
    def end() -> None:
        raise ending

    reactor.call_soon(end)
    with pytest.raises(ending):
        reactor.run()


# Driven by another loop.


def test_it_tells_how_long_another_loop_may_sleep_for_it(reactor: Reactor, clock: SetClock) -> None:
    assert reactor.wait_ms() is None
    ran: list[int] = []
    reactor.timer.call_later(15, lambda: ran.append(15))
    assert reactor.wait_ms() == 15
    clock.now_ms += 15
    assert reactor.wait_ms() == 0
    reactor.turn()
    assert (ran, reactor.wait_ms()) == ([15], None)
    reactor.call_soon(lambda: ran.append(0))
    assert reactor.wait_ms() == 0
    reactor.turn()
    assert ran == [15, 0]


def test_a_turn_does_not_sleep(reactor: Reactor, poller: SleepingPoller) -> None:
    reactor.timer.call_later(1000, lambda: None)
    reactor.turn()
    assert poller.sleeps == [0.0]


def test_its_descriptor_is_readable_when_there_is_something_to_do() -> None:
    clock = SystemClock()
    reactor = Reactor(clock, SystemTimer(clock.monotonic_ms()))
    ran: list[int] = []
    assert not select.select([reactor], [], [], 0)[0]
    reactor.call_soon_threadsafe(lambda: ran.append(1))
    assert select.select([reactor], [], [], 30)[0]
    reactor.turn()
    assert ran == [1] and not select.select([reactor], [], [], 0)[0]
    reactor.close()


def test_a_poller_without_a_descriptor_says_so() -> None:
    poller = SelectorPoller(selectors.SelectSelector())
    with pytest.raises(OSError, match="no descriptor"):
        poller.fileno()
    poller.close()


# Over real descriptors.


def test_readable_and_writable_are_told_as_wanted(real: Reactor) -> None:
    left, right = socket.socketpair()
    transport = SocketTransport(left)
    events: list[str] = []
    real.register(transport, lambda: events.append("r"), lambda: events.append("w"))
    right.send(b"x")
    real.run_once()
    assert events == ["r"], "reading only, to begin with"
    real.run_once()
    assert events == ["r", "r"], "level-triggered"
    real.set_interest(transport, read=False, write=True)
    real.run_once()
    assert events == ["r", "r", "w"]
    real.set_interest(transport, read=False, write=False)
    real.call_soon(lambda: events.append("soon"))
    real.run_once()
    assert events[-1] == "soon"
    real.set_interest(transport, read=True, write=True)
    real.run_once()
    assert events[-2:] == ["r", "w"]
    real.unregister(transport)
    real.call_soon(lambda: events.append("soon"))
    real.run_once()
    assert events[-2:] == ["w", "soon"]
    transport.close()
    right.close()


def test_who_was_unregistered_when_readable_is_not_told_writable(real: Reactor) -> None:
    left, right = socket.socketpair()
    transport = SocketTransport(left)
    events: list[str] = []

    def readable() -> None:
        events.append("r")
        real.unregister(transport)

    real.register(transport, readable, lambda: events.append("w"))
    real.set_interest(transport, read=True, write=True)
    right.send(b"x")
    real.run_once()
    assert events == ["r"]
    transport.close()
    right.close()


def test_a_bug_in_an_event_closes_that_transport_only(real: Reactor) -> None:
    ends = [socket.socketpair() for _ in range(2)]
    transports = [SocketTransport(left) for left, _ in ends]
    events: list[str] = []
    real.register(transports[0], lambda: [].pop(), lambda: None)
    real.register(transports[1], lambda: events.append("r"), lambda: None)
    for _, right in ends:
        right.send(b"x")
    real.run_once()
    real.run_once()
    assert real.bugs == 1
    assert ends[0][0].fileno() == -1, "closed"
    assert len(events) >= 1
    real.unregister(transports[1])
    transports[1].close()
    for _, right in ends:
        right.close()


def test_another_thread_wakes_it_once_for_many_callbacks(real: Reactor) -> None:
    ran: list[int] = []

    def many() -> None:
        for number in range(1000):
            real.call_soon_threadsafe(lambda number=number: ran.append(number))
        real.stop()

    # All before the loop first looks, whatever the system's scheduler does.
    thread = threading.Thread(target=many)
    thread.start()
    thread.join()
    real.run()
    assert (ran, real.wakeups) == (list(range(1000)), 1)


def test_no_wake_up_from_another_thread_is_lost(real: Reactor) -> None:
    """Each is added while the loop may be falling asleep; a lost one hangs the test."""
    ran: list[int] = []
    turn = threading.Semaphore(0)

    def one_by_one() -> None:
        for number in range(300):
            real.call_soon_threadsafe(lambda number=number: (ran.append(number), turn.release()))
            turn.acquire()
        real.stop()

    thread = threading.Thread(target=one_by_one)
    thread.start()
    real.run()
    thread.join()
    assert ran == list(range(300))


def test_it_runs_on_any_thread_and_stops_from_any(real: Reactor) -> None:
    thread = threading.Thread(target=real.run)
    thread.start()
    started = threading.Event()
    real.call_soon_threadsafe(started.set)
    assert started.wait(30)
    real.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_a_signal_handler_may_stop_it(real: Reactor) -> None:
    previous = signal.signal(signal.SIGUSR1, lambda *_: real.stop())
    try:
        real.call_soon(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        real.run()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_a_signal_written_to_the_wakeup_descriptor_ends_the_sleep(real: Reactor) -> None:
    stopping: list[bool] = []
    previous = signal.signal(signal.SIGUSR1, lambda *_: stopping.append(True))
    descriptor = signal.set_wakeup_fd(real.wakeup_fd)
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        real.run_once()
    finally:
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGUSR1, previous)
    assert (stopping, real.wakeups) == ([True], 1)


def test_a_signal_that_comes_while_it_is_awake_is_handled_before_it_sleeps(real: Reactor) -> None:
    """Nothing here is interpreted between the signal and the sleep, as in a compiled broker."""
    handled: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        handled.append(number)
        real.stop()

    kill = ctypes.CDLL(None).kill
    previous = signal.signal(signal.SIGUSR1, on_signal)
    descriptor = signal.set_wakeup_fd(real.wakeup_fd)
    try:
        real.timer.call_later(LONG_MS, functools.partial(on_signal, 0, None))
        real.call_soon(functools.partial(kill, os.getpid(), int(signal.SIGUSR1)))
        real.run()
    finally:
        signal.set_wakeup_fd(descriptor)
        signal.signal(signal.SIGUSR1, previous)
    assert handled == [signal.SIGUSR1]
