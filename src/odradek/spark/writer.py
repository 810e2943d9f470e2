"""Writing: rows to records, at least once or exactly once.

    column      type                  meaning
    value       binary or string      required; null is a tombstone
    key         binary or string      optional
    topic       string                required unless the option `topic` is given, which wins
    partition   int                   optional; else chosen by the key, as the Java client does
    headers     array<struct<key: string, value: binary>>   optional

as in Spark's own Kafka sink. The names must match exactly; other columns are ignored with a
warning. A task ends when all its records are acknowledged (acks=all), and returns a `TaskReport`.
With `delivery=at_least_once` a task that is run again (retry, speculation, restart of a
micro-batch) writes its records again; the option `replayHeaders` identifies the copies. With
`exactly_once` see `odradek.spark.exactly_once`.

A writer is created on the driver and pickled into the tasks, where `task_writer` writes; the driver
then commits or aborts with the `commit_protocol`.
"""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    NullType,
    StringType,
    StructType,
)

from odradek.spark.arrow import HEADERS_TYPE
from odradek.spark.bare_worker import VersionCheckedPickle
from odradek.spark.commit_protocol import Task, TaskReport, commit_protocol, merge_ranges
from odradek.spark.frozen_modules import freeze_loaded_modules
from odradek.spark.options import WriteOptions
from odradek.spark.task_writer import TaskWriter

log = logging.getLogger(__name__)

BYTES_LIKE = (BinaryType, StringType, NullType)
Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(VersionCheckedPickle, DataSourceArrowWriter):
    """`df.write.format("odradek").mode("append")`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self.options = options.for_columns(schema.names)
        self.protocol = commit_protocol(self.options)
        self.job_id = str(uuid.uuid4())
        """Created once, on the driver: a task that is run again has the same id."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return TaskWriter(self.options, self.protocol, Task.of_job(self.job_id)).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        freeze_loaded_modules()
        what = f"batch write {self.job_id}"
        written = require_reports(what, messages)
        self.protocol.commit(None, written)
        log_reports(what, written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.protocol.abort(f"batch write {self.job_id}", None, reports_of(messages))


class StreamWriter(VersionCheckedPickle, DataSourceStreamArrowWriter):
    """`df.writeStream.format("odradek")`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self.options = options.for_columns(schema.names)
        self.protocol = commit_protocol(self.options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return TaskWriter(self.options, self.protocol, Task.of_stream()).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        freeze_loaded_modules()
        what = micro_batch(messages, batchId)
        written = require_reports(what, messages)
        self.protocol.commit(batchId, written)
        log_reports(what, written)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.protocol.abort(micro_batch(messages, batchId), batchId, reports_of(messages))


def micro_batch(messages: Messages, batch_id: int) -> str:
    """Return the name of a micro-batch; only the tasks know its query."""
    queries = {each.task.query_id for each in reports_of(messages)}
    return f"micro-batch {batch_id}" + "".join(f" of query {name}" for name in sorted(queries))


def reports_of(messages: Messages) -> list[TaskReport]:
    """Return the reports of the tasks that ended well."""
    return [message for message in messages if isinstance(message, TaskReport)]


def require_reports(what: str, messages: Messages) -> list[TaskReport]:
    """Return all reports. Raises `RuntimeError` if one is missing: its rows may be lost."""
    written = reports_of(messages)
    if len(written) < len(messages):
        silent = [n for n, each in enumerate(messages) if not isinstance(each, TaskReport)]
        raise RuntimeError(
            f"{what} cannot be committed: {len(silent)} of {len(messages)} tasks reported no "
            f"result ({', '.join(map(str, silent))}). What to do: run it again"
        )
    return written


def log_reports(what: str, written: Sequence[TaskReport]) -> None:
    """Log the written records."""
    if not log.isEnabledFor(logging.INFO):
        return
    records = sum(each.records for each in written)
    size = sum(each.value_bytes for each in written)
    log.info("%s wrote %d records, %d bytes, in %d tasks", what, records, size, len(written))
    for each in merge_ranges(found for one in written for found in one.ranges):
        log.debug(
            "%s: %d records in %s-%d, offsets %d to %d",
            what,
            each.records,
            each.topic,
            each.partition,
            each.first_offset,
            each.last_offset,
        )


def check_schema(options: WriteOptions, schema: StructType) -> None:
    """Raise `ValueError` for columns that cannot be written."""
    fields: dict[str, DataType] = {f.name: f.dataType for f in schema.fields}
    allowed: dict[str, tuple[type[DataType], ...]] = {
        "key": BYTES_LIKE,
        "value": BYTES_LIKE,
        # Ignored with the option.
        "topic": (StringType,) if options.topic is None else (DataType,),
        "partition": (IntegerType, NullType),
    }
    if len(fields) < len(schema.fields):
        # Spark would fail to make Arrow batches, in every task.
        twice = next(name for name in fields if schema.names.count(name) > 1)
        raise ValueError(f"two columns are called {twice}: name or drop them, see select and drop")
    ignored = sorted(set(fields) - set(allowed) - {"headers"})
    if ignored:
        warn_of_ignored(tuple(ignored))
    for name, types in allowed.items():
        if name in fields and not isinstance(fields[name], types):
            raise ValueError(f"column {name} cannot be of type {fields[name].simpleString()}")
    if "value" not in fields:
        raise ValueError("there is no column value")
    if "topic" not in fields and options.topic is None:
        raise ValueError("say where to write: option topic, or a column topic")
    shape = fields.get("headers", HEADERS_TYPE).simpleString()
    if shape != HEADERS_TYPE.simpleString():
        raise ValueError(f"column headers must be {HEADERS_TYPE.simpleString()}, not {shape}")


@functools.cache
def warn_of_ignored(columns: tuple[str, ...]) -> None:
    """Warn once in a process: Spark creates a stream's writer again for every micro-batch."""
    log.warning(
        "the odradek sink ignores the columns %s: a record has key, value, topic, partition and "
        "headers. What is to be kept belongs in value, for example with to_json",
        ", ".join(columns),
    )
