"""Reads ranges of offsets from their leaders, without a group, one request ahead of its reader.

    positions ──► Fetch to each leader ──► batches ──► positions behind the last batches
        ▲                                                    │
        └── before the caller sees what the last one brought ┘

So the broker and the network work on the next bytes while the caller decodes the last ones. Batches
come whole, as the broker keeps them: the first may begin before the position and the last may end
after the range, so the caller drops records outside `Fetched.position .. Fetched.end`. Offsets that
no record has (compaction, transaction markers) are passed over by the batches' own last offsets.

Retried here: lost connections, moved leaders, and whatever else Kafka calls retriable, as long as
some partition makes progress within the timeout. An offset that is gone (OFFSET_OUT_OF_RANGE) is
the caller's decision: `out_of_range` is asked where to go on, and may raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from odradek.client.simple.cluster import READ_COMMITTED, READ_UNCOMMITTED, Cluster, by_topic
from odradek.client.simple.connection import Disconnected
from odradek.client.simple.metadata import KafkaError, Retry
from odradek.client.simple.network_client import Pending
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_UUID, TopicPartition
from odradek.model.spans import Span
from odradek.protocol.api.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.record_batch import batches

LAST_VERSION_BY_NAME = 12
MAX_WAIT_MS = 500

OutOfRange = Callable[[TopicPartition, int], int]


class Fetched(NamedTuple):
    """Whole batches of one partition, in which the records from `position` to `end` (excluded) are
    wanted."""

    topic_partition: TopicPartition
    records: Span
    position: int
    end: int
    aborted: Sequence[AbortedTransaction]


@dataclass(slots=True)
class Progress:
    """How far a range has been read."""

    position: int
    end: int


@dataclass(slots=True)
class Asked:
    """A Fetch under way and what it asks for."""

    pending: Pending[FetchResponse]
    positions: dict[TopicPartition, int]
    names: dict[UUID, str]


class RangeFetcher:
    """Iterate to read all of `ranges` (partition -> start, end). For one thread, once."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        *,
        out_of_range: OutOfRange,
        read_committed: bool = False,
        max_bytes: int = 52_428_800,
        max_partition_bytes: int = 4_194_304,
    ) -> None:
        self.cluster = cluster
        self.left = {p: Progress(*r) for p, r in sorted(ranges.items()) if r[0] < r[1]}
        self.out_of_range = out_of_range
        self.isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self.max_bytes = max_bytes
        self.max_partition_bytes = max_partition_bytes
        self.asked: dict[int, Asked] = {}

    def __iter__(self) -> Iterator[Fetched]:
        retry = Retry(self.cluster.api_timeout_ms)
        try:
            while self.left:
                error = self.ask()
                progress = False
                for node_id in list(self.asked):
                    fetched, failed = self.answer(node_id)
                    error = failed or error
                    if fetched:
                        progress = True
                        # Ask again before the caller starts to decode: it keeps the broker busy.
                        error = self.ask() or error
                        yield from fetched
                if progress:
                    retry = Retry(self.cluster.api_timeout_ms)
                elif self.left:
                    retry.pause(error or self.nothing())
        finally:
            for asked in self.asked.values():
                self.cluster.client.abandon(asked.pending)

    def nothing(self) -> Exception:
        """Why there is no progress when nobody reports an error."""
        left = ", ".join(f"{p} from {self.left[p].position}" for p in list(self.left)[:3])
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no records came of {left}")

    def ask(self) -> Exception | None:
        """A Fetch to every leader that has none under way and partitions left; what went wrong, if
        anything did."""
        groups: dict[int, list[TopicPartition]] = {}
        error: Exception | None = None
        for partition in self.left:
            node_id = self.cluster.metadata.leader(partition)
            if node_id not in self.asked:
                groups.setdefault(node_id, []).append(partition)
        for node_id, group in groups.items():
            try:
                by_id = self.by_topic_id(node_id, group)
                pending = self.cluster.client.send(
                    node_id,
                    self.request(group, by_id),
                    FetchResponse,
                    max_version=None if by_id else LAST_VERSION_BY_NAME,
                )
                names = {self.cluster.metadata.topic(p.topic).topic_id: p.topic for p in group}
                positions = {p: self.left[p].position for p in group}
                self.asked[node_id] = Asked(pending, positions, names)
            except Disconnected as failed:
                self.cluster.metadata.forget(by_topic(group))
                error = failed
        return error

    def by_topic_id(self, node_id: int, group: list[TopicPartition]) -> bool:
        """Whether the Fetch can name its topics by id: it speaks of exactly the topics that were
        described."""
        version = self.cluster.client.version_of(node_id, FetchRequest)
        return version > LAST_VERSION_BY_NAME and all(
            self.cluster.metadata.topic(p.topic).topic_id != ZERO_UUID for p in group
        )

    def request(self, group: list[TopicPartition], by_id: bool) -> FetchRequest:
        topics = []
        for name, partitions in by_topic(group).items():
            wanted = [
                FetchPartition(
                    partition=p.partition,
                    fetch_offset=self.left[p].position,
                    partition_max_bytes=self.max_partition_bytes,
                )
                for p in partitions
            ]
            if by_id:
                topic_id = self.cluster.metadata.topic(name).topic_id
                topics.append(FetchTopic(topic_id=topic_id, partitions=wanted))
            else:
                topics.append(FetchTopic(topic=name, partitions=wanted))
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation,
            topics=topics,
        )

    def answer(self, node_id: int) -> tuple[list[Fetched], Exception | None]:
        """Take the response of a node: what it brought, and what went wrong."""
        asked = self.asked.pop(node_id)
        try:
            response = self.cluster.client.receive(asked.pending)
        except Disconnected as failed:
            self.cluster.metadata.forget(by_topic(asked.positions))
            return [], failed
        found: list[Fetched] = []
        code = ErrorCode(response.error_code)
        error: Exception | None = self.failed(
            code, f"fetch from node {node_id}", list(asked.names.values())
        )
        for topic in response.responses:
            name = topic.topic or asked.names[topic.topic_id]
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                position = asked.positions[partition]
                error = self.take(partition, position, data, found) or error
        return found, error

    def take(
        self, partition: TopicPartition, position: int, data: PartitionData, found: list[Fetched]
    ) -> Exception | None:
        """One partition's part of a response."""
        code = ErrorCode(data.error_code)
        progress = self.left[partition]
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            progress.position = self.out_of_range(partition, position)
            self.settle(partition)
            return None
        error = self.failed(code, str(partition), [partition.topic])
        records = data.records
        if error is not None or not isinstance(records, Span) or len(records) == 0:
            return error
        complete = list(batches(records.data, records.start, records.end))
        if not complete:
            return None  # cut off before the end of its first batch: another partition had its turn
        whole = Span(records.data, records.start, complete[-1].end)
        aborted = data.aborted_transactions or ()
        found.append(Fetched(partition, whole, position, progress.end, aborted))
        progress.position = max(position, complete[-1].next_offset)
        self.settle(partition)
        return None

    def settle(self, partition: TopicPartition) -> None:
        """Done with a range that has been read; one just served goes to the back of the queue."""
        progress = self.left.pop(partition)
        if progress.position < progress.end:
            self.left[partition] = progress

    def failed(self, code: ErrorCode, what: str, topics: Sequence[str]) -> KafkaError | None:
        """None, or an error that may pass; raises one that will not."""
        if code == ErrorCode.NONE:
            return None
        error = KafkaError(code, what)
        if code.refresh_metadata:
            self.cluster.metadata.forget(topics)
        if not code.retriable:
            raise error
        return error
