"""Columns of consumed records as batches of Spark's schema, without a running Spark."""

import datetime as dt

import pytest

from odradek.client.consumer.fetch.completed_fetch import ColumnRun
from odradek.client.consumer.record import BatchInfo, TimestampType
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.record_batch_builder import build
from odradek.protocol.record_columns import RecordColumns
from odradek.spark import arrow
from odradek.spark.arrow import MAX_ROWS, SparkBatches, arrow_schema, spark_schema


def at(milliseconds):
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


class Buffered:
    """The columns of records of (topic, partition, offset, type, key, value, headers, ms), each in
    a batch of its own."""

    def __init__(self, *records):
        self.columns, self.runs = RecordColumns(), []
        for topic, partition, offset, kind, *record in records:
            batch = build([tuple(record)], base_offset=offset)
            self.columns.append_batch(batch, RecordBatchHeader(batch, 0), 0, 2**62)
            info = BatchInfo(topic, partition, 0, TimestampType(kind))
            self.runs.append(ColumnRun(info, 1))


def rows_of(buffer, headers=False, columns=()):
    return rows_by(SparkBatches(arrow_schema(headers, columns=columns)), buffer)


def rows_by(batches, buffer):
    found = batches.of(buffer)
    found.validate(full=True)
    assert found.schema.equals(batches.schema)
    return found.to_pylist()


def test_the_columns_equal_those_of_sparks_kafka_source():
    buffer = Buffered(
        ("t", 3, 7, 0, b"k", b"v", [], 1),
        ("u", 0, 2**40, 1, None, b"", [], 1_700_000_000_123),
        ("t", 3, 8, 0, b"", None, [], 2),
    )
    names = "key", "value", "topic", "partition", "offset", "timestamp", "timestampType"
    assert [tuple(row[name] for name in names) for row in rows_of(buffer)] == [
        (b"k", b"v", "t", 3, 7, at(1), 0),
        (None, b"", "u", 0, 2**40, at(1_700_000_000_123), 1),
        (b"", None, "t", 3, 8, at(2), 0),
    ]


def test_a_record_without_headers_has_null():
    many, one = [("a", b"1"), ("b", None)], [("", b"")]
    buffer = Buffered(
        *(("t", 0, n, 0, None, b"", headers, 1) for n, headers in enumerate([[], many, one, []]))
    )
    found = [row["headers"] for row in rows_of(buffer, headers=True)]
    pairs = [each and [(pair["key"], pair["value"]) for pair in each] for each in found]
    assert pairs == [None, many, one, None]


@pytest.mark.parametrize("topics", [["t"], ["t", "longer", "t"], ["zwölf", "u"], []])
def test_the_topic_of_each_row_is_text(topics):
    buffer = Buffered(*((topic, 0, n, 0, None, b"", [], 1) for n, topic in enumerate(topics)))
    assert [row["topic"] for row in rows_of(buffer)] == topics


def test_a_run_of_records_of_one_batch_shares_its_columns():
    buffer = Buffered(*(("first", 1, n, 0, b"k", b"v", [], n) for n in range(3)))
    info = BatchInfo("second", 2, 0, TimestampType.LOG_APPEND_TIME)
    buffer.runs[1:] = [ColumnRun(info, 2)]
    found = rows_of(buffer, columns=("topic", "partition", "timestampType", "offset"))
    assert [tuple(row.values()) for row in found] == [
        ("first", 1, 0, 0),
        ("second", 2, 1, 1),
        ("second", 2, 1, 2),
    ]


def test_batches_of_one_run_have_the_topic_partition_and_type_of_their_own_run():
    """These columns are kept from batch to batch while the source is the same."""
    names = ("topic", "partition", "timestampType", "offset")
    batches = SparkBatches(arrow_schema(False, columns=names))
    for topic, partition, kind, count in [
        ("t", 1, 0, 2),
        ("t", 1, 0, 3),
        ("t", 2, 0, 1),
        ("longer", 2, 0, 2),
        ("longer", 2, 1, 2),
        ("longer", 2, 1, MAX_ROWS + 1),
        ("longer", 2, 1, 1),
    ]:
        buffer = Buffered(*((topic, partition, n, kind, b"k", b"v", [], n) for n in range(count)))
        buffer.runs[1:] = []
        buffer.runs[0] = ColumnRun(buffer.runs[0].batch, count)
        rows = [tuple(row.values()) for row in rows_by(batches, buffer)]
        assert rows == [(topic, partition, kind, n) for n in range(count)]


def test_columns_that_are_not_selected_are_not_made(monkeypatch):
    made = []
    column_of = arrow.column_of

    def counted(columns, name, kind):
        made.append(name)
        return column_of(columns, name, kind)

    monkeypatch.setattr(arrow, "column_of", counted)
    buffer = Buffered(("t", 0, 5, 0, b"k", b"v", [("h", b"x")], 1))
    assert rows_of(buffer, columns=("offset", "value")) == [{"offset": 5, "value": b"v"}]
    assert made == ["offset", "value"]


def test_every_column_of_the_schema_can_be_made_alone():
    buffer = Buffered(("t", 0, 5, 0, b"k", b"v", [("h", b"x")], 1))
    (row,) = rows_of(buffer, headers=True)
    for name in spark_schema(True).names:
        assert rows_of(buffer, headers=True, columns=(name,)) == [{name: row[name]}]
