"""One consumer of one client library in a process of its own; prints what it did as JSON.

    python bench/consume_load.py WAY BOOTSTRAP COUNT

A way is a library and how it is used. It reads COUNT records of 100 bytes from the one partition of
topic `bench`, or with an isolation level of `bench-transactions`, from the beginning and without a
group; the first of them is there before the clock starts. `rate` is records in a second of wall
time, `cpu_us` CPU of this process per record, all threads. A ping is one record produced, without
lingering, and polled by the same library here, in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

TOPIC, PING_TOPIC, TRANSACTIONS_TOPIC = "bench", "bench-ping", "bench-transactions"
ISOLATION = {"committed": "read_committed", "uncommitted": "read_uncommitted"}
VALUE = b"x" * 100
MANY = 10_000
LONG_S = 60.0


class Meter:
    """From the first record on to the last."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.left = count
        self._cpu, self._begun = time.process_time(), time.perf_counter()

    def figures(self) -> dict[str, float]:
        taken, cpu = time.perf_counter() - self._begun, time.process_time() - self._cpu
        return {"rate": self.count / taken, "cpu_us": cpu * 1e6 / self.count}


def ours(way: str, bootstrap: str, count: int) -> dict[str, float]:
    """Our blocking consumer."""
    from odradek import Consumer, ConsumerInterceptor
    from odradek.client.arrow import record_batches

    class Passes(ConsumerInterceptor):
        def on_consume(self, records: Any) -> Any:
            return records

    end: int | None
    settings: dict[str, Any] = {"interceptors": [Passes()]} if way == "intercepted" else {}
    if way == "fixed-buffers":
        settings = {"receive.buffer.bytes": 65_536, "send.buffer.bytes": 131_072}
    assert record_batches.SCHEMA is not None
    topic, end = TOPIC, count + 1
    if way in ISOLATION:
        settings["isolation.level"] = ISOLATION[way]
        topic, end = TRANSACTIONS_TOPIC, None
    with Consumer(brokers=bootstrap, **settings) as consumer:
        consumer.assign({(topic, 0): (0, end)})
        assert consumer.poll(LONG_S) is not None
        meter = Meter(count)
        if way in ("poll", "intercepted", *ISOLATION):
            while meter.left:
                meter.left -= consumer.poll(LONG_S) is not None
        elif way in ("iterate", "fixed-buffers"):
            for _ in consumer:
                meter.left -= 1
        elif way == "consume":
            while meter.left:
                meter.left -= len(consumer.consume(MANY, 1.0))
        elif way == "arrow":
            for batch in consumer.arrow(max_wait=0.1):
                meter.left -= batch.num_rows
        assert meter.left == 0
        return meter.figures()


async def ours_awaited(way: str, bootstrap: str, count: int) -> dict[str, float]:
    """Our consumer in asyncio."""
    from odradek.aio import Consumer

    async with Consumer(brokers=bootstrap) as consumer:
        await consumer.assign({(TOPIC, 0): (0, count + 1)})
        assert await consumer.poll(LONG_S) is not None
        meter = Meter(count)
        if way == "iterate":
            async for _ in consumer:
                meter.left -= 1
        else:
            while meter.left:
                meter.left -= len(await consumer.consume(MANY, 1.0))
        assert meter.left == 0
        return meter.figures()


def confluent(way: str, bootstrap: str, count: int) -> dict[str, float]:
    """confluent-kafka; by default it pauses for a second whenever its queue was full, which would
    be all that its rows show.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    assert consumer.poll(LONG_S) is not None
    meter = Meter(count)
    if way == "poll":
        while meter.left > 0:
            meter.left -= consumer.poll(LONG_S) is not None
    else:
        while meter.left > 0:
            meter.left -= len(consumer.consume(min(MANY, meter.left), 1.0))
    figures = meter.figures()
    consumer.close()
    return figures


async def aiokafka(way: str, bootstrap: str, count: int) -> dict[str, float]:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    await consumer.getone()
    meter = Meter(count)
    if way == "iterate":
        async for _ in consumer:
            meter.left -= 1
            if meter.left == 0:
                break
    else:
        while meter.left > 0:
            found = await consumer.getmany(timeout_ms=1000)
            meter.left -= sum(map(len, found.values()))
    figures = meter.figures()
    await consumer.stop()
    return figures


def kafka_python(way: str, bootstrap: str, count: int) -> dict[str, float]:
    """kafka-python."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    next(consumer)
    meter = Meter(count)
    while meter.left > 0:
        meter.left -= sum(map(len, consumer.poll(timeout_ms=1000).values()))
    figures = meter.figures()
    consumer.close()
    return figures


def ping(send: Callable[[], object], poll: Callable[[], object], count: int) -> dict[str, float]:
    """From one end to the other, one record at a time."""
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        send()
        assert poll() is not None
        taken.append((time.perf_counter() - begun) * 1e6)
    taken.sort()
    return {"p50_us": taken[count // 2], "p99_us": taken[count * 99 // 100]}


def our_pings(bootstrap: str, count: int) -> dict[str, float]:
    from odradek import Consumer, Producer

    with (
        Producer(brokers=bootstrap, linger_ms=0, acks=1) as producer,
        Consumer(brokers=bootstrap) as consumer,
    ):
        consumer.assign([(PING_TOPIC, 0)])
        consumer.seek((PING_TOPIC, 0), "end")
        consumer.position((PING_TOPIC, 0))
        return ping(
            lambda: producer.send(PING_TOPIC, VALUE, partition=0),
            lambda: consumer.poll(LONG_S),
            count,
        )


def their_pings(bootstrap: str, count: int) -> dict[str, float]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-ping"})
    place = TopicPartition(PING_TOPIC, 0)
    place.offset = consumer.get_watermark_offsets(place, timeout=LONG_S)[1]
    consumer.assign([place])

    def send() -> None:
        producer.produce(PING_TOPIC, VALUE, partition=0)
        producer.poll(0)

    figures = ping(send, lambda: consumer.poll(LONG_S), count)
    producer.flush(LONG_S)
    consumer.close()
    return figures


def main() -> None:
    way, bootstrap, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    library, _, how = way.partition(":")
    found: Any
    if how == "ping":
        found = (our_pings if library == "odradek" else their_pings)(bootstrap, count)
    elif library == "odradek":
        found = ours(how, bootstrap, count)
    elif library == "odradek.aio":
        found = asyncio.run(ours_awaited(how, bootstrap, count))
    elif library == "confluent-kafka":
        found = confluent(how, bootstrap, count)
    elif library == "aiokafka":
        found = asyncio.run(aiokafka(how, bootstrap, count))
    else:
        found = kafka_python(how, bootstrap, count)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
