"""Our consumer against our broker: what a user sees of it, blocking and awaited."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from odradek.client.aio.consumer import Consumer as AwaitedConsumer
from odradek.client.blocking.consumer import Consumer
from odradek.client.consumer.subscription_state import IllegalState
from odradek.client.errors import (
    ClientClosed,
    ConfigError,
    DecodeError,
    Disconnected,
    InvalidGroupId,
    KafkaTimeout,
    NoOffsetForPartition,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from odradek.model.ids import TopicPartition
from odradek.testing.broker import Broker

LONG_S = 60.0
"""For what will happen: a busy machine may take its time."""
T0 = 1_700_000_000_000
A_BATCH = 10_000
"""As `prefetch.max.bytes`: the fetcher has to wait for the application, which makes room."""

NewTopic = Callable[..., str]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that does not wait for further members of a new group."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def produce(broker: Broker) -> Callable[..., None]:
    """`produce(topic, *values, partition=0)`: one record for each value, a second apart."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})

    def send(topic: str, *values: bytes | None, partition: int = 0) -> None:
        for index, value in enumerate(values):
            producer.produce(
                topic,
                value,
                key=b"k%d" % index,
                partition=partition,
                timestamp=T0 + 1000 * index,
                headers=[("n", b"%d" % index)],
            )
        assert producer.flush(LONG_S) == 0

    return send


Produce = Callable[..., None]


