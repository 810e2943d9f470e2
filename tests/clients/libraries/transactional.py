"""Transactional producers of the libraries, behind one interface."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors

from odradek import KafkaError, Producer, TopicPartition
from odradek.client.consumer.assignor.partition_assignor import ConsumerGroupMetadata

T = TypeVar("T")
PATIENCE_S = 60


class TransactionalProducer(ABC):
    """A producer with a transactional id, of any library. Each call blocks until it is done.

    The calls raise the library's own errors, which are among `refused`.
    """

    refused: tuple[type[Exception], ...]

    @abstractmethod
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """Not ready until `init`."""

    @abstractmethod
    def init(self) -> None:
        """Get a producer id, and shut out earlier producers of the transactional id."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Send a record and wait for its acknowledgement."""

    @abstractmethod
    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets of a group with the transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; what is open stays open if the library lets it."""


class Confluent(TransactionalProducer):
    """librdkafka's. It uses transactions of version 1."""

    refused = (confluent_kafka.KafkaException,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "log_level": 0,
            }
        )

    def init(self) -> None:
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        errors: list[Any] = []
        self._producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
        self._producer.flush(PATIENCE_S)
        # Not compared with `==`: that of its errors with None leaves a TypeError behind.
        if not errors or errors[0] is not None:
            raise confluent_kafka.KafkaException(errors[0] if errors else "not delivered")

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": group}
        )
        try:
            positions = [
                confluent_kafka.TopicPartition(topic, number, offset)
                for (topic, number), offset in offsets.items()
            ]
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(positions, metadata, PATIENCE_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()
        with suppress(confluent_kafka.KafkaException):  # It was raised before.
            self._producer.poll(0)


class KafkaPython(TransactionalProducer):
    """kafka-python's. It uses transactions of version 1."""

    refused = (kafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition).get(PATIENCE_S)

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        positions = {
            kafka.TopicPartition(topic, number): kafka.structs.OffsetAndMetadata(offset, "", -1)
            for (topic, number), offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(positions, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        # With records that were not sent, `close` raises, and the thread of the producer goes on.
        self._producer._sender.force_close()
        with suppress(kafka.errors.KafkaTimeoutError):
            self._producer.close(timeout=0)


class Aiokafka(TransactionalProducer):
    """aiokafka's, with a loop of its own that runs during the calls. Transactions of version 1."""

    refused = (aiokafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._run(self._made(bootstrap, transactional_id, timeout_ms))

    async def _made(self, *arguments: Any) -> aiokafka.AIOKafkaProducer:
        bootstrap, transactional_id, timeout_ms = arguments
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(call, PATIENCE_S))

    def init(self) -> None:
        self._run(self._producer.start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        positions = {
            aiokafka.TopicPartition(topic, number): offset
            for (topic, number), offset in offsets.items()
        }
        self._run(self._producer.send_offsets_to_transaction(positions, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()


class Odradek(TransactionalProducer):
    """Our own. It uses transactions of version 2."""

    refused = (KafkaError,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = Producer(
            {"transaction.timeout.ms": timeout_ms},
            brokers=bootstrap,
            transactional_id=transactional_id,
        )

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition).result(PATIENCE_S)

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        positions = {TopicPartition(*where): offset for where, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(
            positions, ConsumerGroupMetadata(group, -1, "", None)
        )

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


TRANSACTIONAL = (Confluent, KafkaPython, Aiokafka)
