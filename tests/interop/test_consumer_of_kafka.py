"""Our consumer with a real Apache Kafka: records, transactions, times, deleted records."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import confluent_kafka
import pytest

from interop.apache_kafka import ApacheKafka
from odradek import Admin, Consumer
from odradek.client.errors import OffsetOutOfRange
from odradek.model.topics import TopicPartition

pytestmark = pytest.mark.interop

LONG_S = 60.0
T0 = 1_700_000_000_000
names = itertools.count()


@pytest.fixture
def topic(kafka: ApacheKafka) -> str:
    """A new topic with three partitions."""
    name = f"consumed-{next(names)}"
    with Admin(brokers=kafka.bootstrap) as admin:
        admin.create_topic(name, partitions=3)
    return name


Produce = Callable[..., None]


@pytest.fixture
def produce(kafka: ApacheKafka, topic: str) -> Produce:
    """`produce(*values, partition=0, codec="none")`, which writes one record for each value."""

    def send(*values: bytes, partition: int = 0, codec: str = "none") -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": kafka.bootstrap, "compression.type": codec}
        )
        for index, value in enumerate(values):
            producer.produce(topic, value, partition=partition, timestamp=T0 + index)
        assert producer.flush(LONG_S) == 0

    return send


def values_of(consumer: Consumer[bytes, bytes]) -> list[bytes | None]:
    """Read to the end of the assigned partitions."""
    return [record.value for record in consumer]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_read(
    kafka: ApacheKafka, topic: str, produce: Produce, codec: str
) -> None:
    expected = [b"%d" % number * 20 for number in range(500)]
    produce(*expected, codec=codec)
    with Consumer(brokers=kafka.bootstrap) as consumer:
        consumer.assign({(topic, 0): (0, 500)})
        assert values_of(consumer) == expected
        consumer.seek((topic, 0), "start")
        columns = [batch["value"].to_pylist() for batch in consumer.arrow(max_wait=LONG_S)]
        assert list(itertools.chain(*columns)) == expected


def test_read_committed_returns_only_committed_records(kafka: ApacheKafka, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic}
    )
    producer.init_transactions(LONG_S)
    for number in range(6):
        producer.begin_transaction()
        for part in range(3):
            producer.produce(topic, b"%d/%d" % (number, part), partition=0)
        assert producer.flush(LONG_S) == 0
        if number % 2:
            producer.abort_transaction(LONG_S)
        else:
            producer.commit_transaction(LONG_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(LONG_S) == 0
    partition = TopicPartition(topic, 0)
    committed = [b"%d/%d" % (number, part) for number in (0, 2, 4) for part in range(3)]
    everything = [b"%d/%d" % (number, part) for number in range(6) for part in range(3)]
    with Consumer(brokers=kafka.bootstrap) as consumer:
        stable = consumer.end_offsets(partition)[partition]
        consumer.assign({partition: (0, stable)})
        assert values_of(consumer) == committed
        assert consumer.position(partition) == stable, "markers and aborted records are skipped"
        consumer.seek(partition, "start")
        columns = [batch["value"].to_pylist() for batch in consumer.arrow(max_wait=LONG_S)]
        assert list(itertools.chain(*columns)) == committed
    with Consumer(brokers=kafka.bootstrap, isolation_level="read_uncommitted") as consumer:
        end = consumer.end_offsets(partition)[partition]
        assert end > stable
        consumer.assign({partition: (0, end)})
        assert values_of(consumer) == [*everything, b"open"]
    producer.abort_transaction(LONG_S)


def test_a_group_continues_at_its_committed_offset(
    kafka: ApacheKafka, topic: str, produce: Produce
) -> None:
    for partition in range(3):
        produce(*[b"%d" % number for number in range(20)], partition=partition)
    seen: list[tuple[int, int]] = []
    for count in (25, 35):
        with Consumer(
            topic, brokers=kafka.bootstrap, group=topic, auto_offset_reset="earliest"
        ) as consumer:
            records = itertools.islice(consumer, count)
            seen += [(record.partition, record.offset) for record in records]
    assert sorted(seen) == [(p, offset) for p in range(3) for offset in range(20)]


def test_dead_letters_are_written_to_their_topic(
    kafka: ApacheKafka, topic: str, produce: Produce
) -> None:
    produce(b'{"id": 1}', b"{", b'{"id": 2}')
    dead = f"{topic}-dead"
    with Admin(brokers=kafka.bootstrap) as admin:
        admin.create_topic(dead)
    with Consumer(
        topic,
        group=topic,
        brokers=kafka.bootstrap,
        value="json",
        auto_offset_reset="earliest",
        on_decode_error=f"dlq:{dead}",
    ) as consumer:
        assert [record.value for record in consumer.consume(2, LONG_S)] == [{"id": 1}, {"id": 2}]
    with Consumer(brokers=kafka.bootstrap) as consumer:
        consumer.assign({(dead, 0): (0, 1)})
        (letter,) = consumer
    assert (letter.value, letter.timestamp_ms) == (b"{", T0 + 1)
    assert dict(letter.headers)["__connect.errors.offset"] == b"1"


def test_offsets_for_times_and_end_offsets_are_right(
    kafka: ApacheKafka, topic: str, produce: Produce
) -> None:
    produce(b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    with Consumer(brokers=kafka.bootstrap) as consumer:
        found = consumer.offsets_for_times({partition: T0 + 1})[partition]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (1, T0 + 1)
        assert consumer.offsets_for_times({partition: T0 + 10}) == {partition: None}
        assert consumer.watermarks(partition) == (0, 3)


def test_a_position_in_deleted_records_is_reset(
    kafka: ApacheKafka, topic: str, produce: Produce
) -> None:
    produce(*[b"%d" % number for number in range(10)])
    partition = TopicPartition(topic, 0)
    with Admin(brokers=kafka.bootstrap) as admin:
        admin.delete_records({partition: 4})
    with Consumer(brokers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign({partition: (1, 10)})
        assert values_of(consumer) == [b"%d" % number for number in range(4, 10)]
    with Consumer(brokers=kafka.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign({partition: 1})
        with pytest.raises(OffsetOutOfRange) as failed:
            consumer.poll(LONG_S)
        assert failed.value.offsets == {partition: 1}


def test_a_fetch_session_follows_changes_of_its_partitions(
    kafka: ApacheKafka, topic: str, produce: Produce
) -> None:
    with Consumer(brokers=kafka.bootstrap, fetch_max_wait_ms=50) as consumer:
        consumer.assign({(topic, partition): 0 for partition in range(3)})
        for turn in range(5):
            produce(b"%d" % turn, partition=turn % 3)
            record = consumer.poll(LONG_S)
            assert record is not None
            assert (record.partition, record.value) == (turn % 3, b"%d" % turn)
            consumer.pause((topic, turn % 3))
            assert consumer.poll(0) is None
            consumer.resume((topic, turn % 3))
