"""TimingWheel: a hierarchical timing wheel, O(1) to start a timer and to cancel it.

A wheel is a circle of `wheel_size` buckets of `tick_ms` each. Its hand, `current_time_ms`, is a
multiple of the tick. A task goes into the bucket of its expiration if that is within one revolution
of the hand (`interval_ms`); else into the overflow wheel, whose tick is one revolution of this
wheel and which is made when it is first needed:

    level   tick     interval       a task 445 ms away is added at level 3, bucket [400, 800)
    1       1 ms       20 ms        at 400 ms it has 45 ms left:  down to level 2, bucket [440, 460)
    2      20 ms      400 ms        at 440 ms it has  5 ms left:  down to level 1, bucket [445, 446)
    3     400 ms        8 s         at 445 ms it runs
    4       8 s       160 s

Nothing ticks. The `DelayQueue` orders the non-empty buckets by expiration, and the timer advances
from one to the next: a queue of a few dozen buckets, not of all tasks, and no empty ticks.

    TimingWheel --- 20 x TimerTaskList --- ring of TimerTaskEntry (see `timer_task`)
         |                  ^
    overflow wheel     DelayQueue, by expiration

Invariants
- A bucket is in the queue exactly while its `expiration_ms` is not -1. The first task of a round
  sets the expiration; it is cleared when the bucket is flushed, or leaves the queue because
  cancelling emptied it.
- The queued buckets of one level have different expirations, all later than the hand: two rounds
  never share a bucket.

With `tick_ms` above 1 a task may run up to one tick before its deadline, as in Kafka: it expires
with the current tick. There are no locks: the owner is one thread, or `threaded` adds them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64

from odradek.timing.timer_task import NOT_QUEUED, TaskCounter, TimerTaskEntry, TimerTaskList

MAX_DEADLINE_MS: Final = 2**57


class DelayQueue:
    """The buckets with an expiration, earliest first.

    Of equal ones the higher level comes first, so that its tasks move down in time.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerTaskList]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def offer(self, bucket: TimerTaskList) -> None:
        heappush(self._heap, (bucket.expiration_ms, -bucket.tick_ms, bucket))

    def peek(self) -> TimerTaskList | None:
        """Return the earliest bucket with a task; empty ones before it are removed."""
        heap = self._heap
        while heap:
            bucket = heap[0][2]
            if not bucket.is_empty:
                return bucket
            heappop(heap)
            bucket.expiration_ms = NOT_QUEUED
        return None

    def poll(self, now_ms: i64) -> TimerTaskList | None:
        """Remove and return the earliest bucket, if it has expired."""
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
    """One level of the hierarchy, and through `overflow_wheel` the levels above it."""

    def __init__(
        self,
        tick_ms: int,
        wheel_size: int,
        start_ms: int,
        task_counter: TaskCounter,
        queue: DelayQueue,
    ) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(
                f"a timing wheel needs a tick of at least 1 ms and at least 2 buckets, "
                f"not {tick_ms} ms and {wheel_size}"
            )
        self.tick_ms: i64 = tick_ms
        self.wheel_size: i64 = wheel_size
        # Limited so that hand + interval fits a machine word; the topmost wheel then takes all
        # later deadlines.
        self.interval_ms: i64 = min(tick_ms * wheel_size, 2 * MAX_DEADLINE_MS)
        self.current_time_ms: i64 = start_ms - start_ms % tick_ms
        self.task_counter = task_counter
        self.queue = queue
        self.overflow_wheel: TimingWheel | None = None
        self.buckets = [TimerTaskList(task_counter, tick_ms) for _ in range(wheel_size)]

    def add(self, entry: TimerTaskEntry) -> bool:
        """Put the entry into the bucket of its deadline. False, without effect, if that passed."""
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
        """Add the next level. Its tick is this wheel's interval, its hand starts at this one's."""
        self.overflow_wheel = TimingWheel(
            self.interval_ms, self.wheel_size, self.current_time_ms, self.task_counter, self.queue
        )

    def advance_clock(self, time_ms: i64) -> None:
        """Move the hands of this level and those above.

        Buckets that expire by `time_ms` must have left the queue.
        """
        if time_ms >= self.current_time_ms + self.tick_ms:
            self.current_time_ms = time_ms - time_ms % self.tick_ms
            if self.overflow_wheel is not None:
                self.overflow_wheel.advance_clock(self.current_time_ms)
