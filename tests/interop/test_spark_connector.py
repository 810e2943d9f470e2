"""Spark's own Kafka connector (the JVM's, `format("kafka")`) with this broker.

Our data source reads what the connector writes, and reads the same rows as the connector.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

JVM, OURS = "kafka", "odradek"

Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, ours: Broker) -> Read:
    """`read(source, topic, option=value)`, a batch read in the order of the log."""

    def frame(source: str, topic: str, **options: Any) -> DataFrame:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", ours.bootstrap)
        rows = reader.option("subscribe", topic).options(**options).load()
        return rows.orderBy("partition", "offset")

    return frame


def new_topic(broker: Broker, name: str, partitions: int = 2) -> str:
    client = AdminClient({"bootstrap.servers": broker.bootstrap, "logger": None})  # type: ignore[dict-item]
    client.create_topics([NewTopic(name, partitions, 1, config={"retention.ms": "-1"})])[
        name
    ].result(30)
    return name


def test_a_batch_has_the_rows_of_our_source(ours: Broker, read: Read) -> None:
    topic = new_topic(ours, "jvm-read")
    producer = Producer({"bootstrap.servers": ours.bootstrap, "linger.ms": 5, "logger": None})
    for number in range(300):
        headers = [("h", b"%d" % number), ("none", None)] if number % 3 == 0 else None
        value = None if number % 50 == 0 else b"v%d" % number
        producer.produce(
            topic,
            value,
            key=None if number % 7 == 0 else b"k%d" % number,
            partition=number % 2,
            timestamp=1_357_000_000_000 + number * 1_000,
            headers=headers,  # type: ignore[arg-type]
        )
    assert producer.flush(30) == 0
    theirs = read(JVM, topic, includeHeaders=True)
    mine = read(OURS, topic, includeHeaders=True)
    assert theirs.schema.simpleString() == mine.schema.simpleString()
    rows = theirs.collect()
    assert len(rows) == 300
    assert rows == mine.collect()

    window = {
        "startingOffsets": json.dumps({topic: {"0": 10, "1": -2}}),
        "endingOffsets": json.dumps({topic: {"0": 20, "1": -1}}),
    }
    assert read(JVM, topic, **window).count() == 160
    assert read(JVM, topic, **window).collect() == read(OURS, topic, **window).collect()
    by_time = {"startingTimestamp": "1357000100000", "endingTimestamp": "1357000200000"}
    assert read(JVM, topic, **by_time).count() == 100
    assert read(JVM, topic, **by_time).collect() == read(OURS, topic, **by_time).collect()


PATTERNS = {
    "pattern-a": {"pattern-a", "pattern-a.delays", "my-pattern-a"},
    "^pattern-a$": {"pattern-a"},
    r"(?i)PATTERN-A\z": {"pattern-a", "my-pattern-a", "Pattern-A"},
    r"^\Qpattern-a.\E": {"pattern-a.delays"},
    r"^\p{Lu}\p{Alpha}+-": {"Pattern-A"},
    r"(?<letter>[a-c])\.del\k<letter>ys": {"pattern-a.delays"},
    ".*": {"pattern-a", "pattern-a.delays", "my-pattern-a", "Pattern-A"},
    "__consumer_offsets": set(),
}


def test_a_pattern_matches_the_same_topics(ours: Broker, spark: SparkSession) -> None:
    producer = Producer({"bootstrap.servers": ours.bootstrap, "logger": None})
    names = sorted(set[str]().union(*PATTERNS.values()))
    for name in names:
        producer.produce(new_topic(ours, name, 1), b"v")
    assert producer.flush(30) == 0
    group = {"bootstrap.servers": ours.bootstrap, "group.id": "pattern", "logger": None}
    consumer = Consumer(group)
    consumer.commit(offsets=[TopicPartition(names[0], 0, 1)], asynchronous=False)
    assert "__consumer_offsets" in consumer.list_topics(timeout=30).topics
    consumer.close()

    def found(source: str, pattern: str) -> set[str]:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", ours.bootstrap)
        rows = reader.option("subscribePattern", pattern).load()
        topics = {row.topic for row in rows.select("topic").distinct().collect()}
        return topics & {*names, "__consumer_offsets"}

    for pattern, expected in PATTERNS.items():
        assert found(JVM, pattern) == expected, pattern
        assert found(OURS, pattern) == expected, pattern


def test_rows_written_by_the_connector_are_read_by_our_source(
    ours: Broker, spark: SparkSession, read: Read
) -> None:
    topic = new_topic(ours, "jvm-write", partitions=3)
    rows = spark.range(5_000).selectExpr(
        "cast(id as string) key",
        "if(id % 100 = 0, null, concat('value-', id)) value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) headers",
        "cast(id % 3 as int) partition",
    )
    writer = rows.write.format(JVM).option("kafka.bootstrap.servers", ours.bootstrap)
    writer.option("topic", topic).option("includeHeaders", "true").save()
    found = read(OURS, topic, includeHeaders=True).collect()
    assert len(found) == 5_000
    for row in found:
        number = int(row.key)
        assert row.partition == number % 3
        assert row.value == (None if number % 100 == 0 else b"value-%d" % number)
        assert [(each.key, each.value) for each in row.headers] == [("n", row.key)]


def test_a_stream_continues_at_its_checkpoint(
    ours: Broker, spark: SparkSession, read: Read, tmp_path: Path
) -> None:
    source, target = new_topic(ours, "jvm-stream-in"), new_topic(ours, "jvm-stream-out", 1)

    def run(first: int, last: int) -> int:
        """Write these numbers and let the stream copy what is new; return the number of batches."""
        rows = spark.range(first, last).selectExpr("cast(id as string) value")
        writer = rows.write.format(OURS).option("kafka.bootstrap.servers", ours.bootstrap)
        writer.option("topic", source).mode("append").save()
        stream = (
            spark.readStream.format(JVM)
            .option("kafka.bootstrap.servers", ours.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 1_000)
            .load()
        )
        query = (
            stream.selectExpr("key", "concat('seen ', cast(value as string)) value")
            .writeStream.format(JVM)
            .option("kafka.bootstrap.servers", ours.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return len([each for each in query.recentProgress if each.numInputRows])

    assert run(0, 2_500) >= 3
    assert run(2_500, 3_000) == 1
    found = [row.value.decode() for row in read(OURS, target).collect()]
    assert sorted(found) == sorted(f"seen {number}" for number in range(3_000))
