"""Much work for the owner thread, a little per turn of its loop.

Creating 10,000 partitions is 20,000 system calls that each wait for nobody and together hold up
everybody. Here they wait in line; each turn does as many as fit in `TURN_MS`, at most `TURN_JOBS`,
and what else the loop has to do comes in between. Jobs run in the order they were added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.model.env import Clock

TURN_JOBS = 16
TURN_MS = 5


class Slices:
    """A line of jobs. A job that raises is told to the loop; the rest goes on."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._jobs: deque[Callable[[], None]] = deque()
        self._scheduled = False

    @property
    def idle(self) -> bool:
        return not self._jobs

    def add(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        self._schedule()

    def _schedule(self) -> None:
        if self._jobs and not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        end_ms = self._clock.monotonic_ms() + TURN_MS
        try:
            for _ in range(min(TURN_JOBS, len(self._jobs))):
                self._jobs.popleft()()
                if self._clock.monotonic_ms() >= end_ms:
                    break
        finally:
            self._schedule()

    def finish(self) -> None:
        """All that is left, now."""
        while self._jobs:
            self._jobs.popleft()()
