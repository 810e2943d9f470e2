"""The worked examples of 001_710b6643b272b07c.txt: Kafka's timing wheel and its delayed operations.

Each test quotes the example by its numbers. The document counts buckets from 0 and levels from 1.
"""

from __future__ import annotations

import pytest

from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.timing import SystemTimer, TimingWheel
from odradek.timing.timer_task import TaskCounter
from odradek.timing.timing_wheel import DelayQueue
from seeds.wheel_places import WheelPlace, levels, place_of, started, wake_ups

# -- one wheel: tickMs = 1 ms, wheelSize = 20, interval = 20 ms ------------------------------------


def test_a_wheel_of_20_buckets_of_1_ms_spans_20_ms() -> None:
    wheel = SystemTimer(0).timing_wheel
    assert (wheel.tick_ms, wheel.wheel_size, wheel.interval_ms) == (1, 20, 20)
    assert wheel.current_time_ms == 0


def test_a_task_of_2_ms_goes_into_bucket_2_and_runs_when_the_hand_is_there() -> None:
    timer = SystemTimer(0)
    (task,) = started(timer, 2)
    assert place_of(timer, task) == WheelPlace(level=1, bucket=2, begins_ms=2, ends_ms=3)
    timer.advance_clock(1)
    assert task.ran_at_ms == []
    timer.advance_clock(2)
    assert task.ran_at_ms == [2]


def test_at_2_ms_a_task_of_8_ms_goes_into_bucket_10_and_one_of_19_ms_into_the_reused_bucket_1() -> (
    None
):
    timer = SystemTimer(0)
    earlier, _ = started(timer, 1, 2)
    bucket_1 = earlier.task_list
    timer.advance_clock(2)
    eight, nineteen = started(timer, 8, 19)
    assert place_of(timer, eight) == WheelPlace(1, 10, 10, 11)
    assert place_of(timer, nineteen) == WheelPlace(1, 1, 21, 22)
    assert nineteen.task_list is bucket_1, "the bucket that held the task of 1 ms"
    assert len(levels(timer)) == 1, "the span moves with the hand: no second level is needed"
    assert wake_ups(timer) == [10, 21]
    assert (eight.ran_at_ms, nineteen.ran_at_ms) == ([10], [21])


def test_the_wheel_always_takes_what_lies_between_the_hand_and_the_hand_plus_20_ms() -> None:
    timer = SystemTimer(0)
    for now_ms in (0, 2, 7, 20, 33):
        timer.advance_clock(now_ms)
        last, first_beyond = started(timer, 19, 20)
        assert place_of(timer, last) == WheelPlace(1, (now_ms + 19) % 20, now_ms + 19, now_ms + 20)
        beyond = place_of(timer, first_beyond)
        assert beyond is not None and beyond.level == 2


# -- levels ----------------------------------------------------------------------------------------


def test_the_second_level_ticks_by_20_ms_and_the_third_by_400_ms_of_20_buckets_each() -> None:
    timer = SystemTimer(0)
    started(timer, 450)
    shape = [(wheel.tick_ms, wheel.wheel_size, wheel.interval_ms) for wheel in levels(timer)]
    assert shape == [(1, 20, 20), (20, 20, 400), (400, 20, 8000)]


def test_a_task_of_350_ms_goes_into_bucket_17_of_the_second_level() -> None:
    timer = SystemTimer(0)
    (task,) = started(timer, 350)
    assert place_of(timer, task) == WheelPlace(2, 17, 340, 360)
    assert wake_ups(timer) == [340, 350]
    assert task.ran_at_ms == [350]


def test_tasks_of_446_450_455_and_473_ms_share_bucket_1_of_the_third_level_due_at_400_ms() -> None:
    timer = SystemTimer(0)
    tasks = started(timer, 446, 450, 455, 473)
    assert {place_of(timer, task) for task in tasks} == {WheelPlace(3, 1, 400, 800)}
    assert timer.next_deadline_ms() == 400


@pytest.mark.parametrize(
    ("delay_ms", "level_2", "level_1"),
    [
        # "50 ms are left: into [40 ms, 60 ms)", "10 ms are left: into [10 ms, 11 ms)": both counted
        # from the time of the descent, 400 ms and 440 ms. The others are by the same rule.
        (450, WheelPlace(2, 2, 440, 460), WheelPlace(1, 10, 450, 451)),
        (446, WheelPlace(2, 2, 440, 460), WheelPlace(1, 6, 446, 447)),
        (455, WheelPlace(2, 2, 440, 460), WheelPlace(1, 15, 455, 456)),
        (473, WheelPlace(2, 3, 460, 480), WheelPlace(1, 13, 473, 474)),
    ],
)
def test_a_task_of_400_to_800_ms_descends_at_400_ms_and_again_before_it_runs(
    delay_ms: int, level_2: WheelPlace, level_1: WheelPlace
) -> None:
    timer = SystemTimer(0)
    (task,) = started(timer, delay_ms)
    timer.advance_clock(399)
    assert place_of(timer, task) == WheelPlace(3, 1, 400, 800)
    timer.advance_clock(400)
    assert place_of(timer, task) == level_2
    timer.advance_clock(level_2.begins_ms)
    assert place_of(timer, task) == level_1
    timer.advance_clock(delay_ms - 1)
    assert task.ran_at_ms == []
    timer.advance_clock(delay_ms)
    assert task.ran_at_ms == [delay_ms]


