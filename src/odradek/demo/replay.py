"""Produces the flights with Odradek's own producer.

`replay` sends as fast as the broker accepts them; with a `Pace` it sends each flight at its time on
a faster clock. It counts the delivery callbacks: it returns when all flights are acknowledged, and
raises `DeliveryFailed` if one was refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odradek import Admin, KafkaError, Producer
from odradek.client.producer.futures import Delivery
from odradek.demo.flights import Event

REPORT_EVERY = 1000
# Full batches: fewer of them to make durable.
BULK = {"batch.size": 262_144, "linger.ms": 50, "max.request.size": 8_388_608}
FLUSH_TIMEOUT_SECONDS = 60
# The flights carry timestamps of 2013: a time-based retention would delete them on arrival.
KEEP_FOREVER = {"retention.ms": -1}


class DeliveryFailed(RuntimeError):
    """The broker refused a flight, or did not acknowledge it in time."""


@dataclass(frozen=True, slots=True)
class Pace:
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
    events: Sequence[Event],
    pace: Pace | None,
    stopped: threading.Event,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Event]:
    """Return each event at its time, without a `pace` at once; none after `stopped`."""
    started = now()
    for event in events:
        if pace is not None:
            early_s = started + pace.due(event.reported_ms, events[0].reported_ms) - now()
            if early_s > 0:
                stopped.wait(early_s)
        if stopped.is_set():
            return
        yield event


def replay(
    bootstrap: str,
    topic: str,
    events: Sequence[Event],
    *,
    progress: Callable[[int], None],
    pace: Pace | None = None,
    stopped: threading.Event | None = None,
) -> int:
    """Produce `events` in order, keyed by carrier; return the number acknowledged.

    `progress` is called from time to time with the number acknowledged so far. `stopped` ends the
    replay early.
    """
    ended = stopped or threading.Event()
    outcomes = Outcomes()
    report = outcomes.report
    with Producer(BULK, brokers=bootstrap) as producer:
        send = producer.send
        for index, event in enumerate(due_events(events, pace, ended)):
            if outcomes.failure is not None:
                break
            send(
                topic,
                event.value,
                key=event.carrier,
                timestamp=event.reported_ms,
                on_delivery=report,
            )
            if index % REPORT_EVERY == 0 or pace is not None:
                progress(outcomes.delivered)
        unsent = producer.flush(FLUSH_TIMEOUT_SECONDS)
        progress(outcomes.delivered)
        if outcomes.failure is not None:
            raise DeliveryFailed(f"{topic}: {outcomes.failure}") from outcomes.failure
        if unsent:
            raise DeliveryFailed(f"{topic}: {unsent} flights not acknowledged in time")
    return outcomes.delivered
