"""A timer whose tasks record when they run, and where each task is on the wheels."""

from __future__ import annotations

from typing import NamedTuple

from odradek.timing import SystemTimer, TimerTask, TimingWheel


class WheelPlace(NamedTuple):
    """Level counted from 1 and bucket counted from 0, as the documents mostly do."""

    level: int
    bucket: int
    begins_ms: int
    ends_ms: int


class RecordingTask(TimerTask):
    """Appends the time to `ran_at_ms` when it runs."""

    def __init__(self, timer: SystemTimer, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.timer = timer
        self.ran_at_ms: list[int] = []

    def run(self) -> None:
        self.ran_at_ms.append(self.timer.now_ms)


def started(timer: SystemTimer, *delays_ms: int) -> list[RecordingTask]:
    tasks = [RecordingTask(timer, delay_ms) for delay_ms in delays_ms]
    for task in tasks:
        timer.add(task)
    return tasks


def place_of(timer: SystemTimer, task: TimerTask) -> WheelPlace | None:
    """The bucket that holds the task; None if the task is on no wheel."""
    level, wheel = 1, timer.timing_wheel
    while True:
        for number, bucket in enumerate(wheel.buckets):
            if task.task_list is bucket:
                begins_ms = bucket.expiration_ms
                return WheelPlace(level, number, begins_ms, begins_ms + wheel.tick_ms)
        if wheel.overflow_wheel is None:
            return None
        level, wheel = level + 1, wheel.overflow_wheel


def levels(timer: SystemTimer) -> list[TimingWheel]:
    """The wheels that exist, lowest first."""
    found = [timer.timing_wheel]
    while (above := found[-1].overflow_wheel) is not None:
        found.append(above)
    return found


def wake_ups(timer: SystemTimer) -> list[int]:
    """Drive the timer until nothing is pending, as an owner loop that sleeps exactly does."""
    woken_at_ms = []
    while (deadline_ms := timer.next_deadline_ms()) is not None:
        timer.advance_clock(deadline_ms)
        woken_at_ms.append(deadline_ms)
    return woken_at_ms
