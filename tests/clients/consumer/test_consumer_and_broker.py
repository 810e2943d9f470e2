"""Our consumer against our broker: records one by one, and Arrow data."""

from __future__ import annotations

import pickle
import re
import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from clients.consumer.written import A_BATCH, LONG_S, T0, NewTopic, Produce
from odradek.client.blocking.consumer import Consumer
from odradek.client.errors import ClientClosed
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker


class TestReading:
    def test_poll_and_next_return_records_one_by_one(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
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
    def test_values_are_deserialized_as_configured(
        self,
        broker: Broker,
        new_topic: NewTopic,
        produce: Produce,
        value: object,
        expected: object,
    ) -> None:
        topic = new_topic()
        produce(topic, b"1")
        with Consumer(brokers=broker.bootstrap, value=value) as consumer:  # type: ignore[call-overload]
            consumer.assign({(topic, 0): 0})
            record = consumer.poll(LONG_S)
            assert record is not None
            assert record.value == expected

    def test_consume_returns_many_records_and_ends_with_the_range(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic(partitions=2)
        for partition in (0, 1):
            produce(topic, *[b"%d" % n for n in range(100)], partition=partition)
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign({(topic, 0): (0, 100), (topic, 1): (0, 100)})
            records = consumer.consume(150, LONG_S)
            assert len(records) == 150
            assert len(consumer.consume(150, LONG_S)) == 50, (
                "the remaining records, without waiting for more"
            )
            assert consumer.poll(LONG_S) is None, "the read has ended"
            assert list(consumer) == []
            for partition in (0, 1):
                consumer.seek((topic, partition), "start")
            sizes = [len(batch) for batch in consumer.batches(max_records=70, max_wait=LONG_S)]
            assert sizes == [70, 70, 60]

    def test_more_records_than_the_prefetch_limit_are_read_one_by_one(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, values = new_topic(), [b"%05d" % n * 20 for n in range(300)]
        for start in range(0, 300, 100):
            produce(topic, *values[start : start + 100])
        with Consumer(brokers=broker.bootstrap, prefetch_max_bytes=A_BATCH) as consumer:
            consumer.assign({(topic, 0): (0, 300)})
            assert [record.value for record in consumer] == values

    def test_seek_and_offsets_for_times_take_a_time(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
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

    def test_watermarks_lag_offsets_and_partitions_are_right(
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

    def test_pause_and_resume_take_one_or_several_partitions(
        self, broker: Broker, new_topic: NewTopic
    ) -> None:
        topic = new_topic(3)
        first, second, third = (TopicPartition(topic, number) for number in range(3))
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign([first, second, third])
            consumer.pause([first, (topic, 2)])
            assert consumer.paused() == [first, third]
            consumer.resume(consumer.paused())
            consumer.pause(first, second)
            consumer.pause([])
            assert consumer.paused() == [first, second]
            consumer.resume({first}, second)
            assert consumer.paused() == []

    def test_without_a_group_a_pattern_matches_topics_created_later(
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
    def test_arrow_batches_contain_all_records(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
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
            [headers] = batches[0].slice(0, 1)["headers"].to_pylist()  # type: ignore[attr-defined]
            assert headers == [{"key": "n", "value": b"0"}]
            assert batches[0].schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")
            committed = [consumer.commit(batch) for batch in batches]
            assert committed[-1] is not None
            found = consumer.committed([(topic, 0), (topic, 1)])
            assert {p.partition: at.offset for p, at in found.items() if at} == {0: 2, 1: 1}

    def test_arrow_batches_are_a_stream_for_other_libraries(
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

    def test_a_batch_ends_with_the_row_that_exceeds_max_bytes(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, *[b"ten bytes!" for _ in range(10)])
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign({(topic, 0): (0, 10)})
            batches = list(consumer.arrow(max_wait=LONG_S, max_bytes=1))
        assert [len(batch) for batch in batches] == [1] * 10
        assert [n for batch in batches for n in batch["offset"].to_pylist()] == list(range(10))


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
