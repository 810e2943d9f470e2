"""Stream reads: each micro-batch starts where the last one ended.

Spark's calls, all in one process per query run except `read`:

    initialOffset()              for a new query, and if the first micro-batch is run again:
                                 `InitialOffsets` returns the same answer
    latestOffset(start, limit)   `start` is the end of the last finished micro-batch, which the
                                 query's consumer group shows. Returns the heads of the logs, after
                                 up to half a second if nothing is new, cut by time and by number
    partitions(start, end)       returns the tasks; new partitions begin at their earliest offset
    commit(end)                  does nothing: it comes late, and never for the last micro-batch

A micro-batch that was logged and did not finish is run again by `partitions` alone. If it is the
first one, Spark asks `initialOffset` for its start again. A start that was not kept and may be
different now is `DataLoss`: the records in between would be skipped.

An offset past the head of its log, or a topic with another id, means that the topic was trimmed or
created again: `DataLoss`, or with `failOnDataLoss=false` reading goes on with the existing records
(of a topic that was created again, from its beginning). An offset before the log start is detected
in the same way, when the batch is planned and again when it is read.

With the trigger AvailableNow, the query ends at the heads of the time at which it is prepared.

Waiting for new records without asking over and over: a long poll on every leader.

Spark asks a source for its latest offsets in a loop. Answering at once, 90 times a second, costs a
tenth of a core for nothing; answering after a pause costs latency. So `HeadWatch.wait` has a
consumer read from the heads on, for as little data as there can be, and returns when a record comes
out of it, or after the timeout: half a second at most, since Spark cannot stop a query while it
waits here.

The consumer has connections of its own: a broker answers a connection in order, and questions for
offsets must not queue behind a poll. What it brings is thrown away (one batch at most per poll).
"""

from __future__ import annotations

import enum
import logging
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from odradek import KafkaError
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.topics import TopicPartition
from odradek.spark.alignment import align
from odradek.spark.bare_worker import VersionCheckedPickle
from odradek.spark.connections import FetchOptions, admin_of, open_consumer
from odradek.spark.initial_offsets import InitialOffsets
from odradek.spark.offsets import Offsets, StreamOffset, limit_offsets, to_json_dict
from odradek.spark.options import ClientOptions, ReadOptions
from odradek.spark.progress_group import ProgressGroup, group_of
from odradek.spark.reader import InputRanges, plan, read_ranges
from odradek.spark.topics import SubscribedPartitions, Topics, loss_reports

log = logging.getLogger(__name__)

PARTITIONS_MAX_AGE_SECONDS = 1.0
HELD_BACK_PAUSE_SECONDS = 0.1
LAST_COMMIT_WAIT_SECONDS = 5.0


class QueryState(enum.Enum):
    """The state of the query, as far as the reader knows it."""

    RESUMED = enum.auto()
    """The checkpoint has micro-batches, or Spark has not called yet."""
    STARTING = enum.auto()
    """Spark asked for the start: no micro-batch is finished, and one may be logged."""
    RUNNING = enum.auto()


