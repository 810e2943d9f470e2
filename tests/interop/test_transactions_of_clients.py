"""Our producers' and consumers' transactions have the same results with Apache Kafka and with this
project's broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

import odradek
import odradek.aio
from clients.asking import until
from interop.apache_kafka import ApacheKafka
from odradek import Admin, Consumer, Producer
from odradek.client.errors import IllegalState, ProducerFenced, TransactionFailed
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

LONG_S = 60.0


@pytest.fixture(params=["kafka", "odradek"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of each of the two."""
    found: ApacheKafka | Broker = request.getfixturevalue(
        "kafka" if request.param == "kafka" else "ours"
    )
    return found.bootstrap


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of this test's own."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


@pytest.fixture
def new_topic(bootstrap: str, name: str) -> Callable[..., str]:
    def make(suffix: str, partitions: int = 2, **settings: object) -> str:
        with Admin(brokers=bootstrap) as admin:
            config = {key.replace("_", "."): str(value) for key, value in settings.items()}
            admin.create_topic(f"{name}-{suffix}", partitions=partitions, config=config)
        return f"{name}-{suffix}"

    return make


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer[Any, Any]]:
    with Producer(brokers=bootstrap, transactional_id=name) as made:
        yield made


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values that confluent-kafka reads, up to the last stable offset."""
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = sorted(reader.list_topics(topic, LONG_S).topics[topic].partitions)
    reader.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
    found: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        message = reader.poll(LONG_S)
        assert message is not None
        if message.error() is None:
            found.append(message.value())  # type: ignore[arg-type]
        else:
            ended.add(message.partition())  # type: ignore[arg-type]
    reader.close()
    return found


def assert_committed(bootstrap: str, topic: str, expected: list[bytes]) -> None:
    """Read again until the markers are written: a transaction's end is answered before them."""
    until(lambda: sorted(committed(bootstrap, topic)) == expected)
    assert sorted(committed(bootstrap, topic)) == expected


def offset_of(consumer: Consumer[Any, Any]) -> int:
    """The offset that the group has committed for its one partition."""
    [found] = consumer.committed().values()
    assert found is not None
    return found.offset


