"""LoopLoad: how long a loop's turns are, how late its timers, and which share of time it sleeps.

    wake ──── timers, events, callbacks ──── end of the turn ──── sleep ──── wake

A turn is the time from a wake-up to the next look at what is ready; whatever becomes ready during a
turn waits for its end. Turns that follow each other without a sleep are counted each.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from odradek.model.histogram import Histogram

MARK_NS: Final = 5_000_000_000
MARKS: Final = 7
"""The idle share is over this many marks: about half a minute, or longer if the loop slept."""


ASLEEP: Final = -1


class LoopLoad:
    """Written by the loop only, at readings of the clock that it makes anyway."""

    __slots__ = ("_marks", "_next_mark_ns", "_woke_ns", "started_ns", "timer_lag", "turns")

    def __init__(self, now_ns: int) -> None:
        self.turns = Histogram()
        """Nanoseconds of each turn; their sum is the time that the loop was busy."""
        self.timer_lag = Histogram()
        """Nanoseconds between the earliest deadline of a timer and the turn that ran it."""
        self.started_ns = now_ns
        self._woke_ns = ASLEEP
        self._next_mark_ns = now_ns
        self._marks: deque[tuple[int, int]] = deque(maxlen=MARKS)

    def wake(self, now_ns: int) -> None:
        """Begin a turn; one that has not ended, because the loop did not sleep, ends now."""
        if self._woke_ns != ASLEEP:
            self.turns.observe(now_ns - self._woke_ns)
        self._woke_ns = now_ns

    def leave_out(self) -> None:
        """Do not measure the turn that began last: another loop slept in it."""
        self._woke_ns = ASLEEP

    def end_turn(self, now_ns: int) -> None:
        """End the turn: the loop may sleep now."""
        if self._woke_ns != ASLEEP:
            self.turns.observe(now_ns - self._woke_ns)
        self._woke_ns = ASLEEP
        if now_ns >= self._next_mark_ns:
            self._next_mark_ns = now_ns + MARK_NS
            self._marks.append((now_ns, self.turns.sum))

    def idle_share(self, now_ns: int) -> float:
        """The share of the last half minute, or of the time since the start, that it slept."""
        since_ns, busy_ns = self._marks[0] if self._marks else (self.started_ns, 0)
        return idle(now_ns - since_ns, self.turns.sum - busy_ns)

    def mean_idle_share(self, now_ns: int) -> float:
        """The share of the time since the start that it slept."""
        return idle(now_ns - self.started_ns, self.turns.sum)


def idle(passed_ns: int, busy_ns: int) -> float:
    return 1.0 if passed_ns <= 0 else min(1.0, max(0.0, 1 - busy_ns / passed_ns))
