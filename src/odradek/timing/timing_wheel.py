"""The hierarchical timing wheel: O(1) to start a timer and to cancel it, whatever is pending.

A wheel is a circle of `wheel_size` buckets, each standing for `tick_ms` of time;
`current_time_ms`, a multiple of the tick, is its hand. A task goes into the bucket of its
expiration, if that lies within one turn of the hand; else into the overflow wheel, whose tick is
one whole turn of this one, made the first time it is needed:

    level   tick     one turn       a task 445 ms away goes in at level 3, bucket [400, 800)
    1       1 ms       20 ms        at 400 ms it has 45 ms left:  down to level 2, bucket [440, 460)
    2      20 ms      400 ms        at 440 ms it has  5 ms left:  down to level 1, bucket [445, 446)
    3     400 ms        8 s         at 445 ms it runs
    4       8 s       160 s

Nothing ticks. The `DelayQueue` orders the buckets that hold something by expiration, and whoever
drives the wheel goes from one to the next: a queue of a few dozen buckets, not of all the tasks,
and no empty ticks.

    TimingWheel --- 20 x TimerTaskList --- ring of TimerTaskEntry (each the base of a TimerTask)
         |                  ^
    overflow wheel     DelayQueue, by expiration

In Kafka every add makes a TimerTaskEntry that points to its TimerTask and back. Here the task is
its own entry (by inheritance): starting a timer allocates nothing, a task cannot be in two places,
and what is finished is freed at once, without the garbage collector.

Invariants
- A bucket is in the queue exactly while its `expiration_ms` is not -1. The expiration is set by
  the first task of a round and cleared when the bucket is flushed (or leaves the queue because
  cancelling emptied it).
- Buckets of one level that are queued have different expirations, all later than the hand: a
  bucket is never shared by two rounds.
- An entry is linked in one list (`task_list`), or `is_due` and waiting for its timer to run it, or
  not scheduled; adding it again moves it.

With `tick_ms` above 1 a task may run up to one tick before its deadline (it counts as expired as
soon as it is within the current tick), as in Kafka. No locks here: one owner, or the wrapper in
`threaded`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

MAX_DELAY_MS: Final = 2**56
"""Longer delays are cut to this (2.3 million years): deadlines fit a machine word on any level."""

MAX_DEADLINE_MS: Final = 2**57

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


class DelayQueue:
    """The buckets with an expiration, earliest first; on a tie the higher level, to flow down."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerTaskList]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def offer(self, bucket: TimerTaskList) -> None:
        heappush(self._heap, (bucket.expiration_ms, -bucket.tick_ms, bucket))

    def peek(self) -> TimerTaskList | None:
        """The earliest bucket that holds a task; emptied ones leave the queue on the way."""
        heap = self._heap
        while heap:
            bucket = heap[0][2]
            if not bucket.is_empty:
                return bucket
            heappop(heap)
            bucket.expiration_ms = NOT_QUEUED
        return None

    def poll(self, now_ms: i64) -> TimerTaskList | None:
        """Take out the earliest bucket, if it has expired."""
        bucket = self.peek()
        if bucket is None or bucket.expiration_ms > now_ms:
            return None
        heappop(self._heap)
        return bucket

    def clear(self) -> None:
        """Unlink every entry in every bucket."""
        for _, _, bucket in self._heap:
            bucket.clear()
        self._heap.clear()


class TimingWheel:
    """One level of the hierarchy, and through `overflow_wheel` all above it."""

    def __init__(
        self,
        tick_ms: int,
        wheel_size: int,
        start_ms: int,
        task_counter: TaskCounter,
        queue: DelayQueue,
    ) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"a wheel of {wheel_size} buckets of {tick_ms} ms does not turn")
        self.tick_ms: i64 = tick_ms
        self.wheel_size: i64 = wheel_size
        # Cut so that hand + interval fits a machine word: the topmost wheel then takes all that
        # is left.
        self.interval_ms: i64 = min(tick_ms * wheel_size, 2 * MAX_DEADLINE_MS)
        self.current_time_ms: i64 = start_ms - start_ms % tick_ms
        self.task_counter = task_counter
        self.queue = queue
        self.overflow_wheel: TimingWheel | None = None
        self.buckets = [TimerTaskList(task_counter, tick_ms) for _ in range(wheel_size)]

    def add(self, entry: TimerTaskEntry) -> bool:
        """Put the entry into the bucket of its deadline. False, nothing done, if that passed."""
        expiration_ms = entry.expiration_ms
        if expiration_ms < self.current_time_ms + self.tick_ms:
            return False
        if expiration_ms >= self.current_time_ms + self.interval_ms:
            if self.overflow_wheel is None:
                self.add_overflow_wheel()
            assert self.overflow_wheel is not None
            return self.overflow_wheel.add(entry)
        virtual_id = expiration_ms // self.tick_ms
        bucket = self.buckets[virtual_id % self.wheel_size]
        bucket.add(entry)
        if bucket.set_expiration(virtual_id * self.tick_ms):
            self.queue.offer(bucket)
        return True

    def add_overflow_wheel(self) -> None:
        """Begin the next level:

        its tick is one turn of this wheel, its hand starts where this one's is.
        """
        self.overflow_wheel = TimingWheel(
            self.interval_ms, self.wheel_size, self.current_time_ms, self.task_counter, self.queue
        )

    def advance_clock(self, time_ms: i64) -> None:
        """Move the hand, and the hands above.

        Buckets that expire by `time_ms` must have left the queue.
        """
        if time_ms >= self.current_time_ms + self.tick_ms:
            self.current_time_ms = time_ms - time_ms % self.tick_ms
            if self.overflow_wheel is not None:
                self.overflow_wheel.advance_clock(self.current_time_ms)
