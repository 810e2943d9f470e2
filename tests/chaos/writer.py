"""One producer of a chaos run, of any library, as a process of its own.

    python -m chaos.writer LIBRARY BOOTSTRAP TOPIC PARTITIONS RATE FILE

It writes numbered records with `acks=all`, in order within each partition, and notes in FILE, one
line of JSON each, with the monotonic time in nanoseconds:

    ["s", number, partition, timestamp, ns]     sent
    ["a", number, offset, ns]                   acknowledged
    ["f", number, error, ns]                    failed: it may be in the log or not

At the end of its standard input it sends no more, waits for what is in flight, and ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

BURST = 10
FLUSH_S = 120
TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 5_000
"""The time after which a request that a suspended broker does not answer is given up."""
COMMON: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 2,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 200,
    "request.timeout.ms": REQUEST_TIMEOUT_MS,
    "delivery.timeout.ms": TIMEOUT_MS,
}

ended = threading.Event()


class Notes:
    """The file of what happened; written by any thread."""

    def __init__(self, file: TextIO, name: str) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.name = name

    def write(self, *what: object) -> None:
        line = json.dumps([*what, time.monotonic_ns()])
        with self._lock:
            self._file.write(line + "\n")

    def flush(self) -> None:
        with self._lock:
            self._file.flush()

    def acked(self, number: int, offset: int) -> None:
        self.write("a", number, offset)

    def failed(self, number: int, error: object) -> None:
        self.write("f", number, str(error))


Send = Callable[[int, int, bytes, int], None]
"""Sends a record: number, partition, value, timestamp in ms."""


class Writing(NamedTuple):
    """A producer: how it sends, what it needs between bursts, and how it ends."""

    send: Send
    finish: Callable[[], object]
    idle: Callable[[], object] = lambda: None


def write_all(notes: Notes, partitions: int, rate: int, writing: Writing) -> None:
    """Send bursts at a rate until told to end."""
    number, pause = 0, BURST / rate
    while not ended.is_set():
        for _ in range(BURST):
            partition = number % partitions
            timestamp = time.time_ns() // 1_000_000
            notes.write("s", number, partition, timestamp)
            writing.send(number, partition, f"{notes.name}:{number}".encode(), timestamp)
            number += 1
        notes.flush()
        writing.idle()
        ended.wait(pause)


def confluent_writer(bootstrap: str, topic: str, notes: Notes, *, idempotent: bool) -> Writing:
    from confluent_kafka import Producer

    settings = {**COMMON, "bootstrap.servers": bootstrap, "log_level": 0}
    settings["enable.idempotence"] = idempotent
    if not idempotent:
        settings["max.in.flight.requests.per.connection"] = 1
    producer = Producer(settings)

    def send(number: int, partition: int, value: bytes, timestamp: int) -> None:
        def delivered(error: object, message: Any) -> None:
            if error is not None:
                notes.failed(number, error)
            else:
                notes.acked(number, message.offset())

        while True:
            try:
                producer.produce(
                    topic, value, partition=partition, timestamp=timestamp, on_delivery=delivered
                )
                return
            except BufferError:
                producer.poll(0.1)

    return Writing(send, lambda: producer.flush(FLUSH_S), lambda: producer.poll(0))


def kafka_python_writer(bootstrap: str, topic: str, notes: Notes) -> Writing:
    from kafka import KafkaProducer

    from clients.kafka_python_defects import survive_leaving_brokers

    survive_leaving_brokers()
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=2,
        max_in_flight_requests_per_connection=1,
        enable_idempotence=False,
        retry_backoff_ms=20,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=200,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        delivery_timeout_ms=TIMEOUT_MS,
        max_block_ms=TIMEOUT_MS,
    )

    def send(number: int, partition: int, value: bytes, timestamp: int) -> None:
        future = producer.send(topic, value, partition=partition, timestamp_ms=timestamp)
        future.add_callback(lambda metadata: notes.acked(number, metadata.offset))
        future.add_errback(lambda error: notes.failed(number, error))

    return Writing(send, lambda: producer.flush(FLUSH_S))


def odradek_writer(bootstrap: str, topic: str, notes: Notes) -> Writing:
    from odradek import Producer

    producer = Producer({**COMMON, "bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send(number: int, partition: int, value: bytes, timestamp: int) -> None:
        def delivered(error: BaseException | None, delivery: Any) -> None:
            if error is not None:
                notes.failed(number, error)
            else:
                notes.acked(number, delivery.offset)

        producer.send(topic, value, partition=partition, timestamp=timestamp, on_delivery=delivered)

    return Writing(send, lambda: producer.flush(FLUSH_S))


PLAIN = ("confluent-kafka-plain", "kafka-python")
"""The writers that are not idempotent: they have one request in flight, and may repeat a record."""
REORDERING = ("confluent-kafka-plain",)
"""The writers that may change the order when the leader changes: one request in flight is one on
each connection, and the next records go to the new leader while a request to the old one is
unanswered.
"""
LIBRARIES: dict[str, Callable[[str, str, Notes], Writing]] = {
    "odradek": odradek_writer,
    "confluent-kafka": lambda b, t, n: confluent_writer(b, t, n, idempotent=True),
    "confluent-kafka-plain": lambda b, t, n: confluent_writer(b, t, n, idempotent=False),
    "kafka-python": kafka_python_writer,
}


def main() -> None:
    library, bootstrap, topic, partitions, rate, path = sys.argv[1:]

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    with open(path, "w", buffering=1 << 16) as file:
        notes = Notes(file, library)
        writing = LIBRARIES[library](bootstrap, topic, notes)
        write_all(notes, int(partitions), int(rate), writing)
        writing.finish()


if __name__ == "__main__":
    main()
