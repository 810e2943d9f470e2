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

    TimingWheel --- 20 x TimerTaskList --- ring of TimerTaskEntry (see `timer_task`)
         |                  ^
    overflow wheel     DelayQueue, by expiration

Invariants
- A bucket is in the queue exactly while its `expiration_ms` is not -1. The expiration is set by
  the first task of a round and cleared when the bucket is flushed (or leaves the queue because
  cancelling emptied it).
- Buckets of one level that are queued have different expirations, all later than the hand: a
  bucket is never shared by two rounds.

With `tick_ms` above 1 a task may run up to one tick before its deadline (it counts as expired as
soon as it is within the current tick), as in Kafka. No locks here: one owner, or the wrapper in
`threaded`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64

from odradek.timing.timer_task import NOT_QUEUED, TaskCounter, TimerTaskEntry, TimerTaskList

MAX_DEADLINE_MS: Final = 2**57


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
