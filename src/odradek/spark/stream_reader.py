"""Reading a stream: micro-batch after micro-batch from where the last one ended.

Spark's loop, and what is done in each call (all of them in one process per query run, `read`
aside):

    initialOffset()              once or more at the start: `InitialOffsets` makes the answers equal
    latestOffset(start, limit)   heads of the logs, waiting up to half a second if nothing is new,
                                 then cut: by record time, by number
    partitions(start, end)       tasks; new partitions begin at their earliest offset
    commit(end)                  nothing: the checkpoint is the truth, and the last one never comes

An offset past the head of its log means that the topic was trimmed or replaced: `DataLoss`, or with
`failOnDataLoss=false` reading goes on with what is there. An offset that retention has passed by is
noticed in the same way, when the batch is planned and again when it is read.

With the trigger AvailableNow, the heads of the moment it is prepared are the end of the query.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from odradek import TopicPartition
from odradek.spark.alignment import align
from odradek.spark.connections import admin_of
from odradek.spark.head_watch import HeadWatch
from odradek.spark.initial_offsets import InitialOffsets
from odradek.spark.offsets import Offsets, from_json_dict, limit_offsets, to_json_dict
from odradek.spark.options import ReadOptions
from odradek.spark.reader import InputRanges, plan, read_ranges
from odradek.spark.topics import Topics, text_of

PARTITIONS_MAX_AGE_SECONDS = 1.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("odradek")`. Picklable: connections are opened at first use."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.initial = InitialOffsets(options)
        self.target: Offsets | None = None
        self.watch: HeadWatch | None = None
        self.known: list[TopicPartition] = []
        self.known_until = 0.0
        self.heads: Offsets = {}
        self.last_batch_at = time.monotonic()

    @property
    def topics(self) -> Topics:
        return Topics(admin_of(self.options.client), self.options)

    def initialOffset(self) -> dict[str, Any]:
        def resolve() -> Offsets:
            return self.topics.start(self.topics.partitions())

        return to_json_dict(self.initial.get(resolve))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.max_offsets_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.current_heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = from_json_dict(start, "the start offset")
        if self.target is None:
            heads = self.current_heads()
            if not has_news(begin, heads):
                heads = self.wait_for_news(begin, heads)
        else:
            heads = self.never_back(begin, self.target)
        self.heads = heads
        self.check_start(begin, heads)
        begin = self.with_new_partitions(begin, heads)
        if self.holds_back(begin, heads):
            return start
        end = heads
        if self.options.max_timestamp_span_ms:
            span_ms = self.options.max_timestamp_span_ms
            end = align(self.topics, begin, heads, span_ms)
        if isinstance(limit, ReadMaxRows):
            end = limit_offsets(begin, end, limit.max_rows)
        if has_news(begin, end):
            self.last_batch_at = time.monotonic()
        return to_json_dict(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json_dict(self.heads) if self.heads else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ends = from_json_dict(end, "the end offset")
        begin = self.with_new_partitions(from_json_dict(start, "the start offset"), ends)
        begin = self.within_log(begin, ends)
        return list(plan(self.options, begin, ends))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, InputRanges):
            yield from read_ranges(self.options, partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark's checkpoint holds the progress."""

    def stop(self) -> None:
        """The end of this reader's process, where Spark lets it come that far."""
        if self.watch is not None:
            self.watch.close()
            self.watch = None

    def current_heads(self) -> Offsets:
        """The ends of the logs; new partitions are looked for once a second."""
        now = time.monotonic()
        if now >= self.known_until:
            self.known = self.topics.partitions()
            self.known_until = now + PARTITIONS_MAX_AGE_SECONDS
        return self.topics.latest(self.known)

    def wait_for_news(self, begin: Offsets, heads: Offsets) -> Offsets:
        if self.watch is None:
            self.watch = HeadWatch(self.options.client, read_committed=self.options.read_committed)
        return self.watch.wait(heads, self.current_heads)

    def never_back(self, begin: Offsets, target: Offsets) -> Offsets:
        """The target of AvailableNow, for a query that was further already in some partition."""
        existing = self.current_heads()
        return {
            p: max(offset, min(begin.get(p, offset), existing.get(p, offset)))
            for p, offset in target.items()
        }

    def holds_back(self, begin: Offsets, heads: Offsets) -> bool:
        """Whether `minOffsetsPerTrigger` asks to wait for more, and `maxTriggerDelay` lets it."""
        least = self.options.min_offsets_per_trigger
        if not least or self.target is not None:
            return False
        waited_ms = (time.monotonic() - self.last_batch_at) * 1000
        if waited_ms >= self.options.max_trigger_delay_ms:
            return False
        return sum(heads[p] - begin[p] for p in heads) < least

    def check_start(self, begin: Offsets, heads: Offsets) -> None:
        """Data loss where a log ends before the offset to go on from, or is gone."""
        gone = sorted(p for p in begin if p not in heads)
        if gone:
            self.topics.report_data_loss(f"partitions are gone: {text_of(gone)}")
        for partition in sorted(begin):
            if partition in heads and heads[partition] < begin[partition]:
                self.topics.report_data_loss(
                    f"{partition}: offset {begin[partition]} should be next, "
                    f"the log ends at {heads[partition]}"
                )

    def with_new_partitions(self, begin: Offsets, heads: Offsets) -> Offsets:
        """`begin`, with the earliest offset of each partition it lacks (made since the query
        began)."""
        new = [p for p in heads if p not in begin]
        return {**begin, **self.topics.earliest(new)} if new else begin

    def within_log(self, begin: Offsets, end: Offsets) -> Offsets:
        """`begin`, moved to the log start where records that should be read are gone."""
        read = {p for p in end if p in begin and begin[p] != end[p]}
        if not read:
            return begin
        first = self.topics.earliest(read)
        checked = dict(begin)
        for partition in sorted(read):
            if first[partition] > begin[partition] or begin[partition] > end[partition]:
                self.topics.report_data_loss(
                    f"{partition}: offsets {begin[partition]} to {end[partition]} should be read, "
                    f"the log starts at {first[partition]}"
                )
                checked[partition] = min(first[partition], end[partition])
        return checked


def has_news(begin: Offsets, heads: Offsets) -> bool:
    """Whether there is anything to read, or a set of partitions that changed."""
    return begin != heads
