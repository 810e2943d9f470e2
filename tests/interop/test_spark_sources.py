"""Spark's own Kafka source and sink beside ours, with our broker and a real Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from interop.apache_kafka import ApacheKafka

pytestmark = pytest.mark.interop

JVM, OURS = "kafka", "odradek"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Rows = Callable[..., list[Row]]


@pytest.fixture(params=["ours", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of our broker, and of the real one."""
    return str(request.getfixturevalue(request.param).bootstrap)


@pytest.fixture
def batch(spark: SparkSession) -> Rows:
    """`batch(source, bootstrap, topic, option=value)`, rows in the order of the log."""

    def rows(source: str, bootstrap: str, topic: str, **options: Any) -> list[Row]:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
        frame = reader.option("subscribe", topic).options(includeHeaders=True, **options).load()
        return frame.orderBy("partition", "offset").collect()

    return rows


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Rows:
    """Like `batch`, for a stream that reads all records in several micro-batches."""

    def rows(source: str, bootstrap: str, topic: str, **options: Any) -> list[Row]:
        reader = spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", topic).options(includeHeaders=True, **options)
        reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=200)
        name = f"rows_{uuid.uuid4().hex}"
        writer = reader.load().writeStream.format("memory").queryName(name)
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        writer.trigger(availableNow=True).start().awaitTermination()
        return spark.table(name).orderBy("partition", "offset").collect()

    return rows


def new_topic(bootstrap: str, partitions: int = 1) -> str:
    name = f"sources-{uuid.uuid4().hex[:8]}"
    client = AdminClient({"bootstrap.servers": bootstrap, "logger": None})  # type: ignore[dict-item]
    client.create_topics([NewTopic(name, partitions, 1, config={"retention.ms": "-1"})])[
        name
    ].result(30)
    return name