def test_seconds_minutes_and_hours_are_three_levels_of_60_buckets() -> None:
    """A clock's third wheel has 12 buckets in the document. Buckets of all levels are equal in
    number here, as the document says of Kafka, so the third wheel spans 60 hours."""
    timer = SystemTimer(0, tick_ms=1000, wheel_size=60)
    (task,) = started(timer, 11 * 3_600_000 + 59 * 60_000 + 58_000)
    shape = [(wheel.tick_ms, wheel.interval_ms) for wheel in levels(timer)]
    minute, hour = 60_000, 3_600_000
    assert shape == [(1000, minute), (minute, hour), (hour, 60 * hour)]
    place = place_of(timer, task)
    assert place is not None and (place.level, place.bucket) == (3, 11)
    timer.advance_clock(11 * hour)
    place = place_of(timer, task)
    assert place is not None and (place.level, place.bucket) == (2, 59)
    timer.advance_clock(11 * hour + 59 * minute)
    place = place_of(timer, task)
    assert place is not None and (place.level, place.bucket) == (1, 58)


# -- details of the implementation -----------------------------------------------------------------


@pytest.mark.parametrize(("start_ms", "tick_ms", "hand_ms"), [(1234, 1, 1234), (1234, 20, 1220)])
def test_the_hand_starts_at_the_start_time_less_its_remainder_by_the_tick(
    start_ms: int, tick_ms: int, hand_ms: int
) -> None:
    wheel = TimingWheel(tick_ms, 20, start_ms, TaskCounter(), DelayQueue())
    assert wheel.current_time_ms == hand_ms == start_ms - start_ms % tick_ms


def test_each_hand_follows_the_time_by_the_same_formula() -> None:
    timer = SystemTimer(0)
    started(timer, 450)
    for now_ms in (1, 19, 20, 399, 400, 447, 449):
        timer.advance_clock(now_ms)
        hands = [wheel.current_time_ms for wheel in levels(timer)]
        assert hands == [now_ms, now_ms - now_ms % 20, now_ms - now_ms % 400]


def test_a_higher_level_starts_at_the_hand_of_the_lowest_when_it_is_made() -> None:
    timer = SystemTimer(1_000)
    timer.advance_clock(1_057)
    started(timer, 450)
    hands = [wheel.current_time_ms for wheel in levels(timer)]
    assert hands == [1_057, 1_040, 800]


def test_a_list_has_a_sentinel_that_holds_no_task() -> None:
    timer = SystemTimer(0)
    bucket = timer.timing_wheel.buckets[5]
    assert bucket.is_empty and bucket.root.next is bucket.root and bucket.root.prev is bucket.root
    first, second = started(timer, 5, 5)
    assert bucket.root.next is first and first.next is second and second.next is bucket.root
    assert timer.size == 2, "the sentinel is not counted"


# -- what moves the hand ---------------------------------------------------------------------------


def test_tasks_of_200_and_840_ms_wake_the_timer_at_200_and_840_and_to_descend_at_800() -> None:
    """The document says that advancing "each second" would take 200 advances to 200 ms, 199 of them
    empty, and 639 empty ones more to 840 ms. By these figures it means each millisecond."""
    timer = SystemTimer(0)
    first, second = started(timer, 200, 840)
    assert place_of(timer, first) == WheelPlace(2, 10, 200, 220)
    assert place_of(timer, second) == WheelPlace(3, 2, 800, 1200)
    assert wake_ups(timer) == [200, 800, 840]
    assert (first.ran_at_ms, second.ran_at_ms) == ([200], [840])
    empty_advances = (200 - 1) + (840 - 200 - 1)
    assert empty_advances == 199 + 639


def test_a_bucket_is_queued_once_however_many_tasks_it_gets() -> None:
    timer = SystemTimer(0)
    started(timer, *[446, 450, 455, 473] * 100)
    assert timer.size == 400
    assert len(timer.delay_queue) == 1


# -- delayed operations: the settings that the document names --------------------------------------


def test_fetch_min_bytes_is_1_and_request_timeout_ms_30000_by_default() -> None:
    assert ConsumerConfig.declared["fetch.min.bytes"].default == 1
    assert ProducerConfig.declared["request.timeout.ms"].default == 30_000
