"""Heartbeat: three clocks of a group member.

    session     how long the coordinator may stay silent before it is looked for again
    heartbeat   when the next heartbeat is due; none is sent while one is unanswered
    poll        how long the application may stay away before the member gives up its place

It sends nothing; `membership` asks what is due. Times are milliseconds of one monotonic clock.
"""

from __future__ import annotations

from odradek.client.alarm import NEVER_MS


class Heartbeat:
    """The clocks, all wound up at `now_ms`."""

    def __init__(
        self,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        max_poll_interval_ms: int,
        now_ms: int,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.max_poll_interval_ms = max_poll_interval_ms
        self.last_poll_ms = now_ms
        """When the application was last there. A face may write it from the application's thread,
        so that a poll that needs nothing of the engine need not enter it."""
        self.application_waits = False
        """The application is inside a poll, waiting. A face writes it as it does `last_poll_ms`."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + session_timeout_ms
        self.due_ms = now_ms + heartbeat_interval_ms

    @property
    def poll_deadline_ms(self) -> int:
        """When the application has stayed away too long; never while it waits."""
        if self.application_waits:
            return NEVER_MS
        return self.last_poll_ms + self.max_poll_interval_ms

    def polled(self, now_ms: int) -> None:
        """The application is there."""
        self.last_poll_ms = max(self.last_poll_ms, now_ms)

    def sent(self, now_ms: int) -> None:
        """A heartbeat leaves."""
        self.in_flight = True
        self.due_ms = now_ms + self.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        """The coordinator answered: it knows that this member is alive."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + self.session_timeout_ms

    def failed(self, now_ms: int, backoff_ms: int) -> None:
        """A heartbeat came to nothing; the next one follows soon."""
        self.in_flight = False
        self.due_ms = now_ms + backoff_ms

    def restart(self, now_ms: int) -> None:
        """The member is (again) one of a generation."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + self.session_timeout_ms
        self.due_ms = now_ms + self.heartbeat_interval_ms

    def found_coordinator(self, now_ms: int) -> None:
        """A coordinator that was just found gets its full time."""
        self.session_deadline_ms = now_ms + self.session_timeout_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether to send one now."""
        return not self.in_flight and now_ms >= self.due_ms

    def session_expired(self, now_ms: int) -> bool:
        return now_ms >= self.session_deadline_ms

    def poll_expired(self, now_ms: int) -> bool:
        return now_ms >= self.poll_deadline_ms

    @property
    def next_ms(self) -> int:
        """When something of this is due."""
        sending_ms = self.session_deadline_ms if self.in_flight else self.due_ms
        return min(sending_ms, self.session_deadline_ms, self.poll_deadline_ms)