def records(bootstrap: str, topic: str, partition: int) -> list[Message]:
    """Return all records of a partition, read with librdkafka."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "logger": None}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Message] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            break
        found.append(message)
    consumer.close()
    return found


def test_both_sources_return_the_same_rows(bootstrap: str, batch: Rows, stream: Rows) -> None:
    topic = new_topic(bootstrap, 3)
    for number, codec in enumerate(CODECS):
        settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50}
        producer = Producer({**settings, "logger": None})
        for each in range(120):
            headers = [("h", b"%d" % each), ("none", None), ("h", b"")]
            producer.produce(
                topic,
                None if each % 10 == 0 else f"{codec} {each}".encode() * 20,
                key=None if each % 7 == 0 else f"k{each}".encode(),
                partition=each % 3,
                timestamp=1_357_000_000_000 + number * 1_000_000 - each * 1_001,
                headers=headers if each % 3 else None,  # type: ignore[arg-type]
            )
        assert producer.flush(30) == 0
    expected = batch(JVM, bootstrap, topic)
    assert len(expected) == 120 * len(CODECS)
    assert batch(OURS, bootstrap, topic) == expected
    assert stream(OURS, bootstrap, topic) == stream(JVM, bootstrap, topic) == expected


def test_both_sources_leave_out_uncommitted_records(
    kafka: ApacheKafka, batch: Rows, stream: Rows
) -> None:
    topic = new_topic(kafka.bootstrap, 2)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "transactional.id": topic,
            "linger.ms": 5,
            "logger": None,
        }
    )
    producer.init_transactions(30)
    for number in range(8):
        producer.begin_transaction()
        for each in range(50):
            producer.produce(topic, f"{number}-{each}".encode(), partition=each % 2)
        assert producer.flush(30) == 0
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0

    committed = {"kafka.isolation.level": "read_committed"}
    expected = batch(JVM, kafka.bootstrap, topic, **committed)
    assert sorted(row.value for row in expected) == sorted(
        f"{number}-{each}".encode() for number in range(0, 8, 2) for each in range(50)
    )
    assert batch(OURS, kafka.bootstrap, topic, **committed) == expected
    assert stream(OURS, kafka.bootstrap, topic, **committed) == expected
    everything = batch(OURS, kafka.bootstrap, topic)
    assert len(everything) == 8 * 50 + 1
    assert everything == batch(JVM, kafka.bootstrap, topic)
    producer.abort_transaction(30)


@pytest.mark.parametrize("codec", CODECS)
def test_rows_written_by_our_sink_are_read_by_librdkafka(
    bootstrap: str, spark: SparkSession, codec: str
) -> None:
    topic = new_topic(bootstrap, 3)
    rows = spark.range(300).selectExpr(
        "if(id % 10 = 0, null, concat('key-', id)) key",
        "if(id % 50 = 0, null, repeat(concat('value-', id), 10)) value",
        "if(id % 4 = 0, null, array(named_struct('key', 'n', 'value', encode(id, 'utf-8')), "
        "named_struct('key', 'none', 'value', null))) headers",
        "cast(id % 3 as int) partition",
        f"'{topic}' topic",
    )
    writer = rows.write.format(OURS).mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.option("kafka.compression.type", codec).save()
    for partition in range(3):
        found = {
            (message.key(), message.value(), str(message.headers()))
            for message in records(bootstrap, topic, partition)
        }
        assert found == {
            (
                None if number % 10 == 0 else b"key-%d" % number,
                None if number % 50 == 0 else b"value-%d" % number * 10,
                str(None if number % 4 == 0 else [("n", b"%d" % number), ("none", None)]),
            )
            for number in range(partition, 300, 3)
        }


WRITTEN = [
    ("'v' value, 1 other, array(2) Key, 'x' Topic", True),
    ("binary('v') value, 'k' key", True),
    ("'v' value, 'nowhere' topic, cast(null as int) partition", True),
    ("cast(null as string) value, cast(null as binary) key", True),
    ("'v' VALUE", False),
    ("'k' key", False),
    ("1 value", False),
    ("'v' value, 1 key", False),
    ("'v' value, 0L partition", False),
    ("'v' value, 1 topic", True),
    ("'v' value, map('a', binary('b')) headers", False),
    ("'v' value, array(named_struct('key', 'a', 'value', 'b')) headers", False),
]


def test_both_sinks_accept_the_same_columns(ours, spark: SparkSession, batch: Rows) -> None:
    taken: dict[str, list[bool]] = {}
    for columns, _ in WRITTEN:
        kept = []  # type: ignore[var-annotated]
        for sink in (JVM, OURS):
            topic = new_topic(ours.bootstrap)
            writer = spark.sql(f"select {columns}").write.format(sink).mode("append")
            writer = writer.option("kafka.bootstrap.servers", ours.bootstrap)
            try:
                writer.option("topic", topic).save()
            except (PySparkException, Py4JJavaError):
                kept.append(None)  # type: ignore[arg-type]
            else:
                [row] = batch(OURS, ours.bootstrap, topic)
                kept.append((row.key, row.value, row.headers))
        assert kept[0] == kept[1], columns
        taken[columns] = kept[0] is not None  # type: ignore[assignment]
    assert taken == dict(WRITTEN)  # type: ignore[comparison-overlap]


def test_both_sinks_refuse_a_row_without_a_topic(ours, spark: SparkSession) -> None:
    rows = spark.sql("select 'v' value, cast(null as string) topic")
    complaints = {
        JVM: ("contains a null topic. Use the `topic` option", "topic option required"),
        OURS: ("a row has no topic", "option topic, or a column topic"),
    }
    for sink in (JVM, OURS):
        for frame, complaint in zip((rows, rows.drop("topic")), complaints[sink], strict=True):
            writer = frame.write.format(sink).mode("append")
            writer = writer.option("kafka.bootstrap.servers", ours.bootstrap)
            # The JVM's error is not an exception of Spark.
            with pytest.raises((PySparkException, Py4JJavaError), match=complaint):
                writer.save()
