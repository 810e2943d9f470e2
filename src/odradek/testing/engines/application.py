"""An application's thread in simulated time: the `PollDriver` of a consumer's `PollLoop`, and more.

    async def work():                     a coroutine over waiters, like those of the engine
        record = await reading.poll(0.5)
        await application.pause(20)
    application.run(work())

It takes the place of a user's thread with the blocking API, or of a task with the asyncio API. A
thread is slow: between its steps, and before and after each call to the engine, other events may
run on the engine's thread. `step_ns` is the range of that delay; (0, 0) is a task in the engine's
own loop, whose steps are not interrupted.

An exception of the coroutine is a bug, and ends the run.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.client.waiter import Waiter, spawn
from odradek.testing.client_process import ClientProcess
from odradek.testing.prng import SplitMix64
from odradek.testing.scheduler import MS, SECOND, SimulationError

T = TypeVar("T")


class SimApplication:
    """One thread of one client's process."""

    def __init__(self, side: ClientProcess, chance: SplitMix64, step_ns: tuple[int, int]) -> None:
        self.side = side
        self.chance = chance
        self.ended = False
        """True if its coroutine has returned."""
        self._step_ns = step_ns
        self._signalled = False
        self._sleeper: Waiter[None] | None = None

    def run(self, work: Coroutine[Waiter[Any], None, None]) -> None:
        """Start `work` as the application."""
        self.side.process.run(lambda: spawn(work).add_callback(self._ended))

    def _ended(self, waiter: Waiter[None]) -> None:
        self.ended = True
        if waiter.error is not None:
            raise SimulationError(
                f"{self.side.name}: {waiter.error!r} at {self.side.process.scheduler.now_ns} ns"
            ) from waiter.error

    async def pause(self, delay_ms: int) -> None:
        """Wait, as an application that does other work."""
        await self._after(delay_ms * MS, "work")

    def post(self, action: Callable[[], object]) -> None:
        """Run `action` on the engine's thread, without waiting for it."""

        def act() -> None:
            action()

        self._later(act)

    async def until(self, make: Callable[[], Waiter[T]]) -> Waiter[T]:
        """Call `make` on the engine's thread, and wait until its waiter is done."""
        begun = await self.call(make)
        if not begun.done:
            over: Waiter[None] = Waiter()
            begun.add_callback(lambda _: self._later(completing(over)))
            await over
        return begun

    # The driver of a `PollLoop`.

    @property
    def running(self) -> bool:
        return self.side.process.alive

    def time(self) -> float:
        return self.side.process.scheduler.now_ns / SECOND

    def signal(self) -> None:
        self._signalled = True
        sleeper = self._sleeper
        if sleeper is not None:
            self._later(completing(sleeper))

    def clear(self) -> None:
        self._signalled = False

    async def sleep(self, timeout_s: float | None) -> None:
        if self._signalled:
            return
        self._sleeper = sleeper = Waiter[None]()
        if timeout_s is not None:
            late_ns = max(1, math.ceil(timeout_s * SECOND))
            late = self.side.process.post(late_ns, "time is over", completing(sleeper))
            sleeper.add_callback(lambda _: late.cancel())
        await sleeper
        self._sleeper = None

    async def call(self, action: Callable[[], T]) -> T:
        if self._step_ns == (0, 0):
            return action()
        await self._step()
        found = action()
        await self._step()
        return found

    async def wait(self, make: Callable[[], Waiter[T]]) -> T:
        return (await self.until(make)).result()

    async def call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        found = callback(*arguments)
        if inspect.isawaitable(found):
            await found

    # Steps.

    async def _step(self) -> None:
        await self._after(self.chance.between(*self._step_ns), "step")

    async def _after(self, delay_ns: int, kind: str) -> None:
        over: Waiter[None] = Waiter()
        self.side.process.post(delay_ns, kind, completing(over))
        await over

    def _later(self, action: Callable[[], None]) -> None:
        self.side.process.post(self.chance.between(*self._step_ns), "step", action)


def completing(waiter: Waiter[None]) -> Callable[[], None]:
    """Return a function that completes the waiter."""

    def complete() -> None:
        waiter.complete(None)

    return complete
