"""PollTracker: tells the group that the application polls, at a twentieth of max.poll.interval.ms.

A poll that finds a record does not enter the engine and reads no clock; it only increments
`FetchCollector.polls`. The tracker compares this count at intervals: if it changed, the application
has polled. So the end of max.poll.interval.ms may be noticed a twentieth of it late, and never
early.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.net.alarm import Alarm
from odradek.timing.timer import SystemTimer

CHECKS_PER_INTERVAL = 20
"""Number of checks in one max.poll.interval.ms."""


class PollTracker:
    """Calls `on_poll` if the application has polled since the last check."""

    def __init__(
        self,
        timer: SystemTimer,
        collector: FetchCollector,
        max_poll_interval_ms: int,
        on_poll: Callable[[], object],
    ) -> None:
        self._timer = timer
        self._collector = collector
        self._every_ms = max(1, max_poll_interval_ms // CHECKS_PER_INTERVAL)
        self._on_poll = on_poll
        self._polls = 0
        self._alarm = Alarm(timer, self._check)

    def start(self) -> None:
        self._alarm.set_for(self._timer.now_ms + self._every_ms)

    def close(self) -> None:
        self._alarm.cancel()

    def _check(self) -> None:
        polls = self._collector.polls
        if polls != self._polls:
            self._polls = polls
            self._on_poll()
        self.start()