class TestReading:
    def test_one_by_one(self, broker: Broker, new_topic: NewTopic, produce: Produce) -> None:
        topic = new_topic()
        produce(topic, b"a", b"b", None)
        with Consumer(topic, brokers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
            first = consumer.poll(LONG_S)
            assert first is not None
            assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
            assert (first.key, first.value, first.headers) == (b"k0", b"a", [("n", b"0")])
            assert first.timestamp == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
            assert [next(consumer).value for _ in range(2)] == [b"b", None]
            assert consumer.poll() is None
            assert consumer.position((topic, 0)) == 3
            assert pickle.loads(pickle.dumps(first)) == first

    @pytest.mark.parametrize(
        ("value", "expected"),
        [(None, b"1"), (bytes, b"1"), ("str", "1"), (str, "1"), ("json", 1), (int, 1), (len, 1)],
    )
    def test_as_what_is_wanted(
        self,
        broker: Broker,
        new_topic: NewTopic,
        produce: Produce,
        value: object,
        expected: object,
    ) -> None:
        topic = new_topic()
        produce(topic, b"1")
        with Consumer(brokers=broker.bootstrap, value=value) as consumer:
            consumer.assign({(topic, 0): 0})
            record = consumer.poll(LONG_S)
            assert record is not None
            assert record.value == expected

    def test_many_at_a_time(self, broker: Broker, new_topic: NewTopic, produce: Produce) -> None:
        topic = new_topic(partitions=2)
        for partition in (0, 1):
            produce(topic, *[b"%d" % n for n in range(100)], partition=partition)
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign({(topic, 0): (0, 100), (topic, 1): (0, 100)})
            records = consumer.consume(150, LONG_S)
            assert len(records) == 150
            assert len(consumer.consume(150, LONG_S)) == 50, "the rest, without waiting for more"
            assert consumer.poll(LONG_S) is None, "there will never be more"
            assert list(consumer) == []
            for partition in (0, 1):
                consumer.seek((topic, partition), "start")
            sizes = [len(batch) for batch in consumer.batches(max_records=70, max_wait=LONG_S)]
            assert sizes == [70, 70, 60]

    def test_more_than_may_be_fetched_ahead(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, values = new_topic(), [b"%05d" % n * 20 for n in range(300)]
        for start in range(0, 300, 100):
            produce(topic, *values[start : start + 100])
        with Consumer(brokers=broker.bootstrap, prefetch_max_bytes=A_BATCH) as consumer:
            consumer.assign({(topic, 0): (0, 300)})
            assert [record.value for record in consumer] == values

    def test_by_time(self, broker: Broker, new_topic: NewTopic, produce: Produce) -> None:
        topic = new_topic()
        produce(topic, b"a", b"b", b"c")
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign([(topic, 0)])
            at = datetime.fromtimestamp(T0 / 1000 + 0.5, UTC)
            consumer.seek((topic, 0), at)
            record = consumer.poll(LONG_S)
            assert record is not None
            assert record.value == b"b"
            found = consumer.offsets_for_times({(topic, 0): at})[TopicPartition(topic, 0)]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (1, T0 + 1000)
            late = consumer.offsets_for_times({(topic, 0): T0 + 10**9})
            assert late == {TopicPartition(topic, 0): None}

    def test_what_there_is_to_ask(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic(partitions=2)
        produce(topic, b"a", b"b", b"c")
        with Consumer(brokers=broker.bootstrap) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign({partition: 1})
            assert consumer.watermarks(partition) == (0, 3)
            assert consumer.lag(partition) == 2
            assert consumer.beginning_offsets([partition]) == {partition: 0}
            assert consumer.end_offsets(partition) == {partition: 3}
            assert consumer.partitions_for(topic) == [0, 1]
            assert consumer.assignment() == [partition]
            consumer.pause(partition)
            assert consumer.paused() == [partition]
            assert consumer.poll(0.1) is None
            consumer.resume(partition)
            assert consumer.poll(LONG_S) is not None

    def test_alone_a_pattern_and_topics_that_come_later(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        first = new_topic()
        produce(first, b"a")
        assigned: list[TopicPartition] = []
        with Consumer(
            brokers=broker.bootstrap, auto_offset_reset="earliest", metadata_max_age_ms=200
        ) as consumer:
            consumer.subscribe(
                re.compile(rf"{first}|{first}-.*"),
                on_assign=lambda _, found: assigned.extend(found),
            )
            record = consumer.poll(LONG_S)
            assert record is not None
            assert record.topic == first
            produce(f"{first}-later", b"b")
            record = consumer.poll(LONG_S)
            assert record is not None
            assert record.topic == f"{first}-later"
            assert {partition.topic for partition in assigned} == {first, f"{first}-later"}


class TestArrow:
    def test_batches(self, broker: Broker, new_topic: NewTopic, produce: Produce) -> None:
        topic = new_topic(partitions=2)
        produce(topic, b"a", None, partition=0)
        produce(topic, b"c", partition=1)
        with Consumer(brokers=broker.bootstrap, group=topic) as consumer:
            consumer.assign({(topic, 0): (0, 2), (topic, 1): (0, 1)})
            batches = list(consumer.arrow(max_wait=LONG_S))
            rows = sorted(
                (row["partition"], row["offset"], row["key"], row["value"], row["topic"])
                for batch in batches
                for row in batch.to_pylist()
            )
            assert rows == [
                (0, 0, b"k0", b"a", topic),
                (0, 1, b"k1", None, topic),
                (1, 0, b"k0", b"c", topic),
            ]
            [headers] = batches[0].slice(0, 1)["headers"].to_pylist()
            assert headers == [{"key": "n", "value": b"0"}]
            assert batches[0].schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")
            committed = [consumer.commit(batch) for batch in batches]
            assert committed[-1] is not None
            found = consumer.committed([(topic, 0), (topic, 1)])
            assert {p.partition: at.offset for p, at in found.items() if at} == {0: 2, 1: 1}

    def test_a_stream_for_others(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, *[b"%d" % n for n in range(100)])
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign({(topic, 0): (0, 100)})
            reader = pa.RecordBatchReader.from_stream(consumer.arrow(max_rows=30, max_wait=LONG_S))
            table = reader.read_all()
        assert table["value"].to_pylist() == [b"%d" % n for n in range(100)]
        assert table["offset"].to_pylist() == list(range(100))


class TestCommitting:
    def test_what_was_handed_out(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, *[b"%d" % n for n in range(10)])
        partition = TopicPartition(topic, 0)

        def begin() -> Consumer[bytes, bytes]:
            return Consumer(
                topic,
                brokers=broker.bootstrap,
                group=topic,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )

        def committed(consumer: Consumer[bytes, bytes]) -> int:
            found = consumer.committed(partition)[partition]
            assert found is not None
            return found.offset

        with begin() as consumer:
            records = consumer.consume(4, LONG_S)
            assert [record.offset for record in records] == [0, 1, 2, 3]
            consumer.commit(records[1])
            assert committed(consumer) == 2
            consumer.commit()
            assert committed(consumer) == 4
            consumer.commit({partition: 3})
        with begin() as consumer:
            record = consumer.poll(LONG_S)
            assert record is not None
            assert record.offset == 3
            batch = next(consumer.batches(max_records=2, max_wait=LONG_S))
            consumer.commit(batch)
            assert committed(consumer) == 6

    def test_automatically_by_a_close_and_not_of_what_failed(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, *[b"%d" % n for n in range(10)])

        def read(count: int, *, fail: bool) -> list[int]:
            offsets: list[int] = []
            with Consumer(
                topic, brokers=broker.bootstrap, group=topic, auto_offset_reset="earliest"
            ) as consumer:
                for record in consumer:
                    offsets.append(record.offset)
                    if len(offsets) == count:
                        if fail:
                            raise RuntimeError("the handler broke")
                        break
            return offsets

        assert read(3, fail=False) == [0, 1, 2]
        with pytest.raises(RuntimeError, match="the handler broke"):
            read(3, fail=True)
        assert read(1, fail=False) == [5], "the record whose handling failed comes again"


class TestBadInput:
    def test_settings(self) -> None:
        with pytest.raises(ConfigError, match=r"did you mean auto\.offset\.reset"):
            Consumer("t", brokers="localhost:9092", auto_ofset_reset="earliest")
        with pytest.raises(ConfigError, match=r"bootstrap\.servers is empty"):
            Consumer("t")
        with pytest.raises(ConfigError, match="no deserializer"):
            Consumer("t", brokers="localhost:9092", value="avro")
        with pytest.raises(ConfigError, match="names of topics, or one mapping"):
            Consumer({"group.id": "a"}, {"group.id": "b"})

    def test_a_topic_there_is_not(self, broker: Broker) -> None:
        with Consumer(
            "returns",
            brokers=broker.bootstrap,
            default_api_timeout_ms=300,
            allow_auto_create_topics=False,
        ) as consumer:
            with pytest.raises(UnknownTopicOrPartition, match=r"returns.*create the topic"):
                consumer.poll(LONG_S)
            with pytest.raises(UnknownTopicOrPartition):
                consumer.end_offsets(("nowhere", 0), timeout=0.3)

    def test_a_broker_there_is_not(self) -> None:
        with Consumer("t", brokers="127.0.0.1:1", default_api_timeout_ms=300) as consumer:
            with pytest.raises(Disconnected, match="refused"):
                consumer.poll(LONG_S)
            with pytest.raises(KafkaTimeout):
                consumer.end_offsets(("t", 0), timeout=0.2)

    def test_a_closed_one(self, broker: Broker) -> None:
        consumer = Consumer("t", brokers=broker.bootstrap)
        consumer.close()
        consumer.close()
        for use in (consumer.poll, consumer.assignment, lambda: next(consumer)):
            with pytest.raises(ClientClosed):
                use()

    def test_records_that_are_something_else(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"1", b"one", b"2")
        with Consumer(brokers=broker.bootstrap, value=int) as consumer:
            consumer.assign({(topic, 0): 0})
            assert next(consumer).value == 1
            with pytest.raises(DecodeError, match=r"offset 1.*seek") as failed:
                next(consumer)
            assert failed.value.record is not None
            assert failed.value.record.value == b"one"
            consumer.seek((topic, 0), 2)
            assert next(consumer).value == 2
        with Consumer(brokers=broker.bootstrap, value=int, on_decode_error="skip") as consumer:
            consumer.assign({(topic, 0): (0, 3)})
            assert [record.value for record in consumer] == [1, 2]

    def test_offsets_there_are_not(self, broker: Broker, new_topic: NewTopic) -> None:
        topic = new_topic()
        with Consumer(brokers=broker.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([(topic, 0)])
            with pytest.raises(NoOffsetForPartition, match=f"{topic}-0"):
                consumer.poll(LONG_S)
            consumer.seek((topic, 0), 77)
            with pytest.raises(OffsetOutOfRange, match="offset 77"):
                consumer.poll(LONG_S)

    def test_what_does_not_fit(self, broker: Broker, new_topic: NewTopic) -> None:
        topic = new_topic()
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign([(topic, 0)])
            with pytest.raises(IllegalState, match="unsubscribe"):
                consumer.subscribe([topic])
            with pytest.raises(IllegalState, match="not assigned"):
                consumer.seek((topic, 9), 0)
            with pytest.raises(TypeError, match="is no partition"):
                consumer.position("orders")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="does not say what to commit"):
                consumer.commit(object())
            with pytest.raises(InvalidGroupId, match=r"group\.id"):
                consumer.commit({(topic, 0): 1})


def test_a_close_ends_a_wait_in_another_thread(broker: Broker) -> None:
    consumer = Consumer("t", brokers=broker.bootstrap)
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.poll(LONG_S)
        except ClientClosed as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    consumer.close()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert len(outcome) == 1


class TestAwaited:
    def test_records(self, broker: Broker, new_topic: NewTopic, produce: Produce) -> None:
        topic = new_topic()
        produce(topic, *[b"%d" % n for n in range(10)])

        async def read() -> list[object]:
            found: list[object] = []
            async with AwaitedConsumer(brokers=broker.bootstrap, value=int) as consumer:
                await consumer.assign({(topic, 0): (0, 10)})
                record = await consumer.poll(LONG_S)
                assert record is not None
                found.append(record.value)
                found += [record.value for record in await consumer.consume(3, LONG_S)]
                async for record in consumer:
                    found.append(record.value)
                await consumer.seek((topic, 0), 8)
                async for batch in consumer.batches(max_wait=LONG_S):
                    found += [record.value for record in batch]
                await consumer.seek((topic, 0), 9)
                async for columns in consumer.arrow(max_wait=LONG_S):
                    found += columns["value"].to_pylist()
                assert await consumer.position((topic, 0)) == 10
            return found

        assert asyncio.run(read()) == [*range(10), 8, 9, b"9"]

    def test_more_than_may_be_fetched_ahead(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, values = new_topic(), [b"%05d" % n * 20 for n in range(300)]
        for start in range(0, 300, 100):
            produce(topic, *values[start : start + 100])

        async def read() -> list[bytes | None]:
            async with AwaitedConsumer(
                brokers=broker.bootstrap, prefetch_max_bytes=A_BATCH
            ) as consumer:
                await consumer.assign({(topic, 0): (0, 300)})
                return [record.value async for record in consumer]

        assert asyncio.run(asyncio.wait_for(read(), LONG_S)) == values

    def test_in_a_group_with_callbacks_that_are_awaited(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"a")
        told: list[tuple[str, list[TopicPartition]]] = []

        async def assigned(_: object, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(("assigned", partitions))

        async def read() -> None:
            async with AwaitedConsumer(
                brokers=broker.bootstrap, group=topic, auto_offset_reset="earliest"
            ) as consumer:
                await consumer.subscribe(
                    topic,
                    on_assign=assigned,
                    on_revoke=lambda _, partitions: told.append(("revoked", partitions)),
                )
                record = await consumer.poll(LONG_S)
                assert record is not None
                await consumer.commit(record)

        asyncio.run(read())
        partitions = [TopicPartition(topic, 0)]
        assert told == [("assigned", partitions), ("revoked", partitions)]

    def test_cancelling_a_wait_loses_nothing(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"a", b"b")

        async def read() -> list[object]:
            async with AwaitedConsumer(brokers=broker.bootstrap) as consumer:
                await consumer.assign({(topic, 0): 0})
                waiting = asyncio.ensure_future(consumer.consume(100, LONG_S))
                while await consumer.position((topic, 0)) < 2:
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                return [record.value for record in await consumer.consume(2, LONG_S)]

        assert asyncio.run(read()) == [b"a", b"b"]

    def test_a_cancelled_close_leaves_nothing_behind_and_can_be_awaited_again(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"a")

        async def use() -> None:
            consumer = AwaitedConsumer(
                topic, brokers=broker.bootstrap, group=topic, auto_offset_reset="earliest"
            )
            await consumer.start()
            assert await consumer.poll(LONG_S) is not None
            closing = asyncio.ensure_future(consumer.close())
            await asyncio.sleep(0)
            assert not closing.done(), "it takes leave of the group"
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await consumer.close()
            with pytest.raises(ClientClosed):
                await consumer.poll(LONG_S)

        before = threading.enumerate()
        asyncio.run(use())
        left = [thread.name for thread in threading.enumerate() if thread not in before]
        assert not any(name.startswith("odradek-consumer") for name in left)

    def test_one_that_was_not_started(self) -> None:
        async def use() -> None:
            await AwaitedConsumer("t", brokers="127.0.0.1:1").poll()

        with pytest.raises(ClientClosed, match="start"):
            asyncio.run(use())
