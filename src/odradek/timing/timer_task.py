"""What a wheel's buckets hold: tasks with a deadline, linked in rings.

    TimerTaskList --- ring: root (a sentinel) <-> TimerTaskEntry <-> TimerTaskEntry <-> root
                                                       |
                                                  TimerTask: what to run, and after how long

In Kafka every add makes a TimerTaskEntry that points to its TimerTask and back. Here the task is
its own entry (by inheritance): starting a timer allocates nothing, a task cannot be in two places,
and what is finished is freed at once, without the garbage collector.

Invariants
- An entry is linked in one list (`task_list`), or `is_due` and waiting for its timer to run it, or
  not scheduled; adding it again moves it.
- The `count` of a list's counter, and of an entry's own, is the number of entries linked.

No locks here: one owner, or the wrapper in `threaded`. What a bucket's expiration means is the
wheel's (see `timing_wheel`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from odradek.timing.timing_wheel import TimingWheel

MAX_DELAY_MS: Final = 2**56
"""Longer delays are cut to this (2.3 million years): deadlines fit a machine word on any level."""

NOT_QUEUED: Final = -1


class TaskCounter:
    """How many tasks are linked:

    one for all the wheels of a timer, one for each purgatory on it.
    """

    def __init__(self) -> None:
        self.count: i64 = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTaskEntry:
    """What a list links: a place in the ring and a deadline. By itself it is a ring's sentinel.

    `task_counter`, if set, counts the entry besides the timer's own counter while it is linked.
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
        """True from `add` until it is cancelled or run."""
        return self.is_due or self.task_list is not None

    def remove(self) -> None:
        """Leave the list that holds this entry, whichever it is."""
        if self.task_list is not None:
            self.task_list.remove(self)

    def run(self) -> None:
        """Called once, at or after the deadline, unless cancelled before."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTask(TimerTaskEntry):
    """Something to run `delay_ms` after it is added to a timer: subclass it and override `run`.

    `guard`, if set, is the lock of the timer that holds the task (see `threaded`).
    """

    def __init__(self, delay_ms: int) -> None:
        super().__init__()
        self.delay_ms: i64 = max(0, min(delay_ms, MAX_DELAY_MS))
        self.guard: AbstractContextManager[object] | None = None

    @final
    def cancel(self) -> bool:
        """Take the task off its timer, in constant time. True if that kept it from running."""
        return cancel(self)


# Functions, because compiled code calls them directly, while a method of a class that interpreted
# code may extend is looked up by name at every call, even if it is final.


def cancel(task: TimerTask) -> bool:
    """What `task.cancel()` does."""
    if task.guard is None:
        return unschedule(task)
    with task.guard:
        return unschedule(task)


def unschedule(entry: TimerTaskEntry) -> bool:
    """Take it out of its list, or out of turn if it is due. True if that keeps it from running."""
    task_list = entry.task_list
    if task_list is not None:
        task_list.remove(entry)
        return True
    return claim(entry)


def claim(entry: TimerTaskEntry) -> bool:
    """Take a due entry out for running. True once, and not if it was unscheduled or moved."""
    was_due = entry.is_due
    entry.is_due = False
    return was_due


class TimerTaskList:
    """A bucket:

    a doubly linked ring of entries in order of arrival, closed by a sentinel that carries no
    task.
    """

    def __init__(self, task_counter: TaskCounter, tick_ms: i64) -> None:
        self.task_counter = task_counter
        self.tick_ms: i64 = tick_ms
        self.expiration_ms: i64 = NOT_QUEUED
        self.root = TimerTaskEntry()
        self.root.prev = self.root
        self.root.next = self.root

    @property
    def is_empty(self) -> bool:
        return self.root.next is self.root

    def set_expiration(self, expiration_ms: i64) -> bool:
        """True if that changed it: the bucket begins a new round and has to be queued."""
        if self.expiration_ms == expiration_ms:
            return False
        self.expiration_ms = expiration_ms
        return True

    def add(self, entry: TimerTaskEntry) -> None:
        """Link the entry at the end, taking it from the list it may be in."""
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
        """Unlink the entry; nothing happens if another list holds it by now, or none."""
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
        self.task_counter.count += change
        counter = entry.task_counter
        if counter is not None:
            counter.count += change

    def flush(self, wheel: TimingWheel, due: list[TimerTaskEntry]) -> None:
        """End the round: every entry moves down `wheel`, or to `due` if its time has come."""
        root = self.root
        entry = root.next
        root.next = root
        root.prev = root
        # The ring is taken off as a whole: mending it after every entry would touch each one twice.
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
