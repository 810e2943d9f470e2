"""Simulated workers: blocking work that takes a while, in no particular order.

    submit ──(delay)──► work() runs, its effects happen ──(delay)──► done(result) or failed(error)

Between `submit` and the run nothing has happened yet; between the run and `done` it has, but the
owner does not know. A crash may fall into either gap. Delays are drawn for every piece of work,
so pieces overtake each other, as on a pool of threads; a slow disk is a `Pace` with long ones.

`work` runs on the one thread there is, so races on memory between a worker and the owner do not
show here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each of the two delays lasts: lowest and highest, in nanoseconds."""

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
    pace: Pace = field(default_factory=Pace)
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

        self.process.post(self.pace.draw(self.chance), "work", run)

    def _finish(self, kind: str, tell: Callable[[], None]) -> None:
        def told() -> None:
            self.pending -= 1
            tell()

        self.process.post(self.pace.draw(self.chance), kind, told)
