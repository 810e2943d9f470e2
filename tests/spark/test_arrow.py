"""Arrow batches of the consumer, converted to the schema of Spark, without a running Spark."""

import datetime as dt

import pyarrow as pa
import pytest

from odradek.client.arrow.record_batches import SCHEMA
from odradek.spark.arrow import SparkBatches, arrow_schema


def at(milliseconds):
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


def consumed(*records):
    """Return a consumer batch of (key, value, topic, partition, offset, ms, type, headers)."""
    rows = [
        dict(zip(SCHEMA.names, (*record[:5], at(record[5]), *record[6:]), strict=True))
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def converted(batch, headers=False):
    found = SparkBatches(arrow_schema(headers)).convert(batch)
    found.validate(full=True)
    assert found.schema.equals(arrow_schema(headers))
    return found.to_pylist()


def test_the_columns_equal_those_of_sparks_kafka_source():
    batch = consumed(
        (b"k", b"v", "t", 3, 7, 1, 0, []),
        (None, b"", "u", 0, 2**40, 1_700_000_000_123, 1, []),
        (b"", None, "t", 3, 8, 2, 0, []),
    )
    found = converted(batch)
    names = "key", "value", "topic", "partition", "offset", "timestampType"
    assert [tuple(row[name] for name in names) for row in found] == [
        (b"k", b"v", "t", 3, 7, 0),
        (None, b"", "u", 0, 2**40, 1),
        (b"", None, "t", 3, 8, 0),
    ]
    assert [row["timestamp"] for row in found] == [at(1), at(1_700_000_000_123), at(2)]


def test_a_record_without_headers_has_null():
    many = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    one = [{"key": "", "value": b""}]
    batch = consumed(
        (None, b"", "t", 0, 0, 1, 0, []),
        (None, b"", "t", 0, 1, 1, 0, many),
        (None, b"", "t", 0, 2, 1, 0, one),
        (None, b"", "t", 0, 3, 1, 0, []),
    )
    assert [row["headers"] for row in converted(batch, headers=True)] == [None, many, one, None]


def test_values_are_not_copied():
    batch = consumed((None, b"value", "t", 0, 0, 1, 0, []))
    found = SparkBatches(arrow_schema(False)).convert(batch)
    given = batch.column("value").buffers()[2]
    assert found.column("value").buffers()[2].address == given.address


@pytest.mark.parametrize("topics", ["t", "tu", ""])
def test_the_topic_of_each_row_is_text(topics):
    batch = consumed(*((None, b"", topic, 0, 0, 1, 0, []) for topic in topics))
    assert [row["topic"] for row in converted(batch)] == list(topics)


def test_a_part_of_a_batch_has_its_own_rows():
    batch = consumed(*((None, b"%d" % n, "topic", 0, n, n, n % 2, []) for n in range(9)))
    whole, part = converted(batch), converted(batch.slice(3, 4))
    assert part == whole[3:7]
