"""One incarnation of a simulated process: its loop, its clock, and its death.

A process stands where the reactor stands in the real world: every callback of its transports, its
offloaded work and its timers runs as an event of the scheduler, and around each one

0. the timer, if the process drives one, is told the time, as a reactor tells it after a wake-up;
1. the callbacks given to `call_soon` run, in order, until there are none;
2. the timer is advanced if its next deadline has come;
3. the next wake-up is set to exactly that deadline. No tick, as in the real reactor.

A dead process runs nothing more: events already in the heap for it are skipped, as a kill at that
point would have it. `Crash`, raised by a simulated disk in the middle of an operation, ends the
process *within* a callback, so that a kill between any two effects of one handler is reachable;
it is a `BaseException`, which code under test has no business catching. A paused process
(SIGSTOP) gets its events late, all after the pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from odradek.testing.scheduler import Event, Scheduler, SimClock


class Crash(BaseException):
    """The process ended here, in the middle of what it was doing."""


class Timer(Protocol):
    """What a loop needs of a timer: `odradek.timing.timer.SystemTimer` has it."""

    def next_deadline_ms(self) -> int | None: ...

    def advance_clock(self, now_ms: int, /) -> object: ...


@dataclass(slots=True)
class SimProcess:
    """A process by name, alive until `kill`."""

    scheduler: Scheduler
    name: str
    clock: SimClock
    crashed: Callable[[], None] = lambda: None
    """Called after the process has ended by a `Crash`, for its machine to take notice."""
    alive: bool = True
    paused_until_ns: int = 0
    _running: bool = False
    _soon: deque[Callable[[], None]] = field(default_factory=deque)
    _timer: Timer | None = None
    _wake: Event | None = None

    def drive(self, timer: Timer) -> None:
        """Advance this timer from now on."""
        self._timer = timer
        self._set_wake()

    def post(self, delay_ns: int, kind: str, callback: Callable[[], None], crc: int = 0) -> Event:
        """Run `callback` on this process after a delay, if the process lives then."""
        return self.scheduler.after(delay_ns, self.name, kind, lambda: self.run(callback), crc)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` after the current event (or as an event of its own, if there is none)."""
        if not self._running and not self._soon:
            self.post(0, "soon", lambda: None)
        self._soon.append(callback)

    def run(self, callback: Callable[[], None]) -> None:
        """Run `callback` as an event of this process, now."""
        if not self.alive:
            return
        if self.paused_until_ns > self.scheduler.now_ns:
            self.post(self.paused_until_ns - self.scheduler.now_ns, "late", callback)
            return
        self._running = True
        try:
            if self._timer:
                # Due or not: what the callback adds to the timer counts from the time told here.
                self._timer.advance_clock(self.clock.monotonic_ms())
            callback()
            self._settle()
        except Crash:
            self.kill()
            self.crashed()
        finally:
            self._running = False

    def _settle(self) -> None:
        self._drain()
        deadline_ms = self._timer.next_deadline_ms() if self._timer else None
        if self._timer and deadline_ms is not None and deadline_ms <= self.clock.monotonic_ms():
            self._timer.advance_clock(self.clock.monotonic_ms())
            self._drain()
        self._set_wake()

    def _drain(self) -> None:
        while self._soon:
            self._soon.popleft()()

    def _set_wake(self) -> None:
        deadline_ms = self._timer.next_deadline_ms() if self._timer and self.alive else None
        at_ns = None if deadline_ms is None else self.clock.at_ns(deadline_ms)
        if self._wake is not None and self._wake.callback is not None:
            if self._wake.at_ns == at_ns:
                return
            self._wake.cancel()
        self._wake = None
        if at_ns is not None:
            delay_ns = max(0, at_ns - self.scheduler.now_ns)
            self._wake = self.post(delay_ns, "timer", lambda: None)

    def kill(self) -> None:
        """The process is gone; what it had planned never happens."""
        self.alive = False
        self._soon.clear()
        self._timer = None
