"""A broker, a local Spark session shared by all tests, and topics of one's own.

`KAFKA_BOOTSTRAP=host:port` runs the same tests against another broker, such as a real Apache Kafka.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin
from pyspark.sql import DataFrame, SparkSession

from odradek.spark import local_session
from odradek.testing.broker import Broker
from temporary_files import use_class_archive

TIMEOUT_SECONDS = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def class_archive() -> None:
    use_class_archive(os.environ)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    given = os.environ.get("KAFKA_BOOTSTRAP")
    if given:
        yield given
        return
    # Records of tests have times long ago.
    with Broker(settings={"log.retention.ms": -1}) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with up to three attempts per task, so that a killed worker is only a retry."""
    session = local_session("tests", master="local[2,3]", quick_start=True)
    yield session
    session.stop()


@dataclass
class Topic:
    """A topic for one test, written and read back with confluent-kafka."""

    bootstrap: str
    name: str

    def produce(self, *values: object, partition: int = 0, **more: Any) -> None:
        """Produce one record per value, as text unless bytes or None; `more` goes to confluent's
        produce.
        """
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, "logger": None})
        for value in values:
            raw = value if value is None or isinstance(value, bytes) else str(value).encode()
            producer.produce(self.name, raw, partition=partition, **more)
        assert producer.flush(TIMEOUT_SECONDS) == 0

    def records(self, partition: int = 0) -> list[confluent_kafka.Message]:
        """Return all records of a partition."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "logger": None,
            }
        )
        where = confluent_kafka.TopicPartition(self.name, partition, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=TIMEOUT_SECONDS)
        consumer.assign([where])
        found: list[confluent_kafka.Message] = []
        while not found or found[-1].offset() < end - 1:  # type: ignore[operator]
            if end == 0:
                break
            message = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None
            assert message.error() is None, message.error()
            found.append(message)
        consumer.close()
        return found

    def committed(self, partitions: int = 1) -> list[bytes]:
        """Return the values that a reader of committed records gets. It waits for the last stable
        offset to reach the end: nothing may be open."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "logger": None,
            }
        )
        at = [confluent_kafka.TopicPartition(self.name, n, 0) for n in range(partitions)]
        ends = {
            p.partition: consumer.get_watermark_offsets(p, timeout=TIMEOUT_SECONDS)[1] for p in at
        }
        ends = {partition: end for partition, end in ends.items() if end > 0}
        consumer.assign(at)
        values = []
        while ends:
            message: Any = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None
            if message.error() is None:
                values.append(message.value())
                continue
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            partition = message.partition()
            if consumer.position([at[partition]])[0].offset >= ends.get(partition, 0):
                ends.pop(partition, None)
        consumer.close()
        return values

    def delete_records(self, before: int, partition: int = 0) -> None:
        where = confluent_kafka.TopicPartition(self.name, partition, before)
        client = self.admin()
        for done in client.delete_records([where]).values():
            done.result(TIMEOUT_SECONDS)

    def delete(self) -> None:
        client = self.admin()
        for done in client.delete_topics([self.name]).values():
            done.result(TIMEOUT_SECONDS)

    def add_partitions(self, total: int) -> None:
        wanted = [admin.NewPartitions(self.name, total)]
        client = self.admin()
        for done in client.create_partitions(wanted).values():
            done.result(TIMEOUT_SECONDS)

    def admin(self) -> admin.AdminClient:
        return admin.AdminClient({"bootstrap.servers": self.bootstrap, "logger": None})  # type: ignore[dict-item]


class Topics:
    """Makes topics."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.numbers = itertools.count()

    def missing(self, name: str | None = None) -> Topic:
        """Return a topic that does not exist."""
        return Topic(self.bootstrap, name or f"t{next(self.numbers)}-{uuid.uuid4().hex[:8]}")

    def create(self, partitions: int = 1, *, name: str | None = None, **config: Any) -> Topic:
        topic = self.missing(name)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        wanted = [admin.NewTopic(topic.name, partitions, 1, config=settings)]
        client = topic.admin()
        for done in client.create_topics(wanted).values():
            done.result(TIMEOUT_SECONDS)
        return topic


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def read(spark: SparkSession, bootstrap: str):
    """A batch read: `read(topic, option=value)`."""

    def frame(topic: Topic | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("odradek").option("kafka.bootstrap.servers", bootstrap)
        if topic is not None:
            reader = reader.option("subscribe", topic.name)
        return reader.options(**options).load()

    return frame


@pytest.fixture
def stream(spark: SparkSession, bootstrap: str):
    """A stream: `stream(topic, option=value)`; from the beginning unless told otherwise."""

    def frame(topic: Topic, **options: Any) -> DataFrame:
        chosen = {"subscribe": topic.name, "startingOffsets": "earliest", **options}
        reader = spark.readStream.format("odradek")
        return reader.option("kafka.bootstrap.servers", bootstrap).options(**chosen).load()

    return frame
