"""What `acks=1` and `acks=0` have acknowledged is counted and can be deleted at once.

The clients' own calls against this broker on a disk and a real Kafka: in Kafka a partition with one
replica commits a record when it is appended, here when it is on disk.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka as kafka_python
import pytest
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from interop.apache_kafka import ApacheKafka
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

TIMES = 20
WRITTEN_WITHIN_S = 10.0


@pytest.fixture(params=["ours", "kafka"])
def bootstrap(request: pytest.FixtureRequest, ours: Broker, kafka: ApacheKafka) -> str:
    return ours.bootstrap if request.param == "ours" else kafka.bootstrap


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"acknowledged-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(15)
    return name


@pytest.fixture
def send(bootstrap: str) -> Callable[[str, int], None]:
    """Return `send(topic, acks)`, which returns when one record is acknowledged."""
    producers = {
        acks: confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0}
        )
        for acks in (0, 1)
    }

    def send_one(topic: str, acks: int) -> None:
        producers[acks].produce(topic, b"record")
        assert producers[acks].flush(WRITTEN_WITHIN_S) == 0

    return send_one


def test_librdkafka_deletes_a_record_that_is_just_acknowledged(
    admin: AdminClient, topic: str, send: Callable[[str, int], None]
) -> None:
    for offset in range(1, TIMES + 1):
        send(topic, 1)
        partition = confluent_kafka.TopicPartition(topic, 0, offset)
        deleted = admin.delete_records([partition])[partition].result(10)
        assert deleted.low_watermark == offset


@pytest.mark.parametrize("timeout_ms", [0, 1, 30_000])
def test_kafka_python_deletes_with_any_timeout(
    bootstrap: str, topic: str, send: Callable[[str, int], None], timeout_ms: int
) -> None:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=bootstrap)
    partition = kafka_python.TopicPartition(topic, 0)
    for offset in range(1, 4):
        send(topic, 1)
        deleted = admin.delete_records({partition: offset}, timeout_ms=timeout_ms)
        assert deleted[partition]["low_watermark"] == offset
    admin.close()


def test_librdkafka_lists_an_end_that_counts_it(
    admin: AdminClient, topic: str, send: Callable[[str, int], None]
) -> None:
    partition = confluent_kafka.TopicPartition(topic, 0)
    for end in range(1, TIMES + 1):
        send(topic, 1)
        found = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(10)
        assert found.offset == end


def test_kafka_python_lists_an_end_that_counts_it(
    bootstrap: str, topic: str, send: Callable[[str, int], None]
) -> None:
    consumer = kafka_python.KafkaConsumer(bootstrap_servers=bootstrap)
    partition = kafka_python.TopicPartition(topic, 0)
    for end in range(1, TIMES + 1):
        send(topic, 1)
        assert consumer.end_offsets([partition]) == {partition: end}
    consumer.close()


def test_aiokafka_lists_an_end_that_counts_it(
    bootstrap: str, topic: str, send: Callable[[str, int], None]
) -> None:
    async def ends() -> list[int]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        partition = aiokafka.TopicPartition(topic, 0)
        found = []
        for _ in range(TIMES):
            send(topic, 1)
            found += (await consumer.end_offsets([partition])).values()
        await consumer.stop()
        return found

    assert asyncio.run(ends()) == list(range(1, TIMES + 1))
