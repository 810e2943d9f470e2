"""One producer of one client library in a process of its own; prints what it did as JSON.

    python bench/produce_load.py WAY BOOTSTRAP COUNT [name=value ...]

A way is a library and how it is used; settings are the library's own. Records of 100 bytes go to
topic `bench` with acks=1, all of them acknowledged at the end. `rate` is records in a second of
wall time, `cpu_us` CPU of this process per record, all threads. A ping is one record and its
acknowledgement, in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

TOPIC = "bench"
VALUE = b"x" * 100
MANY = 1_000
GIVE_WAY = 100
LONG_S = 60.0
COMMIT_S = 0.1

Work = Callable[[], object]


def rated(count: int, work: Work) -> dict[str, float]:
    """What the work costs."""
    cpu, begun = time.process_time(), time.perf_counter()
    work()
    taken, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return {"rate": count / taken, "cpu_us": cpu * 1e6 / count}


def pings(count: int, ping: Work) -> dict[str, float]:
    """How long one takes."""
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        ping()
        taken.append((time.perf_counter() - begun) * 1e6)
    taken.sort()
    return {"p50_us": taken[count // 2], "p99_us": taken[count * 99 // 100]}


def while_metrics_are_read(client: Any, work: Work) -> None:
    """Do the work while another thread reads the client's metrics ten times a second."""
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.1):
            client.metrics()

    reader = threading.Thread(target=read)
    reader.start()
    work()
    over.set()
    reader.join()


def with_calls(producer: Any, count: int) -> None:
    """Send records, and call an empty function for each."""

    def nothing(record: object) -> object:
        return record

    send = producer.send
    for _ in range(count):
        last = send(TOPIC, nothing(VALUE))
    producer.flush()
    last.result(LONG_S)


def interceptors_of(way: str) -> list[Any]:
    """The interceptors of a way: one without methods of its own, one that returns each record, or
    one that is told of the outcome too; none for other ways."""
    from odradek import ProducerInterceptor

    class Sends(ProducerInterceptor):
        def on_send(self, record: Any) -> Any:
            return record

    class SendsAndTold(Sends):
        def on_acknowledgement(self, delivery: Any, error: Any, headers: Any) -> None:
            return

    kinds = {"intercepted": ProducerInterceptor, "on_send": Sends, "on_both": SendsAndTold}
    return [kinds[way]()] if way in kinds else []


