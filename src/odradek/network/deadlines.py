"""The two deadlines of a connection, each one timer that traffic never touches.

A connection notes when it was active; a timer that fires looks at that and, if there was activity,
starts again for the time that is left. So a request costs nothing here, and closing happens at the
deadline, not at some multiple of it.

    no whole request in first_request_timeout_ms ─► closed
    nothing received for max_idle_ms, nothing in progress, nothing to send ─► closed
    output waiting, no byte of it taken for stalled_timeout_ms ─► closed
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.network.limits import ConnectionLimits, NetworkCounters
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask

if TYPE_CHECKING:
    from odradek.network.connection import Connection


class Deadlines:
    """Closes its connection when it must; made when the connection starts."""

    __slots__ = ("_connection", "_counters", "_idle", "_limits", "_progress_ms", "_stall", "_timer")

    def __init__(
        self,
        connection: Connection,
        timer: SystemTimer,
        limits: ConnectionLimits,
        counters: NetworkCounters,
    ) -> None:
        self._connection = connection
        self._timer = timer
        self._limits = limits
        self._counters = counters
        self._progress_ms = timer.now_ms
        self._stall: TimerTask | None = None
        self._idle = timer.call_later(limits.first_request_timeout_ms, self._check_idle)

    def blocked(self, progress: bool) -> None:
        """The client does not take more now; `progress`: it took something, or waited for nothing
        before.
        """
        if progress:
            self._progress_ms = self._timer.now_ms
        if self._stall is None:
            self._stall = self._timer.call_later(self._limits.stalled_timeout_ms, self._check_stall)

    def cancel(self) -> None:
        """The connection ended."""
        self._idle.cancel()
        if self._stall is not None:
            self._stall.cancel()

    def _check_idle(self) -> None:
        connection, limits = self._connection, self._limits
        if not connection.requests:
            connection.close("no request in time", logging.INFO)
            return
        if limits.max_idle_ms < 0:
            return
        left_ms = connection.active_ms + limits.max_idle_ms - self._timer.now_ms
        if connection.in_progress or connection.queued_bytes:
            left_ms = limits.max_idle_ms
        if left_ms > 0:
            self._idle = self._timer.call_later(left_ms, self._check_idle)
        else:
            self._counters.idle_closed += 1
            connection.close("idle")

    def _check_stall(self) -> None:
        self._stall = None
        connection = self._connection
        if not connection.blocked:
            return
        left_ms = self._progress_ms + self._limits.stalled_timeout_ms - self._timer.now_ms
        if left_ms > 0:
            self._stall = self._timer.call_later(left_ms, self._check_stall)
        else:
            self._counters.stalled_closed += 1
            connection.close(
                f"nothing taken in time, {connection.queued_bytes} bytes waiting", logging.INFO
            )
