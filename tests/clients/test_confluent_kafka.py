"""Features of confluent-kafka (librdkafka) beyond those of every library.

Acknowledgements of every kind, deleted records, configurations, offsets by time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from clients.records import RECORDS, T0, Sent
from odradek.testing.broker import Broker

NewTopicFn = Callable[..., str]


def produce(broker: Broker, topic: str, records: list[Sent], **settings: Any) -> list[int]:
    """Produce all to partition 0; return the offsets that the broker reported."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **settings})
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        assert error is None, error
        offsets.append(message.offset())  # type: ignore[attr-defined]

    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            0,
            headers=record.headers,  # type: ignore[arg-type]
            timestamp=record.timestamp,
            on_delivery=delivered,
        )
    assert producer.flush(20) == 0
    return offsets


def read(broker: Broker, topic: str, count: int, partition: int = 0, **settings: Any) -> list:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    messages: list[Any] = []
    while len(messages) < count:
        batch = consumer.consume(count - len(messages), 10)
        assert batch, f"only {len(messages)} of {count} records came"
        for message in batch:
            assert message.error() is None, message.error()
        messages += batch
    consumer.close()
    return messages


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_read_back_for_every_acks_setting(
    broker: Broker, new_topic: NewTopicFn, acks: str
) -> None:
    topic = new_topic()
    produce(broker, topic, RECORDS, **{"acks": acks, "enable.idempotence": False})
    messages = read(broker, topic, len(RECORDS))
    assert [
        Sent(m.key(), m.value(), m.headers() or [], m.timestamp()[1]) for m in messages
    ] == RECORDS
    assert [m.offset() for m in messages] == list(range(len(RECORDS)))


def test_a_record_above_the_topics_limit_is_refused(broker: Broker, new_topic: NewTopicFn) -> None:
    topic = new_topic(max_message_bytes="1000")
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, bytes(2000), on_delivery=lambda error, _: errors.append(error))  # type: ignore[arg-type]
    assert producer.flush(20) == 0
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_watermarks_and_offsets_for_times_are_right(
    broker: Broker, new_topic: NewTopicFn, admin: AdminClient
) -> None:
    topic = new_topic()
    produce(broker, topic, [Sent(None, b"%d" % i, [], T0 + 1000 * i) for i in range(10)])
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    partition = TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(partition, timeout=60) == (0, 10)
    asked = [TopicPartition(topic, 0, T0 + 3500)]
    assert consumer.offsets_for_times(asked, timeout=60)[0].offset == 4
    consumer.close()
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.max_timestamp(), 9),
        (OffsetSpec.for_timestamp(T0 + 9001), -1),
    ):
        found = admin.list_offsets(
            {partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED
        )[partition].result(60)
        assert found.offset == offset


def test_topics_partitions_and_records_can_be_managed(
    broker: Broker, new_topic: NewTopicFn, admin: AdminClient
) -> None:
    topic = new_topic(partitions=2)
    produce(broker, topic, RECORDS)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(60)
    assert len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == 4
    trimmed = admin.delete_records([TopicPartition(topic, 0, 3)])
    assert [f.result(10).low_watermark for f in trimmed.values()] == [3]
    assert read(broker, topic, 1)[0].offset() == 3
    admin.delete_topics([topic])[topic].result(60)
    assert topic not in admin.list_topics(timeout=60).topics


def test_a_topic_that_exists_cannot_be_created_again(
    new_topic: NewTopicFn, admin: AdminClient
) -> None:
    from confluent_kafka.admin import NewTopic

    topic = new_topic()
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


def test_configurations_can_be_described_and_altered(
    new_topic: NewTopicFn, admin: AdminClient
) -> None:
    topic = new_topic(retention_ms="1234")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(60)
    assert described["retention.ms"].value == "1234"
    assert described["segment.bytes"].is_default
    change = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", "99", incremental_operation=_set()),  # type: ignore[arg-type]
        ],
    )
    admin.incremental_alter_configs([change])[change].result(60)
    described = admin.describe_configs([resource])[resource].result(60)
    assert described["retention.ms"].value == "99"


def _set() -> object:
    from confluent_kafka.admin import AlterConfigOpType

    return AlterConfigOpType.SET


def test_the_cluster_is_described(broker: Broker, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(60)
    assert [f"{n.host}:{n.port}" for n in described.nodes] == [broker.bootstrap]
    assert described.controller.id == described.nodes[0].id


def test_producing_to_an_unknown_topic_creates_it(broker: Broker) -> None:
    produce(broker, "made-on-the-fly", [Sent(None, b"x", [], T0)])
    assert [m.value() for m in read(broker, "made-on-the-fly", 1)] == [b"x"]
