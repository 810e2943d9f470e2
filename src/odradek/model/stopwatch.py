"""Stopwatch: the owner thread's clock for measuring work, which keeps its last reading.

The loop reads it when it wakes and before it sleeps, a request when it was handled. Whoever only
needs to know when the present piece of work began takes `last_ns`, so a round of many requests
costs one reading for each of them and not two.
"""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    """Nanoseconds of a monotonic clock."""

    __slots__ = ("_now_ns", "last_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.last_ns = now_ns()
        """The last reading: the end of the last piece of work that was measured."""

    def read(self) -> int:
        """Read the clock."""
        now_ns = self._now_ns()
        self.last_ns = now_ns
        return now_ns
