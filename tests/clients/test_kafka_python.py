"""kafka-python against this broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from clients.records import CODECS, RECORDS, Sent
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from odradek.testing.broker import Broker


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    broker: Broker, new_topic: Callable[..., str], codec: str
) -> None:
    topic = new_topic()
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
        for record in RECORDS
    ]
    assert [future.get(20).offset for future in sent] == list(range(len(RECORDS)))
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, check_crcs=True, consumer_timeout_ms=10_000
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = [next(consumer) for _ in RECORDS]
    assert consumer.end_offsets([partition]) == {partition: len(RECORDS)}
    consumer.close()
    assert [Sent(r.key, r.value, list(r.headers), r.timestamp) for r in found] == RECORDS


def test_admin_sees_topics_and_their_configurations(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    admin.close()
