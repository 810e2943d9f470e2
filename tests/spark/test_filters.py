"""Filters on partition, offset and time: the bytes that a batch read fetches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.conftest import Topic, Topics
from spark.counting_proxy import CountedBroker
from spark.reading import values

PARTITIONS, RECORDS, SIZE = 4, 1_000, 1_000
BEGIN_MS = 1_700_000_000_000
WHOLE = PARTITIONS * RECORDS * SIZE


@pytest.fixture(scope="module")
def counted() -> Iterator[CountedBroker]:
    with CountedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def wide(counted: CountedBroker) -> Topic:
    """A topic with four partitions of 1000 records of 1000 bytes, one a second, in batches of 16
    KB.
    """
    topic = Topics(counted.bootstrap).create(PARTITIONS)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": counted.bootstrap,
            "batch.size": 16_384,
            "linger.ms": 5,
            "logger": None,
        }
    )
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            time = BEGIN_MS + number * 1_000
            producer.produce(topic.name, bytes(SIZE), partition=partition, timestamp=time)
    assert producer.flush(30) == 0
    return topic


@pytest.fixture
def wide_read(spark: SparkSession, counted: CountedBroker, wide: Topic):
    def frame(**options: Any) -> DataFrame:
        reader = spark.read.format("odradek").option("kafka.bootstrap.servers", counted.bootstrap)
        # Small answers: a fetch that ends a range takes what follows in its answer along.
        reader = reader.option("kafka.max.partition.fetch.bytes", 16_384)
        reader = reader.option("filterPushdown", "true")
        return reader.option("subscribe", wide.name).options(**options).load()

    return frame


@pytest.fixture
def fetched(counted: CountedBroker):
    """Return `fetched(frame)`: the number of rows, and the share of the topic's bytes that were
    sent.
    """

    def count(frame: DataFrame) -> tuple[int, float]:
        before = counted.sent
        rows = frame.count()
        return rows, (counted.sent - before) / WHOLE

    return count


def utc(seconds: float) -> str:
    """Return SQL for the time so many seconds after the first record."""
    return f"timestamp_micros({BEGIN_MS * 1000 + int(seconds * 1_000_000)})"


@pytest.mark.parametrize(
    ("condition", "rows", "share"),
    [
        ("true", 4_000, 1.0),
        ("partition = 1", 1_000, 0.25),
        ("partition in (0, 3) and offset < 500", 1_000, 0.25),
        ("not (partition >= 3) and offset >= 400 and offset <= 599", 600, 0.15),
        ("offset <=> 7", 4, 0.0),
        (f"timestamp >= {utc(749.999)}", 1_000, 0.25),
        (f"timestamp > {utc(899.000001)} and partition < 2", 200, 0.05),
        (f"timestamp in ({utc(990)}, {utc(999)})", 8, 0.01),
        ("offset > 5000", 0, 0.0),
        (f"timestamp >= {utc(5000)}", 0, 0.0),
    ],
)
def test_filters_reduce_the_fetched_bytes(wide_read, fetched, condition, rows, share):
    found, sent = fetched(wide_read().where(condition))
    assert found == rows
    # A few answers too much for each partition, and metadata.
    assert share <= sent < share + 0.09


def test_nothing_is_narrowed_without_filter_pushdown(spark, wide_read, fetched):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        found, sent = fetched(wide_read().where("partition = 1"))
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert found == 1_000
    assert sent >= 1


def test_filters_are_combined_with_the_offset_options(wide, wide_read):
    begin = json.dumps({wide.name: {str(number): 100 for number in range(PARTITIONS)}})
    end = json.dumps({wide.name: {str(number): 200 for number in range(PARTITIONS)}})
    frame = wide_read(startingOffsets=begin, endingOffsets=end, minPartitions=5)
    found = frame.where("partition <> 0 and offset >= 50 and offset < 150")
    assert found.rdd.getNumPartitions() == 5
    assert found.count() == 150


def test_a_matching_record_after_older_ones_is_found(topics, read):
    """Times need not be in order."""
    topic = topics.create()
    for second in (5, 1, 9, 2, 7, 3):
        topic.produce(second, timestamp=BEGIN_MS + second * 1_000)
    pushed = {"filterPushdown": True}
    assert values(read(topic, **pushed).where(f"timestamp >= {utc(7)}")) == ["9", "7"]
    assert values(read(topic, **pushed).where(f"timestamp < {utc(3)}")) == ["1", "2"]


def test_without_the_option_a_filter_does_not_affect_other_queries(topics, read):
    """Spark keeps the plan of a frame: if it were narrowed, other queries would lack rows."""
    topic = topics.create()
    topic.produce(*range(10))
    frame = read(topic)
    late = frame.where("offset >= 8")
    assert (late.count(), frame.count(), late.union(frame).count()) == (2, 10, 12)


def test_a_filtered_offset_is_not_data_loss(topics, read):
    topic = topics.create(2)
    topic.produce(*range(10))
    topic.produce(*range(10), partition=1)
    topic.delete_records(4)
    begin = json.dumps({topic.name: {"0": 0, "1": 0}})
    frame = read(topic, startingOffsets=begin, filterPushdown=True)
    assert values(frame.where("offset >= 8")) == ["8", "9", "8", "9"]
    assert values(frame.where("partition = 1 and offset < 2")) == ["0", "1"]
    with pytest.raises(Exception, match="Some data may have been lost"):
        frame.where("offset < 8").collect()
