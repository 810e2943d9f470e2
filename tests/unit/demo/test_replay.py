"""The pace of the replay, on a simulated clock, and flights that are sent together."""

import threading
from typing import Any

import pytest

from odradek.client.errors import KafkaError
from odradek.demo import replay
from odradek.demo.flights import FlightEvent
from odradek.demo.replay import ReplaySpeed, due_events

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
    return [FlightEvent(first_ms + int(hour * HOUR_MS), "UA", b"%g" % hour) for hour in hours]


@pytest.mark.parametrize(("hours_per_second", "hour", "seconds"), [(24, 24, 1), (0.5, 1, 2)])
def test_hours_per_second_scale_the_due_time(hours_per_second, hour, seconds):
    first, later = events(0, hour)
    assert ReplaySpeed(hours_per_second).due(later.reported_ms, first.reported_ms) == seconds


def test_each_event_is_due_at_its_time():
    time = SimulatedTime()
    left = [
        (event.value, time.seconds)
        for event in due_events(events(3, 3, 5, 10), ReplaySpeed(2), time, time.now)
    ]
    assert left == [(b"3", 100), (b"3", 100), (b"5", 101), (b"10", 103.5)]
    assert time.waited == [1, 2.5]


def test_late_events_are_sent_without_waiting():
    time = SimulatedTime()
    left = []
    for event in due_events(events(0, 1, 2, 10), ReplaySpeed(1), time, time.now):
        left.append((event.value, time.seconds))
        if event.value == b"0":
            time.seconds += 5  # the producer's buffer was full
    assert left == [(b"0", 100), (b"1", 105), (b"2", 105), (b"10", 110)]


def test_no_event_is_sent_after_a_stop():
    time = SimulatedTime(stops_at=101.5)
    left = [event.value for event in due_events(events(0, 1, 2, 3), ReplaySpeed(1), time, time.now)]
    assert left == [b"0", b"1"]


class Sent(list):
    """The events of one slice, acknowledged or refused."""

    refused = None

    def done(self):
        return True

    def result(self, timeout):
        if self.refused is not None:
            raise self.refused


class SlicesProducer:
    """A producer that keeps the slices it is given; `stops_after` so many it sets the stop."""

    def __init__(self, stopped, stops_after=0, refused=None):
        self.stopped, self.stops_after, self.refused = stopped, stops_after, refused
        self.slices = []

    def send_arrow(self, topic, rows, key, timestamp):
        self.slices.append(Sent(rows.to_pylist()))
        self.slices[-1].refused = self.refused
        if len(self.slices) == self.stops_after:
            self.stopped.set()
        return self.slices[-1]

    def flush(self, timeout):
        return 0


def test_without_a_pace_all_events_are_sent_in_order_in_slices(monkeypatch):
    monkeypatch.setattr(replay, "SLICE", 2)
    producer: Any = SlicesProducer(threading.Event())
    shown: list[int] = []
    count = replay.send_together(
        producer, "flights", events(0, 1, 2), shown.append, threading.Event()
    )
    assert count == shown[-1] == 3
    assert [[row["value"] for row in rows] for rows in producer.slices] == [[b"0", b"1"], [b"2"]]
    first = events(0)[0]
    row = {"key": "UA", "value": b"0", "timestamp": first.reported_ms}
    assert producer.slices[0][0] == row


def test_no_slice_is_sent_after_a_stop(monkeypatch):
    monkeypatch.setattr(replay, "SLICE", 1)
    stopped = threading.Event()
    producer: Any = SlicesProducer(stopped, stops_after=2)
    sent = replay.send_together(producer, "flights", events(0, 1, 2, 3), lambda _: None, stopped)
    assert sent == 2
    assert len(producer.slices) == 2


@pytest.mark.parametrize("error", [KafkaError("too large"), TimeoutError("no answer")])
def test_a_refused_slice_is_a_failed_delivery(error):
    producer: Any = SlicesProducer(threading.Event(), refused=error)
    with pytest.raises(replay.DeliveryFailed, match=f"flights: {error}"):
        replay.send_together(producer, "flights", events(0), lambda _: None, threading.Event())
