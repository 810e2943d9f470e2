"""The records that a task reads, without a running Spark."""

import pytest

from odradek.client.errors import KafkaTimeout
from odradek.spark.offsets import OffsetRange
from odradek.spark.options import read_options
from odradek.spark.reader import read_ranges
from odradek.spark.topics import DataLoss


@pytest.fixture
def read_range(bootstrap):
    def read(topic, *ranges, **options):
        """Return partition, offset and value of each record, sorted."""
        given = {"subscribe": topic.name, "kafka.bootstrap.servers": bootstrap, **options}
        wanted = [OffsetRange(topic.name, *each) for each in ranges]
        batches = list(read_ranges(read_options(given, streaming=False), wanted))
        rows = [row for batch in batches for row in batch.to_pylist()]
        return sorted((row["partition"], row["offset"], row["value"]) for row in rows)

    return read


def test_a_task_reads_only_its_ranges(topics, read_range):
    topic = topics.create(3)
    topic.produce("a", "b", "c", "d")
    topic.produce("e", "f", partition=2)
    found = read_range(topic, (0, 1, 3), (1, 0, 0), (2, 0, 2))
    assert found == [(0, 1, b"b"), (0, 2, b"c"), (2, 0, b"e"), (2, 1, b"f")]


def test_a_reader_stopped_early_does_not_affect_the_next(topics, bootstrap, read_range):
    topic = topics.create()
    topic.produce(*range(20_000))
    given = {"subscribe": topic.name, "kafka.bootstrap.servers": bootstrap}
    reading = read_ranges(
        read_options(given, streaming=False), [OffsetRange(topic.name, 0, 0, 20_000)]
    )
    assert next(reading).num_rows > 0
    reading.close()  # type: ignore[attr-defined]
    assert read_range(topic, (0, 5, 7)) == [(0, 5, b"5"), (0, 6, b"6")]


def test_records_deleted_after_planning_are_data_loss(topics, read_range):
    topic = topics.create(2)
    topic.produce(*range(10))
    topic.produce("x", partition=1)
    topic.delete_records(6)
    with pytest.raises(DataLoss, match="offset 2 should be read, the log now starts at 6"):
        read_range(topic, (0, 2, 8), (1, 0, 1))
    found = read_range(topic, (0, 2, 8), (1, 0, 1), failOnDataLoss="false")
    assert found == [(0, 6, b"6"), (0, 7, b"7"), (1, 0, b"x")]


def test_a_range_beyond_the_log_end_is_data_loss(topics, read_range):
    topic = topics.create()
    topic.produce("a")
    with pytest.raises(DataLoss, match="offset 1000000 should be read"):
        read_range(topic, (0, 1_000_000, 2_000_000))
    assert read_range(topic, (0, 1_000_000, 2_000_000), failOnDataLoss="false") == []


def test_records_that_do_not_arrive_fail_the_task(topics, read_range):
    topic = topics.create()
    topic.produce("a")
    patience = {"kafka.default.api.timeout.ms": "3000"}
    with pytest.raises(KafkaTimeout):
        read_range(topic, (0, 0, 2), **patience)
