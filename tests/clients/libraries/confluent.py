"""confluent-kafka: librdkafka underneath."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from clients.libraries.library import (
    LARGE,
    LONG_WAIT_MS,
    PATIENCE_S,
    SMALL_FETCH,
    Administering,
    Consuming,
    Library,
    Producing,
    Row,
    dotted,
)
from clients.records import Sent


class ConfluentKafka(Library):
    name = "confluent-kafka"

    @contextmanager
    def producer(
        self, bootstrap: str, codec: str = "none", idempotent: bool = False
    ) -> Iterator[Producing]:
        yield ConfluentProducer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 5,
                "message.max.bytes": LARGE,
                "reconnect.backoff.max.ms": 200,
            }
        )

    @contextmanager
    def consumer(
        self, bootstrap: str, topic: str, partitions: int = 1, max_wait_ms: int = 500
    ) -> Iterator[Consuming]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.wait.max.ms": max_wait_ms,
                "socket.timeout.ms": 2 * LONG_WAIT_MS,
                "fetch.message.max.bytes": SMALL_FETCH,
                "reconnect.backoff.max.ms": 200,
            }
        )
        beginning = confluent_kafka.OFFSET_BEGINNING
        consumer.assign(
            [confluent_kafka.TopicPartition(topic, p, beginning) for p in range(partitions)]
        )
        try:
            yield ConfluentConsumer(consumer)
        finally:
            consumer.close()

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Administering]:
        yield ConfluentAdmin(confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap}))


class ConfluentProducer:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = confluent_kafka.Producer(settings)

    def send(self, topic: str, rows: Sequence[Row]) -> list[int]:
        offsets: list[int] = []

        def delivered(error: confluent_kafka.KafkaError | None, message: Any) -> None:
            assert error is None, error
            offsets.append(message.offset())

        for partition, (key, value, headers, timestamp) in rows:
            self._producer.produce(
                topic,
                value,
                key,
                partition,
                headers=headers,  # type: ignore[arg-type]
                timestamp=timestamp,
                on_delivery=delivered,
            )
        assert self._producer.flush(PATIENCE_S) == 0
        return offsets


class ConfluentConsumer:
    def __init__(self, consumer: confluent_kafka.Consumer) -> None:
        self._consumer = consumer

    def read(self, count: int) -> list[Row]:
        rows: list[Row] = []
        while len(rows) < count:
            messages = self._consumer.consume(count - len(rows), PATIENCE_S)
            assert messages, f"only {len(rows)} of {count} records came"
            for m in messages:
                assert m.error() is None, m.error()
                sent = Sent(m.key(), m.value(), m.headers() or [], m.timestamp()[1])  # type: ignore[arg-type]
                rows.append((m.partition(), sent))  # type: ignore[arg-type]
        return rows


class ConfluentAdmin:
    def __init__(self, client: confluent_kafka.admin.AdminClient) -> None:
        self._client = client

    def create(self, topic: str, partitions: int, **config: str) -> None:
        new = confluent_kafka.admin.NewTopic(topic, partitions, 1, config=dotted(config))
        self._client.create_topics([new])[topic].result(PATIENCE_S)

    def grow(self, topic: str, partitions: int) -> None:
        new = confluent_kafka.admin.NewPartitions(topic, partitions)
        self._client.create_partitions([new])[topic].result(PATIENCE_S)

    def partitions(self) -> dict[str, int]:
        topics = self._client.list_topics(timeout=PATIENCE_S).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def setting(self, topic: str, name: str) -> str:
        kind = confluent_kafka.admin.ResourceType.TOPIC
        resource = confluent_kafka.admin.ConfigResource(kind, topic)
        found = self._client.describe_configs([resource])[resource].result(PATIENCE_S)
        return str(found[name].value)

    def delete(self, topic: str) -> None:
        self._client.delete_topics([topic])[topic].result(PATIENCE_S)
