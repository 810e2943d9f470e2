"""Produces the flights with Odradek's own producer.

`replay` sends as fast as the broker accepts them, as columns of many flights; with a `ReplaySpeed`
it sends each flight at its time on a faster clock, and counts the delivery callbacks. It returns
when all flights are acknowledged, and raises `DeliveryFailed` if one was refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odradek import Admin, KafkaError, Producer
from odradek.client.producer.futures import Deliveries, Delivery
from odradek.demo.flights import FlightEvent

SLICE = 20_000
"""The number of flights that are sent together."""
# Full batches: fewer of them to make durable.
BULK = {"batch.size": 262_144, "linger.ms": 50, "max.request.size": 8_388_608}
FLUSH_TIMEOUT_SECONDS = 60
# The flights carry timestamps of 2013: a time-based retention would delete them on arrival.
KEEP_FOREVER = {"retention.ms": -1}


class DeliveryFailed(RuntimeError):
    """The broker refused a flight, or did not acknowledge it in time."""


@dataclass(frozen=True, slots=True)
class ReplaySpeed:
    """A faster clock: `hours_per_second` hours of 2013 pass in each second."""

    hours_per_second: float

    def due(self, reported_ms: int, first_ms: int) -> float:
        """Seconds after the start at which a report is due."""
        return (reported_ms - first_ms) / 3_600_000 / self.hours_per_second


@dataclass(slots=True)
class Outcomes:
    """The delivery callbacks so far. Written by the producer's thread, read by the replay's."""

    delivered: int = 0
    failure: KafkaError | None = None

    def report(self, error: KafkaError | None, delivery: Delivery) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failure = error


def create_topics(bootstrap: str, topics: dict[str, int]) -> None:
    """Create topics, given by name with their numbers of partitions. Raises `KafkaError`, also if
    one exists."""
    with Admin(brokers=bootstrap) as admin:
        for name, count in topics.items():
            admin.create_topic(name, partitions=count, replication=1, config=KEEP_FOREVER)


def due_events(
    events: Sequence[FlightEvent],
    pace: ReplaySpeed,
    stopped: threading.Event,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[FlightEvent]:
    """Return each event at its time; none after `stopped`."""
    started = now()
    for event in events:
        early_s = started + pace.due(event.reported_ms, events[0].reported_ms) - now()
        if early_s > 0:
            stopped.wait(early_s)
        if stopped.is_set():
            return
        yield event


def replay(
    bootstrap: str,
    topic: str,
    events: Sequence[FlightEvent],
    *,
    progress: Callable[[int], None],
    pace: ReplaySpeed | None = None,
    stopped: threading.Event | None = None,
) -> int:
    """Produce `events` in order, keyed by carrier; return the number acknowledged.

    `progress` is called from time to time with the number acknowledged so far. `stopped` ends the
    replay early.
    """
    ended = stopped or threading.Event()
    with Producer(BULK, brokers=bootstrap) as producer:
        if pace is None:
            return send_together(producer, topic, events, progress, ended)
        return send_paced(producer, topic, due_events(events, pace, ended), progress)


def send_together(
    producer: Producer[bytes | str, bytes | str],
    topic: str,
    events: Sequence[FlightEvent],
    progress: Callable[[int], None],
    stopped: threading.Event,
) -> int:
    """Produce `events` in slices until `stopped`; return the number acknowledged."""
    slices: list[Deliveries] = []
    for start in range(0, len(events), SLICE):
        if stopped.is_set():
            break
        rows = columns_of(events[start : start + SLICE])
        slices.append(producer.send_arrow(topic, rows, key="key", timestamp="timestamp"))
        progress(sum(len(each) for each in slices if each.done()))
    producer.flush(FLUSH_TIMEOUT_SECONDS)
    delivered = 0
    for each in slices:
        try:
            each.result(FLUSH_TIMEOUT_SECONDS)
        except (KafkaError, TimeoutError) as error:
            raise DeliveryFailed(f"{topic}: {error}") from error
        delivered += len(each)
        progress(delivered)
    return delivered


def columns_of(events: Sequence[FlightEvent]) -> pa.RecordBatch:
    """Return the records of events as Arrow columns; timestamps in ms."""
    return pa.record_batch(
        {
            "key": pa.array([event.carrier for event in events], pa.string()),
            "value": pa.array([event.value for event in events], pa.binary()),
            "timestamp": pa.array([event.reported_ms for event in events], pa.int64()),
        }
    )


def send_paced(
    producer: Producer[bytes | str, bytes | str],
    topic: str,
    events: Iterable[FlightEvent],
    progress: Callable[[int], None],
) -> int:
    """Produce each event when it comes; return the number acknowledged."""
    outcomes = Outcomes()
    for event in events:
        if outcomes.failure is not None:
            break
        producer.send(
            topic,
            event.value,
            key=event.carrier,
            timestamp=event.reported_ms,
            on_delivery=outcomes.report,
        )
        progress(outcomes.delivered)
    unsent = producer.flush(FLUSH_TIMEOUT_SECONDS)
    progress(outcomes.delivered)
    if outcomes.failure is not None:
        raise DeliveryFailed(f"{topic}: {outcomes.failure}") from outcomes.failure
    if unsent:
        raise DeliveryFailed(f"{topic}: {unsent} flights not acknowledged in time")
    return outcomes.delivered