class StreamReader(VersionCheckedPickle, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("odradek")`. Picklable: connections are opened at first use."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.initial = InitialOffsets(options)
        self.query = QueryState.RESUMED
        self.target: Offsets | None = None
        self.watch: HeadWatch | None = None
        self.group_id = group_of(options)
        self.group: ProgressGroup | None = None
        self.known = SubscribedPartitions([], {}, [])
        self.known_until = 0.0
        self.passed_over: list[str] = []
        """The missing topics of the last warning."""
        self.reported: set[tuple[TopicPartition, int]] = set()
        """The new partitions, with their log starts, that a warning has named."""
        self.heads: Offsets = {}
        self.last_batch_at = -math.inf
        """By `time.monotonic`. The first micro-batch after a start is not held back."""

    @property
    def topics(self) -> Topics:
        return Topics(admin_of(self.options.client), self.options)

    def initialOffset(self) -> dict[str, Any]:
        def resolve() -> Offsets:
            return self.topics.start(self.topics.partitions())

        if self.query is QueryState.RESUMED:
            self.query = QueryState.STARTING
        return StreamOffset(self.initial.get(resolve)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.max_offsets_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.current_heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begins, self.query = self.query is QueryState.STARTING, QueryState.RUNNING
        given = StreamOffset.from_json(start, "the start offset")
        if begins:
            self.initial.keep()
        if begins and self.initial.can_move():
            self.heads = self.current_heads()
            return StreamOffset(given.offsets, self.known.topic_ids, begins=True).to_json()
        heads = self.heads_for(given.offsets)
        self.heads = heads
        begin = given.without_topics(self.recreated_topics(given))
        self.check_missing(given.offsets)
        self.check_start(begin, heads)
        self.show_progress(begin)
        begin = self.with_new_partitions(begin, heads)
        if self.waits_for_more(begin, heads):
            return start
        end = heads
        if self.options.max_timestamp_span_ms:
            span_ms = self.options.max_timestamp_span_ms
            end = align(self.topics, begin, heads, span_ms)
        if isinstance(limit, ReadMaxRows):
            end = limit_offsets(begin, end, limit.max_rows)
        if end == given.offsets and begin == end:
            return start  # To Spark, the same text means no new data.
        self.last_batch_at = time.monotonic()
        return StreamOffset(end, self.known.topic_ids).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json_dict(self.heads) if self.heads else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        again, self.query = self.query is QueryState.STARTING, QueryState.RUNNING
        ends = StreamOffset.from_json(end, "the end offset")
        if ends.begins:
            return []
        given = StreamOffset.from_json(start, "the start offset")
        if again and self.initial.may_skip():
            self.topics.report_data_loss(
                "the first micro-batch of this query was logged and did not finish, and is to be "
                f"run again up to {to_json_dict(ends.offsets)}; where it began was not kept, and "
                f"{self.options.starting.option} now gives {to_json_dict(given.offsets)}",
                *self.initial.not_kept(),
            )
        if not self.known.partitions:
            self.known = self.topics.resolve_subscription()
        self.check_missing({**given.offsets, **ends.offsets})
        there = set(self.known.partitions)
        # What has been created again since is read by the next micro-batch.
        existing = ends.without_topics(self.recreated_topics(ends))
        end_offsets = {p: offset for p, offset in existing.items() if p in there}
        begin = given.without_topics(self.recreated_topics(given))
        begin = self.with_new_partitions(begin, end_offsets)
        begin = self.within_log(begin, end_offsets)
        return list(plan(self.options, begin, end_offsets))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, InputRanges):
            yield from read_ranges(self.options, partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint holds the progress."""

    def stop(self) -> None:
        """Close the clients; Spark does not always call this before the process ends."""
        if self.watch is not None:
            self.watch.close()
            self.watch = None
        if self.group is not None:
            self.group.close()
            self.group = None

    def heads_for(self, begin: Offsets) -> Offsets:
        """Return the heads to read up to; waits a short time for new records, and for as many as
        `minOffsetsPerTrigger` requires."""
        if self.target is not None:
            return self.at_least(begin, self.target)
        deadline = time.monotonic() + POLL_MS / 1000
        heads = self.current_heads()
        if heads == begin:
            heads = self.wait_for_new_records(heads)
        while self.waits_for_more(begin, heads) and (rest := deadline - time.monotonic()) > 0:
            time.sleep(min(rest, HELD_BACK_PAUSE_SECONDS))
            heads = self.current_heads()
        return heads

    def current_heads(self) -> Offsets:
        """Return the ends of the logs; looks for new partitions once a second."""
        now = time.monotonic()
        if now >= self.known_until:
            self.known = self.topics.resolve_subscription()
            self.known_until = now + PARTITIONS_MAX_AGE_SECONDS
        try:
            return self.topics.latest(self.known.partitions)
        except UnknownTopicOrPartition:
            # A topic was deleted since.
            self.known = self.topics.resolve_subscription()
            return self.topics.latest(self.known.partitions)

    def wait_for_new_records(self, heads: Offsets) -> Offsets:
        if self.watch is None:
            self.watch = HeadWatch(self.options.client, read_committed=self.options.read_committed)
        return self.watch.wait(heads, self.current_heads)

    def show_progress(self, finished: Offsets) -> None:
        """Commit the end of the last finished micro-batch for the query's group, if it has one."""
        if self.group_id is None or not finished:
            return
        if self.group is None:
            self.group = ProgressGroup(self.options, self.group_id)
        last = self.target is not None and finished == self.heads
        self.group.commit(finished, within_s=LAST_COMMIT_WAIT_SECONDS if last else 0.0)

    def recreated_topics(self, of: StreamOffset) -> list[str]:
        """Return the topics that were created again since, and report them as data loss."""
        replaced = of.recreated_topics(self.known.topic_ids)
        for topic in replaced:
            self.topics.report_data_loss(
                f"topic {topic} was deleted and created again: the query read the one with the id "
                f"{of.topic_ids[topic]}, now it has the id {self.known.topic_ids[topic]}"
            )
        return replaced

    def at_least(self, begin: Offsets, target: Offsets) -> Offsets:
        """Return the target of AvailableNow, or `begin` where the query is further."""
        existing = self.current_heads()
        return {
            p: max(offset, min(begin.get(p, offset), existing.get(p, offset)))
            for p, offset in target.items()
        }

    def waits_for_more(self, begin: Offsets, heads: Offsets) -> bool:
        """True if `minOffsetsPerTrigger` and `maxTriggerDelay` require to wait for more records."""
        least = self.options.min_offsets_per_trigger
        if not least or self.target is not None:
            return False
        waited_ms = (time.monotonic() - self.last_batch_at) * 1000
        if waited_ms >= self.options.max_trigger_delay_ms:
            return False
        return sum(heads[p] - begin.get(p, heads[p]) for p in heads) < least

    def check_missing(self, begin: Offsets) -> None:
        """Report missing partitions of the checkpoint as data loss. Raises `KafkaError` for
        missing topics that the query did not read before."""
        read_before = {p.topic for p in begin}
        never_read = [name for name in self.known.missing if name not in read_before]
        if self.options.fail_on_data_loss:
            self.topics.require(never_read)
        elif never_read != self.passed_over:
            log.warning("going on without missing topics: %s", ", ".join(never_read))
            self.passed_over = never_read
        for missing in loss_reports(begin, set(self.known.partitions), self.options.subscription):
            self.topics.report_data_loss(*missing)

    def check_start(self, begin: Offsets, heads: Offsets) -> None:
        """Report data loss if a log ends before the offset to go on from."""
        for partition in sorted(begin):
            if partition in heads and heads[partition] < begin[partition]:
                self.topics.report_data_loss(
                    f"{partition}: offset {begin[partition]} should be next, "
                    f"the log ends at {heads[partition]}"
                )

    def with_new_partitions(self, begin: Offsets, heads: Offsets) -> Offsets:
        """Return `begin` with the earliest offset of each partition that was added since; above 0
        it is data loss."""
        new = [p for p in heads if p not in begin]
        if not new:
            return begin
        first = self.topics.earliest(new)
        for partition in sorted(new):
            trimmed = (partition, first[partition])
            if first[partition] > 0 and trimmed not in self.reported:
                self.topics.report_data_loss(
                    f"{partition} was added since the last micro-batch and would be read from the "
                    f"beginning, but its log starts at {first[partition]}, not at 0",
                    "Either its first records were deleted (retention, DeleteRecords) before they "
                    "were read, or it is older than the query, which did not read it so far",
                    "set failOnDataLoss to false to read it from where its log starts (until one "
                    "micro-batch is finished), or begin with a new checkpoint",
                )
                self.reported.add(trimmed)
        return {**begin, **first}

    def within_log(self, begin: Offsets, end: Offsets) -> Offsets:
        """Return `begin`, moved to the log start if records that should be read were deleted."""
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


POLL_MS = 500
PAUSE_SECONDS = 0.02


class HeadWatch:
    """Waits for new records with a long poll on every leader. For one thread."""

    def __init__(self, client: ClientOptions, *, read_committed: bool = False) -> None:
        self.consumer = open_consumer(
            FetchOptions(client, read_committed, max_bytes=1, max_partition_bytes=1)
        )
        self.watched: Offsets = {}
        """The positions of the consumer."""

    def wait(
        self, heads: Offsets, moved: Callable[[], Offsets], timeout_ms: int = POLL_MS
    ) -> Offsets:
        """Return the first `moved()` that is not `heads`, or `heads` after `timeout_ms`."""
        deadline = time.monotonic() + timeout_ms / 1000
        while (rest := deadline - time.monotonic()) > 0:
            if not self.may_have_moved(heads, rest):
                return heads
            found = moved()
            if found != heads:
                return found
            # The answers differ for a moment, or there was an error, which shows elsewhere.
            time.sleep(min(PAUSE_SECONDS, rest))
        return heads

    def may_have_moved(self, heads: Offsets, timeout_s: float) -> bool:
        """Wait for a record; True if the heads may have moved."""
        try:
            if self.watched != heads:
                self.watched = {}
                self.consumer.assign(heads)
                self.watched = dict(heads)
            if self.consumer.poll(timeout_s) is None:
                return False
        except KafkaError:
            pass
        self.watched = {}
        return True

    def close(self) -> None:
        self.consumer.close()
