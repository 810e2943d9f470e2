"""TaskWriter: the rows of one attempt of a task, to the brokers and acknowledged.

Rows come as Arrow batches, which the producer encodes without an object per row. Delivery reports
are looked at as they come, so that a task does not go on behind a record that was refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from odradek.client.errors import UnknownTopicOrPartition
from odradek.client.producer.futures import DeliveredRange, Deliveries
from odradek.model.errors import ErrorCode
from odradek.spark.commit_protocol import CommitProtocol
from odradek.spark.options import WriteOptions
from odradek.spark.producers import KeptProducer
from odradek.spark.replay_headers import with_replay_headers
from odradek.spark.task import Task, TaskWritten, merged
from odradek.spark.worker_memory import freeze_what_is_loaded

COLUMNS = ("key", "headers", "partition")
RECORD_COLUMNS = ("topic", "value", *COLUMNS)


class TaskWriter:
    """Of one attempt; `write` once."""

    def __init__(self, options: WriteOptions, protocol: CommitProtocol, task: Task) -> None:
        self._options = options
        self._protocol = protocol
        self._task = task
        self._records = 0
        self._value_bytes = 0
        self._ranges: tuple[DeliveredRange, ...] = ()
        self._under_way: deque[Deliveries] = deque()

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskWritten:
        """Write all rows, and wait until they are acknowledged."""
        freeze_what_is_loaded()
        producer = self._protocol.setup_task(self._task)
        try:
            for batch in batches:
                self._send(producer, batch)
                while self._under_way and self._under_way[0].done():
                    self._delivered(self._under_way.popleft())
            producer.producer.flush()
            while self._under_way:
                self._delivered(self._under_way.popleft())
        except BaseException:
            self._protocol.abort_task(producer)
            raise
        written = TaskWritten(self._task, self._records, self._value_bytes, self._ranges)
        return self._protocol.commit_task(producer, written)

    def _send(self, producer: KeptProducer, batch: pa.RecordBatch) -> None:
        """Queue rows, waiting for room as often as it takes."""
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
        self._ranges = merged([*self._ranges, *deliveries.result()])


def record_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch without the columns that are ignored."""
    return batch.select([name for name in RECORD_COLUMNS if name in batch.schema.names])


def value_bytes(rows: pa.RecordBatch) -> int:
    """Bytes of keys and values."""
    columns = [rows.column(name) for name in ("key", "value") if name in rows.schema.names]
    return sum(
        pc.sum(pc.binary_length(column)).as_py() or 0
        for column in columns
        if not pa.types.is_null(column.type)
    )


def by_topic(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows for each topic, in their order."""
    if options.topic is not None:
        yield options.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ValueError("a row has no topic: column topic is null")
    names = pc.unique(topics).to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name))


def check_partitions(producer: KeptProducer, topic: str, rows: pa.RecordBatch) -> None:
    """Raises `UnknownTopicOrPartition` for a row that names a topic or a partition that is not
    there: the producer would wait for it."""
    least = greatest = None
    if "partition" in rows.schema.names:
        bounds = pc.min_max(rows.column("partition")).as_py()
        least, greatest = bounds["min"], bounds["max"]
    count = producer.partition_count(topic, 1 if greatest is None else greatest + 1)
    for partition in (least, greatest):
        if partition is not None and not 0 <= partition < count:
            raise UnknownTopicOrPartition(
                f"{topic}-{partition}: UNKNOWN_TOPIC_OR_PARTITION: the topic has partitions 0 to "
                f"{count - 1}. What to do: see column partition",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
