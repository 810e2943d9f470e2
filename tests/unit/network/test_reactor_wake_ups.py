"""Wake-ups of the reactor from a real poller's sleep: descriptors, other threads, signals."""

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

from odradek.network.poller import Poller, SelectorPoller, default_poller
from odradek.network.reactor import Reactor, SystemClock
from odradek.network.transport import SocketTransport
from odradek.timing.timer import SystemTimer

LONG_MS = 60_000


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


# Descriptors.


def test_readable_and_writable_are_called_by_interest(real: Reactor) -> None:
    left, right = socket.socketpair()
    transport = SocketTransport(left)
    events: list[str] = []
    real.register(transport, lambda: events.append("r"), lambda: events.append("w"))
    right.send(b"x")
    real.run_once()
    assert events == ["r"], "the first interest is reading only"
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


def test_a_transport_unregistered_in_readable_gets_no_writable(real: Reactor) -> None:
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


def test_a_bug_in_an_event_closes_only_that_transport(real: Reactor) -> None:
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


def test_a_deadline_beyond_epolls_longest_sleep_is_waited_for_in_pieces(real: Reactor) -> None:
    real.timer.call_later(2**40, real.stop)
    real.call_soon_threadsafe(lambda: None)
    real.run_once()
    assert real.wakeups == 1


def test_its_descriptor_is_readable_when_there_is_work() -> None:
    clock = SystemClock()
    reactor = Reactor(clock, SystemTimer(clock.monotonic_ms()))
    ran: list[int] = []
    assert not select.select([reactor], [], [], 0)[0]
    reactor.call_soon_threadsafe(lambda: ran.append(1))
    assert select.select([reactor], [], [], 30)[0]
    reactor.run_ready()
    assert ran == [1] and not select.select([reactor], [], [], 0)[0]
    reactor.close()


def test_fileno_of_a_poller_without_a_descriptor_is_an_os_error() -> None:
    poller = SelectorPoller(selectors.SelectSelector())
    with pytest.raises(OSError, match="no descriptor"):
        poller.fileno()
    poller.close()


# Other threads.


def test_many_callbacks_of_another_thread_cost_one_wake_up(real: Reactor) -> None:
    ran: list[int] = []

    def many() -> None:
        for number in range(1000):
            real.call_soon_threadsafe(lambda number=number: ran.append(number))  # type: ignore[misc]
        real.stop()

    # All are added before the loop's first round, whatever the system's scheduler does.
    thread = threading.Thread(target=many)
    thread.start()
    thread.join()
    real.run()
    assert (ran, real.wakeups) == (list(range(1000)), 1)


def test_no_wake_up_from_another_thread_is_lost(real: Reactor) -> None:
    # Each callback is added while the loop may be about to sleep; a lost one would hang the test.
    ran: list[int] = []
    turn = threading.Semaphore(0)

    def one_by_one() -> None:
        for number in range(300):
            real.call_soon_threadsafe(lambda number=number: (ran.append(number), turn.release()))  # type: ignore[arg-type, misc]
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


# Signals.


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
    # No interpreted function runs between the signal and the sleep, as in a compiled broker.
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
