"""Produces the flights with confluent-kafka, as any program with a Kafka client would: nothing here
knows Odradek.

`replay` sends as fast as the broker takes them; given a `Pace` it sends each flight when its time
has come on a clock that runs faster than the world's. Every delivery is counted by the client's own
report: the function returns only when all are acknowledged, and raises `DeliveryFailed` when one
was refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from odradek.demo.flights import Event

BUFFER_MESSAGES = 100_000
POLL_EVERY = 1000
TOPIC_TIMEOUT_SECONDS = 15
FLUSH_TIMEOUT_SECONDS = 60
# The flights carry timestamps of 2013: a time-based retention would delete them on arrival.
KEEP_FOREVER = {"retention.ms": "-1"}


class DeliveryFailed(RuntimeError):
    """The broker did not take a flight."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A faster clock: `hours_per_second` hours of 2013 pass in each second."""

    hours_per_second: float

    def due(self, reported_ms: int, first_ms: int) -> float:
        """Seconds after the start at which a report is due."""
        return (reported_ms - first_ms) / 3_600_000 / self.hours_per_second


def create_topics(bootstrap: str, topics: dict[str, int]) -> None:
    """Topics by name with their numbers of partitions; existing ones are an error. Raises
    `KafkaException`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(name, num_partitions=count, replication_factor=1, config=KEEP_FOREVER)
        for name, count in topics.items()
    ]
    for created in admin.create_topics(wanted, operation_timeout=TOPIC_TIMEOUT_SECONDS).values():
        created.result(TOPIC_TIMEOUT_SECONDS)


def replay(
    bootstrap: str,
    topic: str,
    events: Sequence[Event],
    *,
    progress: Callable[[int], None],
    pace: Pace | None = None,
    stopped: threading.Event | None = None,
) -> int:
    """Produce `events` in order, keyed by carrier; the number acknowledged.

    `progress` gets the number acknowledged so far, now and then. `stopped` ends the replay early,
    cleanly.
    """
    delivered = 0
    failure: KafkaError | None = None

    def reported(error: KafkaError | None, message: Message) -> None:
        nonlocal delivered, failure
        if error is not None:
            failure = error
        else:
            delivered += 1

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": BUFFER_MESSAGES * 2,
            "logger": None,
        }
    )
    started = time.monotonic()
    for index, event in enumerate(events):
        if failure is not None or (stopped is not None and stopped.is_set()):
            break
        if pace is not None:
            wait_until(
                started + pace.due(event.reported_ms, events[0].reported_ms), producer, stopped
            )
        while len(producer) >= BUFFER_MESSAGES:
            producer.poll(0.05)
        producer.produce(
            topic, event.value, event.carrier, timestamp=event.reported_ms, on_delivery=reported
        )
        if index % POLL_EVERY == 0 or pace is not None:
            producer.poll(0)
            progress(delivered)
    unsent = producer.flush(FLUSH_TIMEOUT_SECONDS)
    progress(delivered)
    if failure is not None:
        raise DeliveryFailed(f"{topic}: {failure.str()}")
    if unsent:
        raise DeliveryFailed(f"{topic}: {unsent} flights not acknowledged in time")
    return delivered


def wait_until(due: float, producer: Producer, stopped: threading.Event | None) -> None:
    """Serve the producer's reports until `due` (monotonic seconds) or until stopped."""
    while (rest := due - time.monotonic()) > 0:
        if stopped is not None and stopped.is_set():
            return
        producer.poll(min(rest, 0.2))
