"""kafka-python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import kafka

from clients.libraries.library import (
    LARGE,
    LONG_WAIT_MS,
    PATIENCE_MS,
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


class KafkaPython(Library):
    name = "kafka-python"
    null_headers = False

    @contextmanager
    def producer(
        self, bootstrap: str, codec: str = "none", idempotent: bool = False
    ) -> Iterator[Producing]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
            max_request_size=LARGE,
            reconnect_backoff_max_ms=200,
        )
        try:
            yield KafkaPythonProducer(producer)
        finally:
            producer.close(PATIENCE_S)

    @contextmanager
    def consumer(
        self, bootstrap: str, topic: str, partitions: int = 1, max_wait_ms: int = 500
    ) -> Iterator[Consuming]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            check_crcs=True,
            fetch_max_wait_ms=max_wait_ms,
            request_timeout_ms=2 * LONG_WAIT_MS,
            connections_max_idle_ms=4 * LONG_WAIT_MS,
            max_partition_fetch_bytes=SMALL_FETCH,
            consumer_timeout_ms=PATIENCE_MS,
            reconnect_backoff_max_ms=200,
        )
        assigned = [kafka.TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        try:
            yield KafkaPythonConsumer(consumer)
        finally:
            consumer.close()

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Administering]:
        client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            yield KafkaPythonAdmin(client)
        finally:
            client.close()


class KafkaPythonProducer:
    def __init__(self, producer: kafka.KafkaProducer) -> None:
        self._producer = producer

    def send(self, topic: str, rows: Sequence[Row]) -> list[int]:
        sent = [
            self._producer.send(
                topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp
            )
            for partition, (key, value, headers, timestamp) in rows
        ]
        return [future.get(PATIENCE_S).offset for future in sent]


class KafkaPythonConsumer:
    def __init__(self, consumer: kafka.KafkaConsumer) -> None:
        self._consumer = consumer

    def read(self, count: int) -> list[Row]:
        found = [next(self._consumer) for _ in range(count)]
        return [(r.partition, Sent(r.key, r.value, list(r.headers), r.timestamp)) for r in found]


class KafkaPythonAdmin:
    def __init__(self, client: kafka.KafkaAdminClient) -> None:
        self._client = client

    def create(self, topic: str, partitions: int, **config: str) -> None:
        self._client.create_topics(
            {topic: {"num_partitions": partitions, "configs": dotted(config)}}
        )

    def grow(self, topic: str, partitions: int) -> None:
        self._client.create_partitions({topic: partitions})

    def partitions(self) -> dict[str, int]:
        return {topic["name"]: len(topic["partitions"]) for topic in self._client.describe_topics()}

    def setting(self, topic: str, name: str) -> str:
        kind = kafka.admin.ConfigResourceType.TOPIC
        resource = kafka.admin.ConfigResource(kind, topic)
        return str(self._client.describe_configs([resource])["topic"][topic][name]["value"])

    def delete(self, topic: str) -> None:
        self._client.delete_topics([topic])
