"""The client libraries of Python, each told in the same few words what to do.

    with library.producer(bootstrap, codec="zstd", idempotent=True) as producer:
        offsets = producer.send(topic, [(partition, record), ...])  # all acknowledged
    with library.consumer(bootstrap, topic, partitions=2) as consumer:
        rows = consumer.read(count)                                 # assigned, from the beginning
    with library.admin(bootstrap) as admin:
        admin.create(topic, partitions)

What a library cannot do is said here too. `LARGE` is what all may send and `SMALL_FETCH` what they
ask for per partition, so a record may be larger than what is asked for.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka

from clients.records import Sent

PATIENCE_S = 60
"""For what should happen, on a machine that has much else to do."""
PATIENCE_MS = PATIENCE_S * 1000
LONG_WAIT_MS = 2 * PATIENCE_MS
"""How long a fetch without records may wait: longer than a test does."""
LARGE = 2_000_000
SMALL_FETCH = 1000

Row = tuple[int, Sent]
"""A partition and what is in it."""


class Producing(Protocol):
    def send(self, topic: str, rows: Sequence[Row]) -> list[int]:
        """The offsets, once all are acknowledged by all."""


class Consuming(Protocol):
    def read(self, count: int) -> list[Row]:
        """The next records; within a partition in the order they came."""


class Administering(Protocol):
    def create(self, topic: str, partitions: int, **config: str) -> None: ...

    def grow(self, topic: str, partitions: int) -> None: ...

    def partitions(self) -> dict[str, int]:
        """How many each topic has."""

    def setting(self, topic: str, name: str) -> str: ...

    def delete(self, topic: str) -> None: ...


class Library(ABC):
    """One client library."""

    name: str
    null_headers = True
    """Whether it can send a header without a value."""

    @abstractmethod
    def producer(
        self, bootstrap: str, codec: str = "none", idempotent: bool = False
    ) -> AbstractContextManager[Producing]: ...

    @abstractmethod
    def consumer(
        self, bootstrap: str, topic: str, partitions: int = 1, max_wait_ms: int = 500
    ) -> AbstractContextManager[Consuming]: ...

    @abstractmethod
    def admin(self, bootstrap: str) -> AbstractContextManager[Administering]: ...


class ConfluentKafka(Library):
    """librdkafka underneath."""

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
        yield ConfluentConsumer(consumer)
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
                headers=headers,
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
                sent = Sent(m.key(), m.value(), m.headers() or [], m.timestamp()[1])
                rows.append((m.partition(), sent))
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
        yield KafkaPythonProducer(producer)
        producer.close()

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
        yield KafkaPythonConsumer(consumer)
        consumer.close()

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Administering]:
        client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        yield KafkaPythonAdmin(client)
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


class Aiokafka(Library):
    """It speaks only non-flexible versions. Its loop runs while something is asked of it."""

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
            yield AiokafkaProducer(runner, producer)
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
            yield AiokafkaConsumer(runner, consumer)
            runner.run(consumer.stop())

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Administering]:
        async def made() -> aiokafka.admin.AIOKafkaAdminClient:
            client = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await client.start()
            return client

        with asyncio.Runner() as runner:
            client = runner.run(made())
            yield AiokafkaAdmin(runner, client)
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
    """It hands out answers as they come, error codes and all."""

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


def dotted(config: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in config.items()}


LIBRARIES = (ConfluentKafka(), KafkaPython(), Aiokafka())
