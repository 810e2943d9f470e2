"""Clients read a compacted topic while it is written and compacted, without a file delete delay.

Each client gets records as they were written, in order, and at the end the same last values.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import aiokafka
import kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing.broker import Broker

TOPIC, END = "states", b"end"
RECORDS, KEYS = 3000, 30
WAIT_S = 60
Row = tuple[int, bytes | None, bytes | None]
State = dict[bytes | None, bytes]


@pytest.fixture(autouse=True)
def leaked_sockets() -> Iterator[None]:
    """Collect kafka-python's wake-up sockets, which it leaves to the garbage collector."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    settings = {"log.cleaner.backoff.ms": 10, "log.cleaner.io.buffer.size": 4096}
    with Broker(data_dir=tmp_path, settings=settings) as running:
        config = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": "10000",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "60000",
            "file.delete.delay.ms": "0",
        }
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(20)
        yield running
        assert running.bugs == 0


def written() -> list[tuple[bytes, bytes | None]]:
    """Return the (key, value) pairs to write, by offset, and a last record that marks the end."""
    chance = random.Random(5)
    rows: list[tuple[bytes, bytes | None]] = []
    for number in range(RECORDS - 1):
        value = None if chance.random() < 0.1 else b"%d " % number + b"x" * chance.randrange(100)
        rows.append((b"key-%d" % chance.randrange(KEYS), value))
    return [*rows, (END, END)]


def produce(bootstrap: str, rows: list[tuple[bytes, bytes | None]]) -> None:
    """Produce in small synced batches, so that segments fill one by one."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10})
    for number, (key, value) in enumerate(rows):
        producer.produce(TOPIC, value, key, 0)
        if number % 50 == 49:
            assert producer.flush(WAIT_S) == 0
    assert producer.flush(WAIT_S) == 0


def by_confluent(bootstrap: str) -> Iterator[Row]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "check.crcs": True})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    while True:
        for message in consumer.consume(100, 0.2):
            assert message.error() is None, message.error()
            yield message.offset(), message.key(), message.value()  # type: ignore[misc]
            if message.key() == END:
                consumer.close()
                return


def by_kafka_python(bootstrap: str) -> Iterator[Row]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, check_crcs=True, consumer_timeout_ms=WAIT_S * 1000
    )
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    for record in consumer:
        yield record.offset, record.key, record.value
        if record.key == END:
            break
    consumer.close()


def by_aiokafka(bootstrap: str) -> list[Row]:
    async def read() -> list[Row]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        partition = aiokafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        rows: list[Row] = []
        while not rows or rows[-1][1] != END:
            record = await asyncio.wait_for(consumer.getone(), WAIT_S)
            rows.append((record.offset, record.key, record.value))
        await consumer.stop()
        return rows

    return asyncio.run(read())


READERS: dict[str, Callable[[str], Iterable[Row]]] = {
    "confluent": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


def state_of(rows: Iterable[tuple[bytes | None, bytes | None]]) -> State:
    """Return the last value of every key, without deleted keys."""
    state: State = {}
    for key, value in rows:
        state.pop(key, None)
        if value is not None:
            state[key] = value
    return state


def check(rows: list[Row], expected: list[tuple[bytes, bytes | None]]) -> None:
    offsets = [offset for offset, _, _ in rows]
    assert offsets == sorted(set(offsets))
    assert [(key, value) for _, key, value in rows] == [expected[offset] for offset in offsets]
    assert state_of((key, value) for _, key, value in rows) == state_of(expected)


def test_readers_get_all_last_values_while_segments_are_replaced(broker: Broker) -> None:
    expected = written()
    producing = threading.Thread(target=produce, args=(broker.bootstrap, expected))
    producing.start()
    try:
        for read in READERS.values():
            check(list(read(broker.bootstrap)), expected)
    finally:
        producing.join()
    first_dirty = broker.node.directory.offsets.first_dirty
    deadline = time.monotonic() + WAIT_S
    while max(dict(first_dirty).values(), default=0) < RECORDS // 2:
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.05)
    for read in READERS.values():
        rows = list(read(broker.bootstrap))
        check(rows, expected)
        assert len(rows) < RECORDS
