"""A simulated consumer of assigned partitions: fetches from the beginning and writes down what it
gets.

It checks nothing but what only it can see: batches whose CRC is wrong, and positions the broker
claims not to have. All else is evidence for the checker. A *final* reader asks for the end
offsets first and is finished when it has read up to them; others follow until they are stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.spans import Span
from odradek.protocol import record_batch
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.testing.history import Content, History, Read
from odradek.testing.scheduler import MS
from odradek.testing.workload.wire import WireClient

LATEST = -1


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """What a reader is. Times in ms, sizes in bytes."""

    name: str
    partitions: Sequence[TopicPartition]
    version: int = 17
    max_wait_ms: int = 300
    min_bytes: int = 1
    max_bytes: int = 16_384
    partition_max_bytes: int = 4096
    pause_ms: tuple[int, int] = (1, 200)
    final: bool = False


@dataclass(slots=True, eq=False)
class SimReader:
    """Runs a plan. `positions` is the next offset to fetch, `ends` where a final reader stops."""

    client: WireClient
    history: History
    plan: ReaderPlan
    topic_ids: dict[str, UUID]
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    stopped: bool = False
    _losses: int = 0

    def start(self) -> None:
        self.positions = dict.fromkeys(self.plan.partitions, 0)
        if self.plan.final:
            self._ask_ends()
        else:
            self._fetch()

    @property
    def finished(self) -> bool:
        if not self.plan.final:
            return self.stopped
        known = len(self.ends) == len(self.plan.partitions)
        return known and all(self.positions[tp] >= end for tp, end in self.ends.items())

    def pending(self) -> str:
        """What it waits for, for a report."""
        left = [
            f"{tp} at {self.positions[tp]} of {self.ends.get(tp, '?')}"
            for tp in self.plan.partitions
            if self.positions[tp] < self.ends.get(tp, 1)
        ]
        return f"{self.plan.name}: {', '.join(left)}"

    # End offsets.

    def _ask_ends(self) -> None:
        topics = [
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=tp.partition, timestamp=LATEST)
                    for tp in partitions
                ],
            )
            for name, partitions in self._by_topic()
        ]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        self.client.call(request, 7, ListOffsetsResponse, self._told_ends, self._ask_later)

    def _told_ends(self, response: ListOffsetsResponse) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code != ErrorCode.NONE:
                    self._ask_later()
                    return
                tp = TopicPartition(topic.name, partition.partition_index)
                self.ends[tp] = partition.offset
        self._fetch()

    def _ask_later(self) -> None:
        self.client.process.post(100 * MS, "retry ends", self._ask_ends)

    # Fetching.

    def _fetch(self) -> None:
        if self.stopped or self.finished:
            return
        topics = [
            FetchTopic(
                topic=name,
                topic_id=self.topic_ids[name],
                partitions=[
                    FetchPartition(
                        partition=tp.partition,
                        fetch_offset=self.positions[tp],
                        partition_max_bytes=self.plan.partition_max_bytes,
                    )
                    for tp in partitions
                ],
            )
            for name, partitions in self._by_topic()
        ]
        self._losses = self.history.losses
        request = FetchRequest(
            max_wait_ms=self.plan.max_wait_ms,
            min_bytes=self.plan.min_bytes,
            max_bytes=self.plan.max_bytes,
            topics=topics,
        )
        self.client.call(request, self.plan.version, FetchResponse, self._fetched, self._later)

    def _fetched(self, response: FetchResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            error = ErrorCode(response.error_code)
            self.history.surprise("refused", f"{self.plan.name}: fetch answered {error.name}")
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        for topic in response.responses:
            name = topic.topic or names[topic.topic_id]
            for partition in topic.partitions:
                self._take(TopicPartition(name, partition.partition_index), partition)
        self._later()

    def _later(self) -> None:
        delay_ms = self.client.chance.between(*self.plan.pause_ms)
        self.client.process.post(delay_ms * MS, "fetch", self._fetch)

    def _take(self, tp: TopicPartition, data: PartitionData) -> None:
        error = ErrorCode(data.error_code)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.history.surprise(
                "lost",
                f"{self.plan.name} read {tp} up to {self.positions[tp]}, now that is out of range",
            )
            self.positions[tp] = 0
            return
        if error != ErrorCode.NONE:
            if not error.retriable:
                self.history.surprise("refused", f"{self.plan.name} of {tp}: {error.name}")
            return
        position = self.positions[tp]
        records = [r for r in self._records(tp, data) if r[0] >= position]
        if records:
            self.positions[tp] = records[-1][0] + 1
        self.history.reads.append(
            Read(
                reader=self.plan.name,
                partition=tp,
                at_ns=self.client.process.scheduler.now_ns,
                losses=self._losses,
                records=records,
                high_watermark=data.high_watermark,
                final=self.plan.final,
            )
        )

    def _records(self, tp: TopicPartition, data: PartitionData) -> list[tuple[int, Content]]:
        span = data.records
        if span is None:
            return []
        assert isinstance(span, Span)
        found = []
        for header in record_batch.batches(span.data, span.start, span.end):
            if not record_batch.is_intact(span.data, header):
                self.history.surprise("corrupt", f"{tp}: batch at offset {header.base_offset}")
                continue
            for record in record_batch.records_of(span.data, header):
                content = Content(
                    record.key, record.value or b"", tuple(record.headers), record.timestamp
                )
                found.append((record.offset, content))
        return found

    def _by_topic(self) -> list[tuple[str, list[TopicPartition]]]:
        topics: dict[str, list[TopicPartition]] = {}
        for tp in self.plan.partitions:
            topics.setdefault(tp.topic, []).append(tp)
        return list(topics.items())
