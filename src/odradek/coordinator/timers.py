"""Timers by key over the one `SystemTimer`: what became of Kafka's delayed joins and heartbeats.

    ("join", group)               the initial delay, or the time members have to join again
    ("sync", group)               the time members have to fetch their assignment
    ("heartbeat", group, member)  the session of a member

A key has one task on the wheel. Scheduling it again for later, as every heartbeat does, notes the
new deadline and leaves the task where it is; when that time comes, the task moves to the deadline
noted last, and the key fires there, at the same tick as if it had been moved each time. So a
session is put on the wheel once in its length, not at every heartbeat, which costs the same whether
there are fifty members or five thousand. Only scheduling it for earlier moves the task at once.

What happens when the time of a key has come is the state machine's; it goes the way of every other
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

from mypy_extensions import i64

from odradek.coordinator.operation import TimerKey
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask


@final
class KeyedTask(TimerTask):
    """The task of a key, for as long as the key is scheduled; on the wheel at `deadline_ms` or
    before.
    """

    def __init__(self, timers: KeyedTimers, key: TimerKey) -> None:
        super().__init__(0)
        self.timers = timers
        self.key = key
        self.deadline_ms: i64 = 0

    def run(self) -> None:
        self.timers.task_expired(self)


@final
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
        deadline_ms: i64 = self._timer.now_ms + delay_ms
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = KeyedTask(self, key)
        elif task.expiration_ms <= deadline_ms:
            task.deadline_ms = deadline_ms
            return
        task.deadline_ms = deadline_ms
        self._timer.schedule(task, deadline_ms)

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

    def task_expired(self, task: KeyedTask) -> None:
        """The time has come that a task is on the wheel for: its key's, or an earlier one."""
        if task.deadline_ms > self._timer.now_ms:
            self._timer.schedule(task, task.deadline_ms)
            return
        del self._tasks[task.key]
        self._fire(task.key)
