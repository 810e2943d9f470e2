"""kafka-python against this broker."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from clients.records import CODECS, RECORDS, Sent
from odradek.testing.broker import Broker


@pytest.fixture(autouse=True)
def leaked_sockets() -> Iterator[None]:
    """kafka-python leaves its wake-up sockets to the garbage collector: let that happen here."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    broker: Broker, new_topic: Callable[..., str], codec: str
) -> None:
    topic = new_topic()
    # kafka-python cannot send a header without a value.
    records = [r for r in RECORDS if all(value is not None for _, value in r.headers)]
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=None if codec == "none" else codec,
        acks="all",
        linger_ms=5,
    )
    sent = [
        producer.send(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            partition=0,
            timestamp_ms=record.timestamp,
        )
        for record in records
    ]
    assert [future.get(20).offset for future in sent] == list(range(len(records)))
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, check_crcs=True, consumer_timeout_ms=10_000
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = [next(consumer) for _ in records]
    assert consumer.end_offsets([partition]) == {partition: len(records)}
    consumer.close()
    assert [Sent(r.key, r.value, list(r.headers), r.timestamp) for r in found] == records


def test_admin_sees_topics_and_their_configurations(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    admin.close()
