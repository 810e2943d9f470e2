"""aiokafka, whose loop runs during each call."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import aiokafka
import aiokafka.admin

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


class Aiokafka(Library):
    """aiokafka supports only non-flexible versions."""

    name = "aiokafka"
    null_headers = False

    @contextmanager
    def producer(
        self, bootstrap: str, codec: str = "none", idempotent: bool = False
    ) -> Iterator[Producing]:
        async def made() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                acks="all",
                linger_ms=5,
                max_request_size=LARGE,
            )
            await producer.start()
            return producer

        with asyncio.Runner() as runner:
            producer = runner.run(made())
            try:
                yield AiokafkaProducer(runner, producer)
            finally:
                runner.run(producer.stop())

    @contextmanager
    def consumer(
        self, bootstrap: str, topic: str, partitions: int = 1, max_wait_ms: int = 500
    ) -> Iterator[Consuming]:
        async def made() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                check_crcs=True,
                fetch_max_wait_ms=max_wait_ms,
                request_timeout_ms=2 * LONG_WAIT_MS,
                max_partition_fetch_bytes=SMALL_FETCH,
                enable_auto_commit=False,
            )
            await consumer.start()
            assigned = [aiokafka.TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            return consumer

        with asyncio.Runner() as runner:
            consumer = runner.run(made())
            try:
                yield AiokafkaConsumer(runner, consumer)
            finally:
                runner.run(consumer.stop())

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Administering]:
        async def made() -> aiokafka.admin.AIOKafkaAdminClient:
            client = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await client.start()
            return client

        with asyncio.Runner() as runner:
            client = runner.run(made())
            try:
                yield AiokafkaAdmin(runner, client)
            finally:
                runner.run(client.close())


class AiokafkaProducer:
    def __init__(self, runner: asyncio.Runner, producer: aiokafka.AIOKafkaProducer) -> None:
        self._runner = runner
        self._producer = producer

    def send(self, topic: str, rows: Sequence[Row]) -> list[int]:
        return self._runner.run(asyncio.wait_for(self._sent(topic, rows), PATIENCE_S))

    async def _sent(self, topic: str, rows: Sequence[Row]) -> list[int]:
        sent = [
            await self._producer.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp, headers=headers
            )
            for partition, (key, value, headers, timestamp) in rows
        ]
        return [found.offset for found in await asyncio.gather(*sent)]


class AiokafkaConsumer:
    def __init__(self, runner: asyncio.Runner, consumer: aiokafka.AIOKafkaConsumer) -> None:
        self._runner = runner
        self._consumer = consumer

    def read(self, count: int) -> list[Row]:
        return self._runner.run(asyncio.wait_for(self._read(count), PATIENCE_S))

    async def _read(self, count: int) -> list[Row]:
        found = [await self._consumer.getone() for _ in range(count)]
        return [(r.partition, Sent(r.key, r.value, list(r.headers), r.timestamp)) for r in found]


class AiokafkaAdmin:
    """Its admin client returns responses unchanged, error codes included."""

    def __init__(self, runner: asyncio.Runner, client: aiokafka.admin.AIOKafkaAdminClient) -> None:
        self._runner = runner
        self._client = client

    def _answer(self, asked: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(asyncio.wait_for(asked, PATIENCE_S))

    def create(self, topic: str, partitions: int, **config: str) -> None:
        new = aiokafka.admin.NewTopic(topic, partitions, 1, topic_configs=dotted(config))
        answer = self._answer(self._client.create_topics([new])).to_object()
        assert [row["error_code"] for row in answer["topic_errors"]] == [0], answer

    def grow(self, topic: str, partitions: int) -> None:
        new = {topic: aiokafka.admin.NewPartitions(partitions)}
        answer = self._answer(self._client.create_partitions(new)).to_object()
        assert [row["error_code"] for row in answer["topic_errors"]] == [0], answer

    def partitions(self) -> dict[str, int]:
        topics = self._answer(self._client.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in topics}

    def setting(self, topic: str, name: str) -> str:
        kind = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
        resource = aiokafka.admin.config_resource.ConfigResource(kind, topic)
        (answer,) = self._answer(self._client.describe_configs([resource]))
        (described,) = answer.to_object()["resources"]
        values = {row["config_names"]: row["config_value"] for row in described["config_entries"]}
        return str(values[name])

    def delete(self, topic: str) -> None:
        answer = self._answer(self._client.delete_topics([topic])).to_object()
        assert [row["error_code"] for row in answer["topic_error_codes"]] == [0], answer
