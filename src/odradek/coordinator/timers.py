"""Timers of a shard by key, over the one `SystemTimer`. They replace Kafka's DelayedJoin,
DelayedSync and DelayedHeartbeat.

    ("join", group)               the initial rebalance delay, or the rebalance timeout
    ("sync", group)               the time in which members have to fetch their assignment
    ("heartbeat", group, member)  the session timeout of a member

A key has one task on the timing wheel. Each heartbeat schedules its key again for later: that
notes the new deadline and leaves the task where it is. When the task expires before the deadline,
it moves to the deadline noted last. The key fires at the same tick as if the task had been moved
each time, but a session is put on the wheel once per session timeout instead of once per heartbeat.
Only an earlier deadline moves the task at once.

A key that is due fires after the requests that had arrived by then, as in Kafka, where its timeout
is the last event in the coordinator's queue. So members whose joins arrive together are in one
generation though `group.initial.rebalance.delay.ms` is 0, and a heartbeat that arrived in time
keeps its member though the broker was suspended. A key that such a request schedules again or
cancels does not fire.

When a key fires, the state machine handles it as an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import final

from mypy_extensions import i64

from odradek.coordinator.operation import TimerKey
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask


@final
class KeyedTask(TimerTask):
    """The task of a scheduled key. It is on the wheel at `deadline_ms` or before, unless it is due:
    then its key fires after the present requests.
    """

    def __init__(self, timers: KeyedTimers, key: TimerKey) -> None:
        super().__init__(0)
        self.timers = timers
        self.key = key
        self.deadline_ms: i64 = 0
        self.fires_soon = False

    def run(self) -> None:
        self.timers.task_expired(self)


@final
class KeyedTimers:
    """The timers of one shard. `fire` is called with each key that expires; `call_soon` calls a
    function after the requests that have arrived.
    """

    def __init__(
        self,
        timer: SystemTimer,
        fire: Callable[[TimerKey], None],
        call_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._timer = timer
        self._fire = fire
        self._call_soon = call_soon
        self._tasks: dict[TimerKey, KeyedTask] = {}

    def keys(self) -> Iterator[TimerKey]:
        """The keys that are scheduled."""
        return iter(self._tasks)

    def left_ms(self, key: TimerKey) -> int | None:
        """Return the time until the key fires; None if it is not scheduled."""
        task = self._tasks.get(key)
        return None if task is None else max(0, task.deadline_ms - self._timer.now_ms)

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Fire the key in `delay_ms`, in place of an earlier schedule."""
        deadline_ms: i64 = self._timer.now_ms + delay_ms
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = KeyedTask(self, key)
            task.task_counter = self._timer.counter(key[0])
        elif task.fires_soon:
            task.fires_soon = False
        elif task.expiration_ms <= deadline_ms:
            task.deadline_ms = deadline_ms
            return
        task.deadline_ms = deadline_ms
        self._timer.schedule(task, deadline_ms)

    def cancel(self, key: TimerKey) -> None:
        """Cancel the timer of a key."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def clear(self) -> None:
        """Cancel all timers."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def task_expired(self, task: KeyedTask) -> None:
        """A task expired on the wheel: at the deadline of its key, or before."""
        if task.deadline_ms > self._timer.now_ms:
            self._timer.schedule(task, task.deadline_ms)
            return
        task.fires_soon = True
        self._call_soon(partial(self._fire_due, task))

    def _fire_due(self, task: KeyedTask) -> None:
        if task.fires_soon and self._tasks.get(task.key) is task:
            del self._tasks[task.key]
            self._fire(task.key)
