"""ThreadedTimer and ThreadedPurgatory: timer and purgatory for threads, with a reaper thread.

They are the timer and purgatory of the owner loop with locks added, and with a thread instead of
the loop. The reaper sleeps until exactly the next deadline, or without limit while nothing is
pending; adding an earlier task wakes it. It never polls.

    with ThreadedTimer("sessions") as timer:
        task = timer.call_later(30_000, expire_session)   # expire_session runs on the reaper thread
        ...
        task.cancel()                                      # from any thread; True: it will not run

Locks, in the order they may be taken
1. The lock of an operation, held while it is tried, watched for the first time, and completed:
   `on_complete` runs under it, once, never beside a `try_complete` of the same operation.
2. The purgatory's own lock, for its estimate and its purge.
3. The lock of a shard of keys, for its dictionary and lists; there are 512 shards.
4. The timer's lock (the `guard` of the tasks it holds).

Only lock 1 is held while an operation's code runs. So a caller of `check_and_complete` must hold no
lock that a `try_complete` or `on_complete` takes. And an operation must not check keys whose
operations may check its own keys from another thread: each would wait for the other's lock.

A delay is counted from the call of `add`, rounded up to the millisecond, and a task never runs
early. An exception of a task goes to `threading.excepthook`; the reaper and the other tasks go on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Hashable, Iterable
from types import TracebackType

from odradek.timing.delayed_operation import DelayedOperation
from odradek.timing.purgatory import DelayedOperationPurgatory
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask, TimerTaskEntry

SHARDS = 512
NS_PER_MS = 1_000_000


class ThreadedTimer(SystemTimer):
    """A `SystemTimer` on the monotonic clock, for all threads. A context manager.

    `wakeups` counts how often the reaper woke, for a deadline or because an earlier one was added.
    """

    def __init__(self, name: str = "timer", tick_ms: int = 1, wheel_size: int = 20) -> None:
        super().__init__(time.monotonic_ns() // NS_PER_MS, tick_ms, wheel_size)
        self.name = name
        self.wakeups = 0
        self._changed = threading.Condition()
        self._sleeps_until_ms: int | None = None
        self._reaper = threading.Thread(target=self._reap, name=f"{name}-reaper", daemon=True)
        self._reaper.start()

    def __enter__(self) -> ThreadedTimer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    def add(self, task: TimerTask) -> None:
        """Schedule the task `task.delay_ms` from now; if it was scheduled, it moves there."""
        now_ms = -(-time.monotonic_ns() // NS_PER_MS)
        self.schedule(task, now_ms + task.delay_ms)

    def schedule(self, task: TimerTask, deadline_ms: int) -> None:
        """Schedule the task for a time of the monotonic clock, in milliseconds."""
        if task.guard is not None and task.guard is not self._changed:
            task.cancel()
        with self._changed:
            task.guard = self._changed
            super().schedule(task, deadline_ms)
            next_ms = self.next_deadline_ms()
            assert next_ms is not None
            if self._sleeps_until_ms is None or next_ms < self._sleeps_until_ms:
                self._changed.notify()

    def advance_clock(self, now_ms: int) -> int:
        """Run due tasks; return how many ran. The reaper calls it, and any thread may."""
        with self._changed:
            due = self.expire(now_ms)
        return self.run_due(due)

    def claim(self, entry: TimerTaskEntry) -> bool:
        with self._changed:
            return super().claim(entry)

    def put_back(self, entries: list[TimerTaskEntry]) -> None:
        with self._changed:
            super().put_back(entries)

    def task_failed(self, error: Exception) -> None:
        self._report()

    def _report(self) -> None:
        """Report the current exception as if it had ended a thread."""
        kind, value, traceback = sys.exc_info()
        assert kind is not None
        threading.excepthook(
            threading.ExceptHookArgs((kind, value, traceback, threading.current_thread()))
        )

    def shutdown(self) -> None:
        """Cancel every task and stop the reaper, after the task that it is running."""
        with self._changed:
            super().shutdown()
            self._changed.notify()
        if threading.current_thread() is not self._reaper:
            self._reaper.join()

    def _reap(self) -> None:
        while self._sleep():
            try:
                self.advance_clock(time.monotonic_ns() // NS_PER_MS)
            except BaseException:
                self._report()

    def _sleep(self) -> bool:
        """Sleep until the next deadline, which may change meanwhile. False after shutdown."""
        with self._changed:
            while not self.is_shut_down:
                deadline_ms = self.next_deadline_ms()
                timeout_ns = 0
                if deadline_ms is not None:
                    timeout_ns = deadline_ms * NS_PER_MS - time.monotonic_ns()
                    if timeout_ns <= 0:
                        return True
                self._sleeps_until_ms = deadline_ms
                self._changed.wait(
                    None if deadline_ms is None else min(timeout_ns / 1e9, threading.TIMEOUT_MAX)
                )
                self._sleeps_until_ms = 0
                self.wakeups += 1
            return False


class ThreadedDelayedOperation(DelayedOperation):
    """A delayed operation with a lock of its own, which any thread may complete."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.lock = threading.RLock()


class ThreadedPurgatory(DelayedOperationPurgatory):
    """A purgatory for all threads, on a `ThreadedTimer`; its operations expire on the reaper."""

    def __init__(self, name: str, timer: ThreadedTimer, purge_interval: int = 1000) -> None:
        super().__init__(name, timer, purge_interval, SHARDS, threading.RLock)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """Like the base class. `ValueError` if the operation has no lock of its own."""
        if operation.lock is None:
            raise ValueError(
                "an operation of a ThreadedPurgatory must be a ThreadedDelayedOperation"
            )
        return super().try_complete_else_watch(operation, keys)
