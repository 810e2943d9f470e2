"""Presence: lets the group know that the application polls.

A poll that finds a record enters nothing and looks at no clock, it only counts
(`FetchCollector.polls`). Every so often the count is looked at here: if it is another one, the
application was there. So the end of `max.poll.interval.ms` may be noticed a twentieth of it late,
and never early.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.net.alarm import Alarm
from odradek.timing.timer import SystemTimer

CHECKS_PER_INTERVAL = 20
"""In one max.poll.interval.ms."""


class PollTracker:
    """Calls `seen` when the application has polled since it last looked."""

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
