"""TimingWheel, TimerTaskList, TimerTaskEntry and DelayQueue on their own."""

from __future__ import annotations

import gc
import weakref

import pytest

from odradek.timing import TimerTask, TimerTaskList, TimingWheel
from odradek.timing.timer_task import MAX_DELAY_MS, NOT_QUEUED, TaskCounter, TimerTaskEntry
from odradek.timing.timing_wheel import DelayQueue


def wheel_at(start_ms: int, tick_ms: int = 1, wheel_size: int = 20) -> TimingWheel:
    return TimingWheel(tick_ms, wheel_size, start_ms, TaskCounter(), DelayQueue())


def task_for(expiration_ms: int) -> TimerTask:
    task = TimerTask(0)
    task.expiration_ms = expiration_ms
    return task


def tasks_in(bucket: TimerTaskList) -> list[TimerTaskEntry]:
    found, entry = [], bucket.root.next
    while entry is not bucket.root:
        assert entry is not None
        assert entry.next is not None
        assert entry.next.prev is entry
        found.append(entry)
        entry = entry.next
    return found


def test_a_task_goes_into_the_bucket_of_its_expiration() -> None:
    wheel = wheel_at(0)
    task = task_for(7)
    assert wheel.add(task)
    assert task.task_list is wheel.buckets[7]
    assert wheel.buckets[7].expiration_ms == 7


def test_the_hand_starts_at_a_multiple_of_the_tick() -> None:
    assert wheel_at(1234, tick_ms=100).current_time_ms == 1200


def test_a_task_within_the_current_tick_has_expired() -> None:
    wheel = wheel_at(1234, tick_ms=100)
    task = task_for(1299)
    assert not wheel.add(task)
    assert task.task_list is None
    assert wheel.add(task_for(1300))


def test_a_passed_bucket_is_reused_for_the_next_revolution() -> None:
    wheel = wheel_at(0)
    wheel.advance_clock(2)
    task = task_for(21)
    assert wheel.add(task)
    assert task.task_list is wheel.buckets[1]
    assert wheel.buckets[1].expiration_ms == 21
    assert wheel.overflow_wheel is None


def test_overflow_wheels_are_made_on_demand_with_the_interval_below_as_tick() -> None:
    wheel = wheel_at(0)
    wheel.add(task_for(19))
    assert wheel.overflow_wheel is None
    revolution = task_for(20)
    wheel.add(revolution)
    assert wheel.overflow_wheel is not None
    assert revolution.task_list is wheel.overflow_wheel.buckets[1]
    task = task_for(445)
    wheel.add(task)
    second = wheel.overflow_wheel
    assert second is not None
    assert (second.tick_ms, second.interval_ms) == (20, 400)
    third = second.overflow_wheel
    assert third is not None
    assert (third.tick_ms, third.interval_ms) == (400, 8000)
    assert third.overflow_wheel is None
    assert task.task_list is third.buckets[1]
    assert third.buckets[1].expiration_ms == 400


def test_an_overflow_wheel_starts_where_the_hand_below_is() -> None:
    wheel = wheel_at(0)
    wheel.advance_clock(57)
    wheel.add(task_for(100))
    assert wheel.overflow_wheel is not None
    assert wheel.overflow_wheel.current_time_ms == 40


def test_advancing_moves_the_hands_above_by_whole_ticks() -> None:
    wheel = wheel_at(0)
    wheel.add(task_for(445))
    wheel.advance_clock(439)
    second = wheel.overflow_wheel
    assert second is not None
    assert second.overflow_wheel is not None
    hands = [wheel.current_time_ms, second.current_time_ms, second.overflow_wheel.current_time_ms]
    assert hands == [439, 420, 400]


def test_a_wheel_with_a_tick_of_0_or_1_bucket_is_refused() -> None:
    with pytest.raises(ValueError, match="a timing wheel needs"):
        wheel_at(0, tick_ms=0)
    with pytest.raises(ValueError, match="a timing wheel needs"):
        wheel_at(0, wheel_size=1)


def test_the_expiration_is_set_once_per_round_and_the_bucket_queued_once() -> None:
    wheel = wheel_at(0, tick_ms=10)
    bucket = wheel.buckets[3]
    for expiration_ms in (35, 30, 39):
        task = task_for(expiration_ms)
        wheel.add(task)
        assert bucket.expiration_ms == 30
        task.cancel()  # The empty bucket stays queued for this round.
        wheel.add(task)
        assert len(wheel.queue) == 1
    assert wheel.queue.poll(1000) is bucket
    assert wheel.queue.poll(1000) is None