def test_a_block_commits_its_records_and_offsets_together(bootstrap, name, new_topic, producer):
    source, to = new_topic("in", partitions=1), new_topic("out")
    with Producer(brokers=bootstrap) as plain:
        plain.send_many(source, [b"%d" % number for number in range(10)])
    with Consumer(
        source,
        group=name,
        brokers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer:
        records = consumer.consume(10, timeout=LONG_S)
        with producer.transaction() as transaction:
            producer.send_many(to, [record.value for record in records])
            transaction.commit_offsets(consumer)
        assert offset_of(consumer) == 10
        with suppress(ValueError), producer.transaction() as transaction:
            producer.send(to, b"aborted")
            transaction.commit_offsets(consumer, {TopicPartition(source, 0): 3})
            raise ValueError
        assert offset_of(consumer) == 10
    assert_committed(bootstrap, to, [b"%d" % number for number in range(10)])


def test_the_arrow_path_reads_what_is_committed_only(bootstrap, new_topic, producer):
    to = new_topic("out", partitions=1)
    with producer.transaction():
        producer.send_arrow(to, pa.table({"value": ["a", "b"]}))
    with suppress(ValueError), producer.transaction():
        producer.send_arrow(to, pa.table({"value": ["no"]}))
        producer.flush()
        raise ValueError
    with producer.transaction():
        producer.send(to, b"c")
    assert_committed(bootstrap, to, [b"a", b"b", b"c"])
    assert odradek.read(to, brokers=bootstrap)["value"].to_pylist() == [b"a", b"b", b"c"]
    everything = odradek.read(to, brokers=bootstrap, isolation_level="read_uncommitted")
    assert everything["value"].to_pylist() == [b"a", b"b", b"no", b"c"]


def test_a_failed_record_fails_the_commit_and_the_producer_goes_on(bootstrap, new_topic, producer):
    to, small = new_topic("out"), new_topic("small", max_message_bytes=200)

    def send_a_large_one() -> None:
        with producer.transaction():
            producer.send(to, b"with a large one")
            producer.send(small, b"x" * 1_000)

    with pytest.raises(TransactionFailed) as raised:
        send_a_large_one()
    assert raised.value.requires_abort
    with producer.transaction():
        producer.send(to, b"fine")
    assert_committed(bootstrap, to, [b"fine"])


def test_a_newer_producer_of_the_id_shuts_the_older_one_out(bootstrap, name, new_topic, producer):
    to = new_topic("out")

    def be_replaced() -> None:
        with (
            Producer(brokers=bootstrap, transactional_id=name) as newer,
            producer.transaction(),
        ):
            producer.send(to, b"zombie")
            producer.flush()
            with newer.transaction():
                newer.send(to, b"newer")

    with pytest.raises(ProducerFenced) as raised:
        be_replaced()
    assert raised.value.fatal
    assert_committed(bootstrap, to, [b"newer"])


def test_an_awaited_producer_has_the_same_transactions(bootstrap, name, new_topic):
    to = new_topic("out")

    async def run() -> None:
        async with odradek.aio.Producer(brokers=bootstrap, transactional_id=name) as producer:
            async with producer.transaction():
                await producer.enqueue(to, b"a")
            with suppress(ValueError):
                async with producer.transaction():
                    await producer.send(to, b"aborted")
                    raise ValueError
            with pytest.raises(IllegalState):
                await producer.send(to, b"outside")

    asyncio.run(run())
    assert_committed(bootstrap, to, [b"a"])


def test_the_methods_of_confluent_kafka_do_the_same(bootstrap, name, new_topic):
    to = new_topic("out")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(LONG_S)
    producer.begin_transaction()
    producer.produce(to, b"a")
    producer.commit_transaction(LONG_S)
    producer.begin_transaction()
    producer.produce(to, b"b")
    producer.abort_transaction(LONG_S)
    producer.close()
    assert_committed(bootstrap, to, [b"a"])


@pytest.mark.parametrize("commit", [True, False])
def test_a_detached_transaction_is_ended_by_its_four_values(
    bootstrap, name, new_topic, producer, commit
):
    to = new_topic("out")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(to, b"a")
    detached = producer.detach_transaction()
    producer.close()
    assert detached is not None and committed(bootstrap, to) == []
    with Admin(brokers=bootstrap) as admin:
        admin.end_transaction(detached, committed=commit)
    assert_committed(bootstrap, to, [b"a"] if commit else [])


@pytest.mark.parametrize("arrow", [False, True])
def test_process_writes_each_input_once_though_transactions_are_aborted(
    bootstrap, name, new_topic, arrow
):
    source, dead = new_topic("in"), new_topic("dead")
    to = new_topic("out", max_message_bytes=10_000)
    numbers = range(200)
    with Producer(brokers=bootstrap) as plain:
        plain.send_many(source, [b"%d" % n for n in numbers], keys=[b"%d" % n for n in numbers])
    stop = threading.Event()
    calls = 0

    def records(record: Any) -> Any:
        nonlocal calls
        calls += 1
        if record.value == b"13":
            raise ValueError(record.value)
        # Once, a record that fails the transaction, in which others were written.
        return b"x" * 20_000 if calls == 20 else record.value

    def table(rows: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            return pa.table({"value": [*rows["value"].to_pylist(), b"x" * 20_000]})
        return rows.select(["key", "value"])

    def watch() -> None:
        while len(committed(bootstrap, to) + committed(bootstrap, dead)) < len(numbers):
            pass
        stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    done = odradek.process(
        source,
        table if arrow else records,
        to=to,
        group=name,
        brokers=bootstrap,
        arrow=arrow,
        stop=stop,
        on_error=f"dlq:{dead}",
    )
    watcher.join()
    assert done == len(numbers)
    letters = committed(bootstrap, dead)
    assert letters == ([] if arrow else [b"13"])
    assert sorted(int(v) for v in committed(bootstrap, to) + letters) == list(numbers)
