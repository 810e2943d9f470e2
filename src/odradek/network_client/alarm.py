"""Alarm: one timer for the earliest of many deadlines.

`set_for` costs nothing while the alarm is set for an earlier time. When it rings, its owner handles
all deadlines that have passed and sets it again; a deadline that no longer applies is not removed.
So requests do not touch the timer.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask

NEVER_MS = 1 << 62


class Alarm:
    """Calls `ring` once, at the earliest time it was set for; then it is unset."""

    __slots__ = ("_ring", "_task", "_timer", "at_ms")

    def __init__(self, timer: SystemTimer, ring: Callable[[], None]) -> None:
        self.at_ms = NEVER_MS
        """When it rings, on the timer's clock; `NEVER_MS` while it is unset."""
        self._timer = timer
        self._ring = ring
        self._task: TimerTask | None = None

    def set_for(self, deadline_ms: int) -> None:
        """Ring at this time, or earlier if it is set for an earlier one."""
        if deadline_ms < self.at_ms:
            if self._task is not None:
                self._task.cancel()
            self.at_ms = deadline_ms
            delay_ms = max(0, deadline_ms - self._timer.now_ms)
            self._task = self._timer.call_later(delay_ms, self._rung)

    def cancel(self) -> None:
        """Unset the alarm."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.at_ms = NEVER_MS

    def _rung(self) -> None:
        self._task = None
        self.at_ms = NEVER_MS
        self._ring()