def test_flushing_ends_the_round_and_moves_entries_down_or_to_due() -> None:
    wheel = wheel_at(0)
    now, later = task_for(40), task_for(47)
    wheel.add(now)
    wheel.add(later)
    bucket = wheel.queue.poll(40)
    assert bucket is not None
    assert tasks_in(bucket) == [now, later]
    wheel.advance_clock(40)
    due: list[TimerTaskEntry] = []
    bucket.flush(wheel, due)
    assert due == [now]
    assert now.is_due
    assert later.task_list is wheel.buckets[7]
    assert bucket.is_empty
    assert bucket.expiration_ms == NOT_QUEUED


def test_a_list_keeps_the_order_of_arrival_and_can_remove_any_entry() -> None:
    counter = TaskCounter()
    bucket = TimerTaskList(counter, 1)
    entries = [TimerTaskEntry() for _ in range(5)]
    for entry in entries:
        bucket.add(entry)
    bucket.remove(entries[0])
    bucket.remove(entries[2])
    bucket.remove(entries[4])
    assert tasks_in(bucket) == [entries[1], entries[3]]
    assert counter.count == 2


def test_removing_an_entry_that_is_in_another_list_has_no_effect() -> None:
    first, second = TimerTaskList(TaskCounter(), 1), TimerTaskList(TaskCounter(), 1)
    entry = TimerTaskEntry()
    first.add(entry)
    second.add(entry)  # Moves it to another list.
    assert (first.task_counter.count, second.task_counter.count) == (0, 1)
    first.remove(entry)
    assert tasks_in(second) == [entry]
    entry.remove()
    entry.remove()
    assert tasks_in(second) == []
    assert second.task_counter.count == 0


def test_an_entrys_own_counter_counts_only_its_entries() -> None:
    bucket, own = TimerTaskList(TaskCounter(), 1), TaskCounter()
    mine, other = TimerTaskEntry(), TimerTaskEntry()
    mine.task_counter = own
    bucket.add(mine)
    bucket.add(other)
    assert (bucket.task_counter.count, own.count) == (2, 1)
    bucket.clear()
    assert (bucket.task_counter.count, own.count) == (0, 0)


def test_the_queue_orders_buckets_by_expiration_and_on_a_tie_the_higher_level_first() -> None:
    queue = DelayQueue()
    buckets = []
    for expiration_ms, tick_ms in ((420, 20), (400, 1), (400, 400), (400, 20)):
        bucket = TimerTaskList(TaskCounter(), tick_ms)
        bucket.add(TimerTaskEntry())
        assert bucket.set_expiration(expiration_ms)
        queue.offer(bucket)
        buckets.append(bucket)
    polled = []
    while (bucket := queue.poll(10**6)) is not None:  # type: ignore[assignment]
        polled.append((bucket.expiration_ms, bucket.tick_ms))
    assert polled == [(400, 400), (400, 20), (400, 1), (420, 20)]


def test_a_bucket_emptied_by_cancelling_leaves_the_queue_and_may_return() -> None:
    wheel = wheel_at(0)
    task, other = task_for(5), task_for(9)
    wheel.add(task)
    wheel.add(other)
    task.cancel()
    assert wheel.queue.peek() is wheel.buckets[9]
    assert wheel.buckets[5].expiration_ms == NOT_QUEUED
    wheel.add(task)
    assert wheel.queue.peek() is wheel.buckets[5]


def test_a_delay_beyond_the_maximum_is_cut() -> None:
    assert TimerTask(10**30).delay_ms == MAX_DELAY_MS
    assert TimerTask(-5).delay_ms == 0
    wheel = wheel_at(2**42)
    assert wheel.add(task_for(2**42 + MAX_DELAY_MS))


def test_a_finished_task_is_freed_without_the_garbage_collector() -> None:
    class Held(TimerTask):
        pass

    wheel = wheel_at(0)
    gc.disable()
    try:
        task = Held(0)
        task.expiration_ms = 15
        alive = weakref.ref(task)
        wheel.add(task)
        task.cancel()
        del task
        assert alive() is None
    finally:
        gc.enable()


def test_a_bucket_counts_its_tasks_through_adds_removals_and_flushes() -> None:
    wheel = wheel_at(0)
    bucket = wheel.buckets[7]
    first, second = task_for(7), task_for(7)
    assert wheel.add(first) and wheel.add(second)
    assert bucket.count == len(tasks_in(bucket)) == 2
    first.cancel()
    assert bucket.count == len(tasks_in(bucket)) == 1
    due: list[TimerTaskEntry] = []
    wheel.advance_clock(7)
    bucket.flush(wheel, due)
    assert (bucket.count, due) == (0, [second])
