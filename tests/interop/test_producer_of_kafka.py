"""Our producer has the same results with a real Apache Kafka and this project's broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import confluent_kafka
import pyarrow as pa
import pytest

import odradek.aio
from interop.apache_kafka import ApacheKafka
from odradek import Admin, Producer
from odradek.client.errors import KafkaError, RecordTooLarge, UnknownTopicOrPartition
from odradek.model.errors import ErrorCode
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

LONG_S = 60.0


@pytest.fixture(params=["kafka", "odradek"])
def bootstrap(request: pytest.FixtureRequest, kafka: ApacheKafka, ours: Broker) -> str:
    """The address of each of the two."""
    return kafka.bootstrap if request.param == "kafka" else ours.bootstrap


@pytest.fixture
def new_topic(bootstrap: str, request: pytest.FixtureRequest) -> Callable[..., str]:
    """`new_topic(**settings)`, which creates the topic of this test."""

    def make(partitions: int = 1, **settings: object) -> str:
        name = "".join(c if c.isalnum() else "-" for c in request.node.name)
        with Admin(brokers=bootstrap) as admin:
            config = {key.replace("_", "."): str(value) for key, value in settings.items()}
            admin.create_topic(name, partitions=partitions, config=config)
        return name

    return make


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reading", "check.crcs": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=LONG_S)
        assert messages
        found += [message.value() for message in messages if message.error() is None]  # type: ignore[misc]
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_delivered_to_both_brokers(bootstrap, new_topic, codec):
    topic = new_topic()
    expected = [b"%05d" % number * 20 for number in range(2_000)]
    with Producer(brokers=bootstrap, compression_type=codec) as producer:
        futures = [producer.send(topic, value, headers={"h": "v"}) for value in expected]
        assert [future.result(LONG_S).offset for future in futures] == list(range(2_000))
    assert read(bootstrap, topic, 2_000) == expected


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_gives_the_same_offsets(bootstrap, new_topic, acks):
    topic = new_topic()
    with Producer(brokers=bootstrap, acks=acks) as producer:
        offset = producer.send(topic, "x").result(LONG_S).offset
    assert offset == (-1 if acks == "0" else 0)
    assert read(bootstrap, topic, 1) == [b"x"]


def test_a_delivery_has_the_append_time_of_the_topic(bootstrap, new_topic):
    topic = new_topic(message_timestamp_type="LogAppendTime")
    with Producer(brokers=bootstrap) as producer:
        assert producer.send(topic, "x", timestamp=1).result(LONG_S).timestamp_ms > 1


def test_a_batch_that_is_too_large_is_split(bootstrap, new_topic):
    topic = new_topic(max_message_bytes=2_000)
    expected = [b"%03d" % number * 30 for number in range(300)]
    with Producer(brokers=bootstrap, batch_size=100_000) as producer:
        futures = [producer.send(topic, value) for value in expected]
        assert [future.result(LONG_S).offset for future in futures] == list(range(300))
        assert producer.metrics()["batch-split-total"] > 0
        assert isinstance(producer.send(topic, "x" * 3_000).exception(LONG_S), RecordTooLarge)
        assert producer.send(topic, "and on").result(LONG_S).offset == 300
    assert read(bootstrap, topic, 300) == expected


def test_a_record_refused_by_the_topic_raises_the_same_error(bootstrap, new_topic):
    topic = new_topic(cleanup_policy="compact")
    with Producer(brokers=bootstrap) as producer:
        error = producer.send(topic, "no key").exception(LONG_S)
        assert isinstance(error, KafkaError)
        assert error.code == ErrorCode.INVALID_RECORD
        assert producer.send(topic, "value", key="k").result(LONG_S).offset == 0


def test_a_missing_partition_raises_the_same_error(bootstrap, new_topic):
    topic = new_topic()
    producer = Producer(brokers=bootstrap, max_block_ms=10_000)
    with producer, pytest.raises(UnknownTopicOrPartition, match="0 to 0"):
        producer.send(topic, "x", partition=7)


def test_send_arrow_of_the_asyncio_producer_delivers_all_rows(bootstrap, new_topic):
    topic = new_topic()
    table = pa.table({"value": [f"{number}" for number in range(5_000)]})

    async def main() -> None:
        async with odradek.aio.Producer(brokers=bootstrap) as producer:
            (found,) = merged(await (await producer.send_arrow(topic, table)))
            assert found == (0, 4_999)
            assert (await producer.send(topic, "last")).offset == 5_000

    asyncio.run(main())
    assert read(bootstrap, topic, 5_001)[-2:] == [b"4999", b"last"]


def merged(ranges: list) -> list[tuple[int, int]]:
    """Merge consecutive ranges."""
    found: list[tuple[int, int]] = []
    for each in ranges:
        if found and found[-1][1] + 1 == each.first_offset:
            found[-1] = found[-1][0], each.last_offset
        else:
            found.append((each.first_offset, each.last_offset))
    return found
