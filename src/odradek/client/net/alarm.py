"""One timer for the earliest of many deadlines.

`set_for` costs nothing while the alarm is set for something earlier. When it rings, its owner looks
at what is due and sets it again; who is no longer there was never taken out. So traffic does not
touch the timer.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask

NEVER_MS = 1 << 62


class Alarm:
    """Calls `ring` at the earliest time it was set for, once; then it is not set."""

    __slots__ = ("_ring", "_task", "_timer", "at_ms")

    def __init__(self, timer: SystemTimer, ring: Callable[[], None]) -> None:
        self.at_ms = NEVER_MS
        """When it rings, on the timer's clock; `NEVER_MS` while it is not set."""
        self._timer = timer
        self._ring = ring
        self._task: TimerTask | None = None

    def set_for(self, deadline_ms: int) -> None:
        """Ring then, or earlier."""
        if deadline_ms < self.at_ms:
            if self._task is not None:
                self._task.cancel()
            self.at_ms = deadline_ms
            delay_ms = max(0, deadline_ms - self._timer.now_ms)
            self._task = self._timer.call_later(delay_ms, self._rung)

    def cancel(self) -> None:
        """Do not ring."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.at_ms = NEVER_MS

    def _rung(self) -> None:
        self._task = None
        self.at_ms = NEVER_MS
        self._ring()
