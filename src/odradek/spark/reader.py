"""Reading: what a batch or a micro-batch reads, cut into tasks, and the reading itself.

    driver side     Topics ──► start, end per partition ──► plan_ranges ──► one InputRanges per task
    worker side     InputRanges ──► RangeFetcher ──► ColumnBuilder ──► Arrow batches

Planning runs in a process of its own beside the driver, reading in Spark's Python workers; only
`ReadOptions` and `InputRanges` travel between them, so readers hold nothing that cannot be pickled.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek.client.simple.range_fetcher import RangeFetcher
from odradek.model.ids import TopicPartition
from odradek.spark.arrow import ColumnBuilder, arrow_schema
from odradek.spark.connections import cluster_of
from odradek.spark.offsets import OffsetRange, Offsets, plan_ranges
from odradek.spark.options import ReadOptions
from odradek.spark.topics import Topics


class InputRanges(InputPartition):
    """What one task reads: ranges of different partitions."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        super().__init__(ranges)
        self.ranges = ranges


def plan(options: ReadOptions, start: Offsets, end: Offsets) -> list[InputRanges]:
    """The tasks that read from `start` to `end`; partitions missing in `start` are not read."""
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
    """The records of `ranges` as Arrow batches, each of one partition."""
    cluster = cluster_of(options.client)
    topics = Topics(cluster, options)
    schema = arrow_schema(options.include_headers)

    def gone(partition: TopicPartition, position: int) -> int:
        """Where to go on when the next offset to read is no longer there."""
        first = topics.earliest([partition])[partition]
        topics.report_data_loss(
            f"{partition}: offset {position} should be read, the log now starts at {first}"
        )
        return max(first, position + 1)

    fetcher = RangeFetcher(
        cluster,
        {r.topic_partition: (r.start, r.end) for r in ranges},
        out_of_range=gone,
        read_committed=options.read_committed,
        max_bytes=options.fetch_max_bytes,
        max_partition_bytes=options.max_partition_fetch_bytes,
    )
    builders = {
        r.topic_partition: ColumnBuilder(
            r.topic_partition, schema, read_committed=options.read_committed
        )
        for r in ranges
    }
    for fetched in fetcher:
        yield from builders[fetched.topic_partition].append(fetched)
    for builder in builders.values():
        yield from builder.finish()


class BatchReader(DataSourceReader):
    """`spark.read.format("odradek")`."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        topics = Topics(cluster_of(self.options.client), self.options)
        found = topics.partitions()
        start = topics.start(found)
        return list(plan(self.options, start, self.checked_end(topics, start)))

    def checked_end(self, topics: Topics, start: Offsets) -> Offsets:
        """The ends; a start beyond the log is data loss, one beyond the asked end an empty
        range."""
        heads = topics.latest(start)
        first = topics.earliest(start)
        end = topics.end(list(start))
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
        return end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, InputRanges):
            yield from read_ranges(self.options, partition.ranges)
