"""TaskWriter: sends the rows of one attempt of a task and waits for their acknowledgements.

Rows come as Arrow batches, which the producer encodes without an object per row. Delivery reports
are checked as they come, so that a task stops soon after a record was refused.

`with_replay_headers` adds headers that identify the copies of a row that a replay writes again:

    odradek.query.id     the streaming query, or the job of a batch write
    odradek.batch.id     the micro-batch; null in a batch write
    odradek.task         the partition of the Spark task
    odradek.sequence     the row's number within the task, from 0

They follow the row's own headers, as UTF-8 text. Two records with the same four are the same row,
if the plan is deterministic: a task that is run again gets the same rows in the same order. They
are made column by column, in Arrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.client.arrow.arrays import numbers, strings
from odradek.client.errors import UnknownTopicOrPartition
from odradek.client.producer.futures import DeliveredRange, Deliveries
from odradek.model.errors import ErrorCode
from odradek.spark.commit_protocol import CommitProtocol, Task, TaskReport, merge_ranges
from odradek.spark.freed_memory import give_back_freed_memory
from odradek.spark.frozen_modules import freeze_loaded_modules
from odradek.spark.options import WriteOptions
from odradek.spark.producers import CachedProducer

COLUMNS = ("key", "headers", "partition")
RECORD_COLUMNS = ("topic", "value", *COLUMNS)


class TaskWriter:
    """Writes the rows of one attempt; call `write` once."""

    def __init__(self, options: WriteOptions, protocol: CommitProtocol, task: Task) -> None:
        self._options = options
        self._protocol = protocol
        self._task = task
        self._records = 0
        self._value_bytes = 0
        self._ranges: tuple[DeliveredRange, ...] = ()
        self._under_way: deque[Deliveries] = deque()

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        """Write all rows and wait until they are acknowledged; return the report."""
        freeze_loaded_modules()
        try:
            return self._write(batches)
        finally:
            give_back_freed_memory()

    def _write(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return self._protocol.commit_task(None, self._report())
        producer = self._protocol.setup_task(self._task)
        if producer is None:
            # Operators upstream may keep state: they have to see their rows.
            for _ in rows:
                pass
            return self._protocol.drained_task(self._task)
        try:
            for batch in chain((first,), rows):
                self._send(producer, batch)
                while self._under_way and self._under_way[0].done():
                    self._delivered(self._under_way.popleft())
            producer.producer.flush()
            while self._under_way:
                self._delivered(self._under_way.popleft())
            return self._protocol.commit_task(producer, self._report())
        except BaseException:
            self._protocol.abort_task(producer)
            raise

    def _report(self) -> TaskReport:
        return TaskReport(self._task, self._records, self._value_bytes, self._ranges)

    def _send(self, producer: CachedProducer, batch: pa.RecordBatch) -> None:
        """Queue rows, waiting for buffer space as needed."""
        batch = record_columns(batch)
        if self._options.replay_headers:
            batch = with_replay_headers(batch, self._task, self._records)
        self._records += batch.num_rows
        self._value_bytes += value_bytes(batch)
        for topic, rows in by_topic(self._options, batch):
            check_partitions(producer, topic, rows)
            given = {name: name for name in COLUMNS if name in rows.schema.names}
            self._under_way.append(producer.producer.send_arrow(topic, rows, **given))

    def _delivered(self, deliveries: Deliveries) -> None:
        self._ranges = merge_ranges([*self._ranges, *deliveries.result()])


def record_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without the ignored columns."""
    return batch.select([name for name in RECORD_COLUMNS if name in batch.schema.names])


def value_bytes(rows: pa.RecordBatch) -> int:
    """Return the bytes of keys and values."""
    columns = [rows.column(name) for name in ("key", "value") if name in rows.schema.names]
    return sum(
        pc.sum(pc.binary_length(column)).as_py() or 0
        for column in columns
        if not pa.types.is_null(column.type)
    )


def by_topic(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by topic, in their order."""
    if options.topic is not None:
        yield options.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ValueError("a row has no topic: column topic is null")
    names = pc.unique(topics).to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name))


def check_partitions(producer: CachedProducer, topic: str, rows: pa.RecordBatch) -> None:
    """Raise `UnknownTopicOrPartition` for a row with an unknown topic or partition: the producer
    would wait for it."""
    least = greatest = None
    if "partition" in rows.schema.names:
        bounds = pc.min_max(rows.column("partition")).as_py()
        least, greatest = bounds["min"], bounds["max"]
    count = producer.topics.partition_count(topic, 1 if greatest is None else greatest + 1)
    for partition in (least, greatest):
        if partition is not None and not 0 <= partition < count:
            raise UnknownTopicOrPartition(
                f"{topic}-{partition}: UNKNOWN_TOPIC_OR_PARTITION: the topic has partitions 0 to "
                f"{count - 1}. What to do: see column partition",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )


QUERY_ID = "odradek.query.id"
BATCH_ID = "odradek.batch.id"
TASK = "odradek.task"
SEQUENCE = "odradek.sequence"
NAMES = (QUERY_ID, BATCH_ID, TASK, SEQUENCE)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def with_replay_headers(rows: pa.RecordBatch, task: Task, first: int) -> pa.RecordBatch:
    """Add the replay headers to rows; `first` is the sequence of the first row."""
    index = rows.schema.get_field_index("headers")
    own = pa.nulls(rows.num_rows, HEADERS) if index < 0 else rows.column(index)
    joined = joined_headers(own, task, first)
    field = pa.field("headers", joined.type)
    if index < 0:
        return rows.append_column(field, joined)
    return rows.set_column(index, field, joined)


def joined_headers(own: pa.ListArray, task: Task, first: int) -> pa.ListArray:
    """Return lists of headers, each with the four of its row at its end."""
    rows, added = len(own), len(NAMES)
    keys, values = own.flatten().flatten()
    batch_id = None if task.batch_id is None else b"%d" % task.batch_id
    constants = strings([task.query_id.encode(), batch_id, b"%d" % task.partition_id], pa.binary())
    sequences = numbers(np.arange(first, first + rows), pa.int64()).cast(pa.string())
    names = strings([name.encode() for name in NAMES], pa.string())
    all_keys = pa.concat_arrays([keys, names.cast(keys.type)])
    all_values = pa.concat_arrays(
        [values, constants.cast(values.type), sequences.cast(values.type)]
    )

    # The end of each list, and the positions of the four in it.
    lengths = own.value_lengths().fill_null(0).to_numpy()
    ends = np.cumsum(lengths + added)
    places = ends[:, np.newaxis] + np.arange(-added, 0)
    is_own = np.ones(len(keys) + rows * added, dtype=bool)
    is_own[places] = False

    # The contents, as indices into all keys and all values.
    key_at = np.empty(len(is_own), dtype=np.int64)
    key_at[is_own] = np.arange(len(keys))
    value_at = key_at.copy()
    key_at[places] = len(keys) + np.arange(added)
    value_at[places] = len(keys) + np.arange(added)
    value_at[places[:, -1]] += np.arange(rows)

    pairs = pa.StructArray.from_arrays(
        [
            all_keys.take(numbers(key_at, pa.int64())),
            all_values.take(numbers(value_at, pa.int64())),
        ],
        ["key", "value"],
    )
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    return pa.ListArray.from_arrays(numbers(offsets, pa.int32()), pairs)
