"""Reports of tasks about the records they wrote, and what the driver does with them."""

import logging
import pickle

import pytest
from pyspark.sql.types import BinaryType, StructType

from odradek.client.producer.futures import DeliveredRange
from odradek.spark.commit_protocol import Task, TaskReport, merge_ranges
from odradek.spark.options import ClientOptions, WriteOptions
from odradek.spark.writer import BatchWriter, StreamWriter

OPTIONS = WriteOptions(ClientOptions("localhost:9092"), topic="t")
SCHEMA = StructType().add("value", BinaryType())


def written(partition_id, *ranges):
    records = sum(each.records for each in ranges)
    return TaskReport(Task("q", 4, partition_id, 1), records, 10 * records, ranges)


FIRST = written(0, DeliveredRange("t", 0, 3, 10, 12), DeliveredRange("t", 1, 1, 5, 5))
SECOND = written(1, DeliveredRange("t", 0, 2, 13, 20))


def test_ranges_of_a_partition_become_one():
    assert merge_ranges([*SECOND.ranges, *FIRST.ranges]) == (
        DeliveredRange("t", 0, 5, 10, 20),
        DeliveredRange("t", 1, 1, 5, 5),
    )


def test_a_commit_logs_what_the_micro_batch_wrote(caplog):
    caplog.set_level(logging.DEBUG)
    StreamWriter(OPTIONS, SCHEMA).commit([FIRST, pickle.loads(pickle.dumps(SECOND))], 4)
    assert caplog.messages == [
        "micro-batch 4 of query q wrote 6 records, 60 bytes, in 2 tasks",
        "micro-batch 4 of query q: 5 records in t-0, offsets 10 to 20",
        "micro-batch 4 of query q: 1 records in t-1, offsets 5 to 5",
    ]


def test_a_micro_batch_without_tasks_is_committed():
    StreamWriter(OPTIONS, SCHEMA).commit([], 0)


def test_a_missing_report_of_a_task_prevents_the_commit():
    with pytest.raises(RuntimeError, match=r"micro-batch 4 .* 1 of 2 tasks reported no .* \(1\)"):
        StreamWriter(OPTIONS, SCHEMA).commit([FIRST, None], 4)
    with pytest.raises(RuntimeError, match=r"batch write .* 1 of 1 tasks"):
        BatchWriter(OPTIONS, SCHEMA).commit([None])


def test_an_abort_names_the_tasks_whose_records_stay(caplog):
    StreamWriter(OPTIONS, SCHEMA).abort([None, FIRST], 4)
    (message,) = caplog.messages
    assert "micro-batch 4 of query q failed" in message
    assert "4 of task 0 (attempt 1)" in message


def test_an_abort_of_a_batch_names_the_job(caplog):
    writer = BatchWriter(OPTIONS, SCHEMA)
    writer.abort([None])
    assert f"batch write {writer.job_id} failed" in caplog.text
    assert "none of tasks" in caplog.text
