"""The pace of the replay, on a simulated clock."""

import threading

import pytest

from odradek.demo.flights import Event
from odradek.demo.replay import Pace, due_events

HOUR_MS = 3_600_000


class SimulatedTime(threading.Event):
    """A clock that advances only when the replay waits, and the stop event."""

    def __init__(self, stops_at=None):
        super().__init__()
        self.seconds = 100.0
        self.stops_at = stops_at
        self.waited = []

    def now(self):
        return self.seconds

    def wait(self, timeout=None):
        self.waited.append(timeout)
        self.seconds += timeout
        if self.stops_at is not None and self.seconds >= self.stops_at:
            self.seconds = self.stops_at
            self.set()
        return self.is_set()


def events(*hours):
    first_ms = 1_357_034_400_000
    return [Event(first_ms + int(hour * HOUR_MS), "UA", b"%g" % hour) for hour in hours]


@pytest.mark.parametrize(("hours_per_second", "hour", "seconds"), [(24, 24, 1), (0.5, 1, 2)])
def test_hours_per_second_scale_the_due_time(hours_per_second, hour, seconds):
    first, later = events(0, hour)
    assert Pace(hours_per_second).due(later.reported_ms, first.reported_ms) == seconds


def test_each_event_is_due_at_its_time():
    time = SimulatedTime()
    left = [
        (event.value, time.seconds)
        for event in due_events(events(3, 3, 5, 10), Pace(2), time, time.now)
    ]
    assert left == [(b"3", 100), (b"3", 100), (b"5", 101), (b"10", 103.5)]
    assert time.waited == [1, 2.5]


def test_late_events_are_sent_without_waiting():
    time = SimulatedTime()
    left = []
    for event in due_events(events(0, 1, 2, 10), Pace(1), time, time.now):
        left.append((event.value, time.seconds))
        if event.value == b"0":
            time.seconds += 5  # the producer's buffer was full
    assert left == [(b"0", 100), (b"1", 105), (b"2", 105), (b"10", 110)]


def test_no_event_is_sent_after_a_stop():
    time = SimulatedTime(stops_at=101.5)
    left = [event.value for event in due_events(events(0, 1, 2, 3), Pace(1), time, time.now)]
    assert left == [b"0", b"1"]


def test_without_a_pace_events_are_sent_at_once_until_a_stop():
    time = SimulatedTime()
    left = []
    for event in due_events(events(0, 1, 2, 3), None, time, time.now):
        left.append(event.value)
        if event.value == b"1":
            time.set()
    assert left == [b"0", b"1"]
    assert time.waited == []
