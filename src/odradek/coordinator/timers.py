"""Timers by key over the one `SystemTimer`: what became of Kafka's delayed joins and heartbeats.

    ("join", group)               the initial delay, or the time members have to join again
    ("sync", group)               the time members have to fetch their assignment
    ("heartbeat", group, member)  the session of a member

Scheduling a key again moves its one task on the wheel: a heartbeat costs the same whether there are
fifty members or five thousand, and nothing ever looks through them. What happens when the time of a
key has come is the state machine's; it goes the way of every other operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.coordinator.turn import TimerKey
from odradek.timing import SystemTimer, TimerTask


class KeyedTask(TimerTask):
    """The task of a key, for as long as the key is scheduled."""

    def __init__(self, timers: KeyedTimers, key: TimerKey) -> None:
        super().__init__(0)
        self.timers = timers
        self.key = key

    def run(self) -> None:
        self.timers.expired(self.key)


class KeyedTimers:
    """Of one shard. `fire` is called with a key whose time has come."""

    def __init__(self, timer: SystemTimer, fire: Callable[[TimerKey], None]) -> None:
        self._timer = timer
        self._fire = fire
        self._tasks: dict[TimerKey, KeyedTask] = {}

    def keys(self) -> Iterator[TimerKey]:
        """Those that are scheduled."""
        return iter(self._tasks)

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Fire the key in `delay_ms`, and no longer when it was scheduled for."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = KeyedTask(self, key)
        self._timer.schedule(task, self._timer.now_ms + delay_ms)

    def cancel(self, key: TimerKey) -> None:
        """Do not fire the key."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def clear(self) -> None:
        """Fire nothing any more."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def expired(self, key: TimerKey) -> None:
        """The time of a key has come."""
        del self._tasks[key]
        self._fire(key)
