"""Batch reads, and the planning and reading of tasks, which streams use too.

    driver side     Topics ──► start, end per partition ──► plan_ranges ──► one InputRanges per task
    worker side     InputRanges ──► Consumer.arrow, SparkBatches ──► Arrow batches

Planning runs in a process of its own beside the driver, reading in Spark's Python workers; only
`ReadOptions` and `InputRanges` travel between them, so readers hold nothing that cannot be pickled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek.client.errors import ApiTimeout, LogTruncated, OffsetOutOfRange
from odradek.spark.arrow import DATA, ERROR, MAX_BYTES, MAX_ROWS, SparkBatches, arrow_schema
from odradek.spark.bare_worker import VersionCheckedPickle
from odradek.spark.connections import FetchOptions, admin_of, borrow_consumer
from odradek.spark.freed_memory import give_back_freed_memory, keep_freed_memory
from odradek.spark.frozen_modules import freeze_loaded_modules
from odradek.spark.offsets import OffsetRange, Offsets, plan_ranges
from odradek.spark.options import ReadOptions
from odradek.spark.pushdown import PushFilters, ReadFilters
from odradek.spark.topics import Topics
from odradek.spark.worker_socket import enlarge_send_buffer

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from odradek import Consumer
    from odradek.spark.json.columns import JsonColumns


class InputRanges(InputPartition):
    """The ranges of different partitions that one task reads."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


def plan(options: ReadOptions, start: Offsets, end: Offsets) -> list[InputRanges]:
    """Plan the tasks that read from `start` to `end`, for the partitions in `start`."""
    ranges = [
        OffsetRange(p.topic, p.partition, start[p], end[p]) for p in sorted(end) if p in start
    ]
    groups = plan_ranges(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    return [InputRanges(group) for group in groups]


def read_ranges(options: ReadOptions, ranges: list[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """Return the records of `ranges` as Arrow batches. Raises `DataLoss`, `KafkaError`."""
    if not ranges:
        return
    freeze_loaded_modules()
    enlarge_send_buffer()
    keep_freed_memory()
    ends = {r.topic_partition: r.end for r in ranges}
    schema = arrow_schema(options.include_headers, options.value_schema, options.columns)
    decoder = None
    if options.value_schema is not None and {DATA, ERROR} & set(schema.names):
        decoder = decoder_of(options.value_schema)
    batches = SparkBatches(schema, decoder)
    wait_s = options.client.api_timeout_ms / 1000
    fetching = FetchOptions(
        options.client,
        options.read_committed,
        options.fetch_max_bytes,
        options.max_partition_fetch_bytes,
    )
    try:
        with borrow_consumer(fetching) as consumer:
            consumer.assign({r.topic_partition: (r.start, r.end) for r in ranges})
            while True:
                try:
                    arrow = consumer.arrow(MAX_ROWS, wait_s, max_bytes=MAX_BYTES)
                    yield from arrow.until_quiet(batches.of)
                except LogTruncated:
                    raise
                except OffsetOutOfRange as error:
                    skip_deleted(options, consumer, error, ends)
                else:
                    break
            check_complete(consumer, ends, options.client.api_timeout_ms)
    finally:
        give_back_freed_memory()


def decoder_of(values: StructType) -> JsonColumns:
    """Return the decoder of values. Imported here: planning and most reads do not need it."""
    from odradek.spark.json.columns import JsonColumns
    from odradek.spark.json.times import session_zone

    return JsonColumns(values, session_zone)


def skip_deleted(
    options: ReadOptions, consumer: Consumer[bytes, bytes], error: OffsetOutOfRange, ends: Offsets
) -> None:
    """Seek to the first existing record after the next offset was deleted. Raises `DataLoss`
    unless the options allow it."""
    topics = Topics(admin_of(options.client), options)
    for partition, position in error.offsets.items():
        first = topics.earliest([partition])[partition]
        topics.report_data_loss(
            f"{partition}: offset {position} should be read, the log now starts at {first}"
        )
        # Else the log ends before the position, and the rest of the range does not exist either.
        consumer.seek(partition, first if first > position else ends[partition])


def check_complete(consumer: Consumer[bytes, bytes], ends: Offsets, timeout_ms: int) -> None:
    """Raise `ApiTimeout` if reading ended early because no records came for so long."""
    positions = {partition: consumer.position(partition) for partition in ends}
    left = [f"{p} from {positions[p]}" for p, end in ends.items() if positions[p] < end]
    if left:
        raise ApiTimeout(f"no records came within {timeout_ms} ms of {', '.join(left[:3])}")


class BatchReader(VersionCheckedPickle, DataSourceReader):
    """`spark.read.format("odradek")`."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.read_filters = ReadFilters()

    @property
    def pushFilters(self) -> PushFilters:
        return PushFilters(self.read_filters if self.options.filter_pushdown else ReadFilters())

    def partitions(self) -> list[InputPartition]:
        topics = Topics(admin_of(self.options.client), self.options)
        start = topics.start(topics.partitions())
        start, end = self.read_filters.by_position(start, topics.end(list(start)))
        self.check_range(topics, start, end)
        start = self.read_filters.by_time(topics, start, end)
        return list(plan(self.options, start, end))

    def check_range(self, topics: Topics, start: Offsets, end: Offsets) -> None:
        """Correct starts and ends outside the log. A start beyond the log is data loss; one beyond
        the requested end is an empty range."""
        heads = topics.latest(start)
        first = topics.earliest(start)
        for partition in sorted(start):
            if start[partition] > heads[partition]:
                topics.report_data_loss(
                    f"{partition}: reading should start at offset {start[partition]}, "
                    f"the log ends at {heads[partition]}"
                )
            if end[partition] > heads[partition]:
                topics.report_data_loss(
                    f"{partition}: reading should end at offset {end[partition]}, "
                    f"the log ends at {heads[partition]}"
                )
                end[partition] = heads[partition]
            if start[partition] < first[partition] < end[partition]:
                topics.report_data_loss(
                    f"{partition}: reading should start at offset {start[partition]}, "
                    f"the log starts at {first[partition]}"
                )
                start[partition] = first[partition]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, InputRanges):
            yield from read_ranges(self.options, partition.ranges)