def ours(way: str, bootstrap: str, count: int, settings: dict[str, Any]) -> dict[str, float]:
    """Our blocking producer."""
    from odradek import Producer

    interceptors = interceptors_of(way)
    with Producer(brokers=bootstrap, acks=1, interceptors=interceptors, **settings) as producer:
        producer.send(TOPIC, VALUE).result(LONG_S)

        def futures() -> None:
            send = producer.send
            for _ in range(count):
                last = send(TOPIC, VALUE)
            producer.flush()
            last.result(LONG_S)

        def callbacks() -> None:
            told = 0

            def delivered(error: object, _: object) -> None:
                nonlocal told
                told += error is None

            send = producer.send
            for _ in range(count):
                send(TOPIC, VALUE, on_delivery=delivered)
            producer.flush()
            assert told == count

        def many() -> None:
            values = [VALUE] * MANY
            for _ in range(count // MANY):
                producer.send_many(TOPIC, values)
            producer.flush()

        def arrow() -> None:
            for _ in range(10):
                producer.send_arrow(TOPIC, table)
            producer.flush()

        if way == "arrow":
            import pyarrow as pa

            table = pa.table({"value": pa.array([VALUE] * (count // 10), pa.binary())})
            producer.send_arrow(TOPIC, table.slice(0, 1)).result(LONG_S)
        if way == "ping":
            return pings(count, lambda: producer.send(TOPIC, VALUE).result(LONG_S))
        works = {"future": futures, "callback": callbacks, "many": many, "arrow": arrow}
        works["called"] = lambda: with_calls(producer, count)
        works["metered"] = lambda: while_metrics_are_read(producer, futures)
        return rated(count, works.get(way, futures))


def promised(way: str, bootstrap: str, count: int, settings: dict[str, Any]) -> dict[str, float]:
    """Our blocking producer, idempotent with acks=all, or with a transaction each `COMMIT_S`."""
    from odradek import Producer

    transactional_id = "bench" if way == "transactional" else None
    with Producer(
        brokers=bootstrap, acks="all", transactional_id=transactional_id, **settings
    ) as producer:
        send = producer.send

        def plain() -> None:
            for _ in range(count):
                last = send(TOPIC, VALUE)
            producer.flush()
            last.result(LONG_S)

        def transactions() -> None:
            left, now = count, time.perf_counter
            while left:
                with producer.transaction():
                    end = now() + COMMIT_S
                    while left and now() < end:
                        some = min(left, GIVE_WAY)
                        for _ in range(some):
                            send(TOPIC, VALUE)
                        left -= some

        if way == "idempotent":
            send(TOPIC, VALUE).result(LONG_S)
            return rated(count, plain)
        with producer.transaction():
            send(TOPIC, VALUE)
        return rated(count, transactions)


def ours_awaited(way: str, bootstrap: str, count: int, settings: dict[str, Any]) -> Any:
    """Our producer for asyncio."""
    import odradek.aio

    async def main() -> dict[str, float]:
        async with odradek.aio.Producer(brokers=bootstrap, acks=1, **settings) as producer:
            await producer.send(TOPIC, VALUE)
            cpu, begun = time.process_time(), time.perf_counter()
            for number in range(count):
                last = await producer.enqueue(TOPIC, VALUE)
                if number % GIVE_WAY == 0:
                    await asyncio.sleep(0)
            await producer.flush()
            await last
            taken, cpu = time.perf_counter() - begun, time.process_time() - cpu
            return {"rate": count / taken, "cpu_us": cpu * 1e6 / count}

    return asyncio.run(main())


def confluent(way: str, bootstrap: str, count: int, settings: dict[str, str]) -> dict[str, float]:
    """confluent-kafka."""
    from confluent_kafka import Producer

    own = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, **own, **settings})
    producer.produce(TOPIC, VALUE)
    producer.flush(LONG_S)

    def plain() -> None:
        produce = producer.produce
        for _ in range(count):
            produce(TOPIC, VALUE)
        producer.flush(LONG_S)

    def callbacks() -> None:
        told = 0

        def delivered(error: object, _: object) -> None:
            nonlocal told
            told += error is None

        produce = producer.produce
        for number in range(count):
            produce(TOPIC, VALUE, on_delivery=delivered)
            if number % GIVE_WAY == 0:
                producer.poll(0)
        producer.flush(LONG_S)
        assert told == count

    def ping() -> None:
        producer.produce(TOPIC, VALUE)
        producer.flush(LONG_S)

    if way == "ping":
        return pings(count, ping)
    return rated(count, callbacks if way == "callback" else plain)


def kafka_python(way: str, bootstrap: str, count: int, settings: dict[str, str]) -> Any:
    """kafka-python."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks=1, enable_idempotence=False, linger_ms=5
    )
    producer.send(TOPIC, VALUE).get(LONG_S)

    def futures() -> None:
        for _ in range(count):
            last = producer.send(TOPIC, VALUE)
        producer.flush()
        last.get(LONG_S)

    return rated(count, futures)


def aiokafka(way: str, bootstrap: str, count: int, settings: dict[str, str]) -> Any:
    """aiokafka."""
    from aiokafka import AIOKafkaProducer

    async def main() -> dict[str, float]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1, linger_ms=5)
        await producer.start()
        await producer.send_and_wait(TOPIC, VALUE)
        cpu, begun = time.process_time(), time.perf_counter()
        for _ in range(count):
            last = await producer.send(TOPIC, VALUE)
        await producer.flush()
        await last
        taken, cpu = time.perf_counter() - begun, time.process_time() - cpu
        await producer.stop()
        return {"rate": count / taken, "cpu_us": cpu * 1e6 / count}

    return asyncio.run(main())


LIBRARIES: dict[str, Callable[[str, str, int, dict[str, str]], Any]] = {
    "odradek": ours,
    "odradek.acks-all": promised,
    "odradek.aio": ours_awaited,
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def main(arguments: list[str]) -> None:
    name, bootstrap, count, *pairs = arguments
    library, _, way = name.partition(":")
    settings = dict(pair.split("=", 1) for pair in pairs)
    print(json.dumps(LIBRARIES[library](way, bootstrap, int(count), settings)))


if __name__ == "__main__":
    main(sys.argv[1:])
