"""TimerTask and TimerTaskList: tasks with a deadline, and the buckets of wheels that hold them.

    TimerTaskList --- ring: root (a sentinel) <-> TimerTaskEntry <-> TimerTaskEntry <-> root
                                                       |
                                                  TimerTask: the function and its delay

In Kafka every add makes a TimerTaskEntry that points to its TimerTask and back. Here the task is
its own entry, by inheritance: starting a timer allocates nothing, a task cannot be in two places,
and a finished task is freed at once, without the garbage collector.

Invariants
- An entry is linked in one list (`task_list`), or due (`is_due`) and waiting for its timer to run
  it, or not scheduled. Adding it again moves it.
- The `count` of a list, of its counter, and of an entry's own, is the number of entries linked.

There are no locks: the owner is one thread, or `threaded` adds them. `timing_wheel` describes the
expiration of buckets.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from odradek.timing.timing_wheel import TimingWheel

MAX_DELAY_MS: Final = 2**56
"""Longer delays are cut to this (2.3 million years), so that deadlines fit a machine word."""

NOT_QUEUED: Final = -1


class TaskCounter:
    """Counts linked tasks: one for all wheels of a timer, and one for each kind of task on it."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.expired: i64 = 0
        """The number of delayed operations among them whose deadline has passed so far."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTaskEntry:
    """An element of a list's ring, with a deadline. The plain class is the ring's sentinel.

    While linked, the entry is counted by the timer's counter and, if set, by `task_counter`.
    """

    def __init__(self) -> None:
        self.expiration_ms: i64 = NOT_QUEUED
        self.is_due = False
        self.task_list: TimerTaskList | None = None
        self.prev: TimerTaskEntry | None = None
        self.next: TimerTaskEntry | None = None
        self.task_counter: TaskCounter | None = None

    @property
    def is_scheduled(self) -> bool:
        """True from `add` until the entry is cancelled or run."""
        return self.is_due or self.task_list is not None

    def remove(self) -> None:
        """Unlink the entry from its list, if it is in one."""
        if self.task_list is not None:
            self.task_list.remove(self)

    def run(self) -> None:
        """Called once, at or after the deadline, unless cancelled before."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTask(TimerTaskEntry):
    """A task to run `delay_ms` after it is added to a timer. Subclasses override `run`.

    `guard`, if set, is the lock of the timer that holds the task (see `threaded`).
    """

    def __init__(self, delay_ms: int) -> None:
        super().__init__()
        self.delay_ms: i64 = max(0, min(delay_ms, MAX_DELAY_MS))
        self.guard: AbstractContextManager[object] | None = None

    @final
    def cancel(self) -> bool:
        """Cancel the task, in constant time. True if that prevented it from running."""
        return cancel(self)


# Functions, because compiled code calls them directly. A method of a class that interpreted code
# may extend is looked up by name at every call, even if it is final.


def cancel(task: TimerTask) -> bool:
    """`task.cancel()` as a function."""
    if task.guard is None:
        return unschedule(task)
    with task.guard:
        return unschedule(task)


def unschedule(entry: TimerTaskEntry) -> bool:
    """Unlink the entry, or drop it if it is due. True if that prevents it from running."""
    task_list = entry.task_list
    if task_list is not None:
        task_list.remove(entry)
        return True
    return claim(entry)


def claim(entry: TimerTaskEntry) -> bool:
    """Take a due entry out for running. True once, and False if it was unscheduled or moved."""
    was_due = entry.is_due
    entry.is_due = False
    return was_due


class TimerTaskList:
    """A bucket: a doubly linked ring of entries in order of arrival, closed by a sentinel."""

    def __init__(self, task_counter: TaskCounter, tick_ms: i64) -> None:
        self.task_counter = task_counter
        self.tick_ms: i64 = tick_ms
        self.count: i64 = 0
        self.expiration_ms: i64 = NOT_QUEUED
        self.root = TimerTaskEntry()
        self.root.prev = self.root
        self.root.next = self.root

    @property
    def is_empty(self) -> bool:
        return self.root.next is self.root

    def set_expiration(self, expiration_ms: i64) -> bool:
        """Set the expiration. True if it changed: the bucket starts a round and must be queued."""
        if self.expiration_ms == expiration_ms:
            return False
        self.expiration_ms = expiration_ms
        return True

    def add(self, entry: TimerTaskEntry) -> None:
        """Link the entry at the end, and unlink it from its present list."""
        if entry.task_list is not None:
            entry.task_list.remove(entry)
        root = self.root
        tail = root.prev
        assert tail is not None
        entry.task_list = self
        entry.prev = tail
        entry.next = root
        tail.next = entry
        root.prev = entry
        self._count(entry, 1)

    def remove(self, entry: TimerTaskEntry) -> None:
        """Unlink the entry; no effect if it is in another list by now, or in none."""
        if entry.task_list is not self:
            return
        before = entry.prev
        after = entry.next
        assert before is not None
        assert after is not None
        before.next = after
        after.prev = before
        entry.prev = None
        entry.next = None
        entry.task_list = None
        self._count(entry, -1)

    def _count(self, entry: TimerTaskEntry, change: i64) -> None:
        self.count += change
        self.task_counter.count += change
        counter = entry.task_counter
        if counter is not None:
            counter.count += change

    def flush(self, wheel: TimingWheel, due: list[TimerTaskEntry]) -> None:
        """End the round: move every entry down `wheel`, or to `due` if its deadline has passed."""
        root = self.root
        entry = root.next
        root.next = root
        root.prev = root
        # The whole ring is detached first: relinking it for every entry would touch each twice.
        while entry is not None and entry is not root:
            following = entry.next
            entry.task_list = None
            self._count(entry, -1)
            if not wheel.add(entry):
                entry.prev = None
                entry.next = None
                entry.is_due = True
                due.append(entry)
            entry = following
        self.expiration_ms = NOT_QUEUED

    def clear(self) -> None:
        """Unlink every entry."""
        root = self.root
        entry = root.next
        while entry is not None and entry is not root:
            self.remove(entry)
            entry = root.next
        self.expiration_ms = NOT_QUEUED
