"""One incarnation of a simulated process: its event loop, its clock, its workers and its end.

A process takes the place of the reactor: every callback of its transports, its offloaded work and
its timers runs as one event of the scheduler. Each event runs these steps:

0. if the process drives a timer, the timer is advanced to the current time, as a reactor does after
   a wake-up;
1. the callbacks given to `call_soon` run, in order, until there are none;
2. the timer is advanced if its next deadline has come;
3. the next wake-up is set to exactly that deadline: there are no ticks.

A dead process runs nothing: its events that are still in the heap are skipped. `Crash`, raised by a
simulated disk in the middle of an operation, ends the process within a callback, so that a kill
between any two effects of one handler can be tested. It is a `BaseException`, which code under test
must not catch. A paused process (SIGSTOP) gets its events after the pause. A stalled one has an
owner that is late (a long turn, a collection of garbage): its workers go on.

Offloaded work (`SimOffload`) takes a while and ends in no particular order:

    submit ──(delay)──► work() runs, its effects happen ──(delay)──► done(result) or failed(error)

Between `submit` and the run nothing has happened; between the run and `done` it has, but the owner
does not know. A crash may fall into either gap. Delays are drawn for each piece of work, so pieces
overtake each other as on a pool of threads; a slow disk is a `DelayRanges` with long delays. `work`
runs on the only thread there is, so this cannot show races between a worker and the owner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import ScheduledEvent, Scheduler, SimClock


class Crash(BaseException):
    """Ends the process in the middle of a callback."""


class Timer(Protocol):
    """The timer of an event loop; `odradek.timing.timer.SystemTimer` implements it."""

    def next_deadline_ms(self) -> int | None: ...

    def advance_clock(self, now_ms: int, /) -> object: ...


@dataclass(slots=True)
class SimProcess:
    """A process with an event loop, alive until `kill`."""

    scheduler: Scheduler
    name: str
    clock: SimClock
    crashed: Callable[[], None] = lambda: None
    """Called after the process has ended by a `Crash`."""
    alive: bool = True
    paused_until_ns: int = 0
    stalled_until_ns: int = 0
    observe: Callable[[], None] | None = None
    """Called after every event, for the rules of a run."""
    _running: bool = False
    _soon: deque[Callable[[], None]] = field(default_factory=deque)
    _timer: Timer | None = None
    _wake: ScheduledEvent | None = None

    def drive(self, timer: Timer) -> None:
        """Advance this timer from now on."""
        self._timer = timer
        self._set_wake()

    def post(
        self, delay_ns: int, kind: str, callback: Callable[[], None], crc: int = 0
    ) -> ScheduledEvent:
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
        late_ns = max(self.paused_until_ns, self.stalled_until_ns) - self.scheduler.now_ns
        if late_ns > 0:
            self.scheduler.reach("process: late")
            self.post(late_ns, "late", callback)
            return
        self._running = True
        try:
            if self._timer:
                # Even if none is due: delays that the callback adds count from this time.
                self._timer.advance_clock(self.clock.monotonic_ms())
            callback()
            self._run_callbacks_and_timer()
            if self.observe is not None:
                self.observe()
        except Crash:
            self.kill()
            self.crashed()
        finally:
            self._running = False

    def run_worker(self, work: Callable[[], None]) -> None:
        """Run a worker's step: as an event of its own, even while the owner is stalled."""
        now_ns = self.scheduler.now_ns
        if self.stalled_until_ns <= now_ns or self.paused_until_ns > now_ns:
            self.run(work)
        elif self.alive:
            try:
                work()
            except Crash:
                self.kill()
                self.crashed()

    def _run_callbacks_and_timer(self) -> None:
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
        """End the process; its planned events never run."""
        self.alive = False
        self._soon.clear()
        self._timer = None


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DelayRanges:
    """The range of each of the two delays: lowest and highest, in nanoseconds."""

    delay_ns: tuple[int, int] = (20_000, 2_000_000)
    slow_delay_ns: tuple[int, int] = (5_000_000, 60_000_000)
    slow_rate: int = 50

    def draw(self, chance: SplitMix64) -> int:
        low, high = self.slow_delay_ns if chance.chance(self.slow_rate) else self.delay_ns
        return chance.between(low, high)


@dataclass(slots=True, eq=False)
class SimOffload:
    """The workers of one process. Implements `model.env.Offload`."""

    process: SimProcess
    chance: SplitMix64
    pace: DelayRanges = field(default_factory=DelayRanges)
    pending: int = 0

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.pending += 1

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                reason = error
                self._finish("failed", lambda: failed(reason))
            else:
                self._finish("done", lambda: done(result))

        process = self.process
        process.scheduler.after(
            self.pace.draw(self.chance), process.name, "work", lambda: process.run_worker(run)
        )

    def _finish(self, kind: str, callback: Callable[[], None]) -> None:
        def report() -> None:
            self.pending -= 1
            callback()

        self.process.post(self.pace.draw(self.chance), kind, report)
