"""Features that every client library must be able to use with this broker."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from cli.processes import Up
from clients.asking import until
from clients.libraries import LIBRARIES, LONG_WAIT_MS, PATIENCE_S, Library, Row
from clients.records import CODECS, MEBIBYTE, RECORDS, T0, Sent
from odradek.testing.broker import Broker
from odradek.testing.ports import reserve_ports

"""On a busy machine each of many steps may take long."""

NewTopic = Callable[..., str]


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Iterator[Library]:
    yield request.param
    # kafka-python leaves its wake-up sockets to the garbage collector: collect them here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def numbered(numbers: range, partitions: int = 1) -> list[Row]:
    return [
        (number % partitions, Sent(None, b"%d" % number, [], T0 + number)) for number in numbers
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    broker: Broker, new_topic: NewTopic, library: Library, codec: str
) -> None:
    topic = new_topic()
    rows = [
        (0, record)
        for record in RECORDS
        if library.null_headers or all(value is not None for _, value in record.headers)
    ]
    with library.producer(broker.bootstrap, codec) as producer:
        assert producer.send(topic, rows) == list(range(len(rows)))
    with library.consumer(broker.bootstrap, topic) as consumer:
        assert consumer.read(len(rows)) == rows


def test_an_idempotent_producer_gets_consecutive_offsets(
    broker: Broker, new_topic: NewTopic, library: Library
) -> None:
    topic = new_topic()
    rows = numbered(range(2000))
    with library.producer(broker.bootstrap, idempotent=True) as producer:
        assert producer.send(topic, rows) == list(range(2000))
    with library.consumer(broker.bootstrap, topic) as consumer:
        assert consumer.read(2000) == rows


def test_a_record_of_a_mebibyte_is_read_back(
    broker: Broker, new_topic: NewTopic, library: Library
) -> None:
    topic = new_topic(max_message_bytes="2000000")
    rows = [(0, Sent(b"large", MEBIBYTE, [], T0)), *numbered(range(1))]
    with library.producer(broker.bootstrap) as producer:
        assert producer.send(topic, rows) == [0, 1]
    with library.consumer(broker.bootstrap, topic) as consumer:
        assert consumer.read(2) == rows


def test_records_of_a_hundred_partitions_are_read_back(
    broker: Broker, new_topic: NewTopic, library: Library
) -> None:
    topic = new_topic(partitions=100)
    rows = numbered(range(1000), 100)
    with library.producer(broker.bootstrap) as producer:
        producer.send(topic, rows)
    with library.consumer(broker.bootstrap, topic, 100) as consumer:
        found = consumer.read(1000)
    assert {p: [r for r in found if r[0] == p] for p in range(100)} == {
        p: rows[p::100] for p in range(100)
    }


def test_a_long_poll_is_answered_by_the_append_it_waits_for(
    broker: Broker, new_topic: NewTopic, library: Library
) -> None:
    topic = new_topic()
    purgatory = broker.node.replicas.fetch_purgatory
    waited: list[bool] = []

    def produce() -> None:
        waited.append(until(lambda: purgatory.num_delayed > 0, PATIENCE_S))
        with library.producer(broker.bootstrap) as producer:
            producer.send(topic, numbered(range(1)))

    producing = Thread(target=produce)
    with library.consumer(broker.bootstrap, topic, max_wait_ms=LONG_WAIT_MS) as consumer:
        producing.start()
        assert consumer.read(1) == numbered(range(1))
    producing.join()
    assert waited == [True]


def test_topics_can_be_created_described_extended_and_deleted(
    broker: Broker, library: Library
) -> None:
    topic = f"made-by-{library.name}"
    with library.admin(broker.bootstrap) as admin:
        admin.create(topic, 2, retention_ms="1234")
        assert admin.partitions()[topic] == 2
        assert admin.setting(topic, "retention.ms") == "1234"
        admin.grow(topic, 5)
        assert admin.partitions()[topic] == 5
        admin.delete(topic)
        assert topic not in admin.partitions()


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_clients_continue_after_a_broker_was_killed_and_restarted(
    tmp_path: Path, library: Library, idempotent: bool
) -> None:
    rows, topic, port = numbered(range(1200), 3), "outlives", str(reserve_ports(1)[0])
    parts = rows[:400], rows[400:800], rows[800:]
    with ExitStack() as clients:
        for part in parts:
            with Up("--data-dir", str(tmp_path), "--port", port) as up:
                if part is parts[0]:
                    with library.admin(up.bootstrap) as admin:
                        admin.create(topic, 3)
                    producer = clients.enter_context(
                        library.producer(up.bootstrap, idempotent=idempotent)
                    )
                    consumer = clients.enter_context(library.consumer(up.bootstrap, topic, 3))
                producer.send(topic, part)
                assert sorted(consumer.read(len(part))) == sorted(part)
                if part is not parts[-1]:
                    up.process.kill()
                    continue
                with library.consumer(up.bootstrap, topic, 3) as again:
                    assert sorted(again.read(len(rows))) == sorted(rows)
                clients.close()
