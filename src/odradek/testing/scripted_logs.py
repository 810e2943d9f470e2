"""Scripted partitions: the records that a consumer reads from a `ScriptedCluster`.

    logs = ScriptedLogs(cluster)
    log = logs["orders", 0]
    log.append([(None, b"one", [], 5)], epoch=0)
    log.truncate(1)
    log.errors.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)    # for the next fetch that reaches it

The leader of a partition answers Fetch (with incremental sessions), ListOffsets and
OffsetForLeaderEpoch from these logs; another broker answers NOT_LEADER_OR_FOLLOWER. A fetch that
finds nothing is tried again, until something was appended or its `max_wait_ms` is over.

Not simulated, because consumers do not see it: acknowledgements, replicas, time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.api.offset_for_leader_epoch import EpochEndOffset as EpochEnd
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.record_batch import RecordBatchHeader, records_of, stamp
from odradek.protocol.record_batch_builder import build
from odradek.protocol.records import Header
from odradek.testing.scripted import PORT, DelayedAnswer, ScriptedCluster

Row = tuple[bytes | None, bytes | None, Sequence[Header], int]
"""Key, value, headers, timestamp."""
LATEST, EARLIEST = -1, -2


@dataclass(slots=True)
class StoredBatch:
    """A record batch of a scripted log: its bytes, offsets, epoch and newest timestamp."""

    data: bytes
    base_offset: int
    next_offset: int
    epoch: int
    max_timestamp: int


@dataclass(slots=True)
class ScriptedLog:
    """The log of one partition."""

    batches: list[StoredBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    stable: int | None = None
    """The last stable offset; None: the end."""
    aborted: list[AbortedTransaction] = field(default_factory=list)
    errors: list[ErrorCode] = field(default_factory=list)
    """The errors that the next fetches of this partition get, one each."""
    hints: bool = True
    """True if a broker that is not the leader names the leader (KIP-951)."""

    def append(self, rows: Sequence[Row], epoch: int = 0, codec: int = 0) -> int:
        """Append one batch of records; return its first offset."""
        return self.append_batch(build(list(rows), codec), epoch)

    def append_batch(self, data: bytes, epoch: int = 0) -> int:
        """Append a batch as a producer sends it; return its first offset."""
        data = stamp(data, 0, self.end, epoch) + data[16:]
        header = RecordBatchHeader(data, 0)
        first = self.end
        self.end = header.next_offset
        self.batches.append(StoredBatch(data, first, self.end, epoch, header.max_timestamp))
        return first

    def truncate(self, end: int) -> None:
        """Remove the batches from this offset on."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        self.end = end

    def trim(self, start: int) -> None:
        """Move the log start."""
        self.batches = [batch for batch in self.batches if batch.next_offset > start]
        self.start = start

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch`, and its end offset."""
        later = [batch.base_offset for batch in self.batches if batch.epoch > epoch]
        known = [batch.epoch for batch in self.batches if batch.epoch <= epoch]
        if not known:
            return -1, -1
        return max(known), min(later, default=self.end)

    def find(self, timestamp: int) -> tuple[int, int, int]:
        """Return the answer of ListOffsets: offset, timestamp, epoch."""
        last = self.batches[-1].epoch if self.batches else -1
        if timestamp == LATEST:
            return self.end, -1, last
        if timestamp == EARLIEST:
            return self.start, -1, self.batches[0].epoch if self.batches else -1
        for batch in self.batches:
            for record in records_of(batch.data, RecordBatchHeader(batch.data, 0)):
                if record.offset >= self.start and record.timestamp >= timestamp:
                    return record.offset, record.timestamp, batch.epoch
        return -1, -1, -1

    def read(self, offset: int, end: int, max_bytes: int) -> bytes:
        """Return whole batches from the one with that offset on, up to an offset; at least one,
        unless `max_bytes` is 0.
        """
        parts: list[bytes] = []
        room = max_bytes
        for batch in self.batches:
            if batch.next_offset <= offset or batch.base_offset >= end:
                continue
            if room <= 0 or (parts and len(batch.data) > room):
                break
            parts.append(batch.data)
            room -= len(batch.data)
        return b"".join(parts)


EMPTY_WAIT_MS = 20
"""A fetch that finds nothing is tried again after this time."""


@dataclass(slots=True)
class ScriptedFetchSession:
    """A fetch session of one broker."""

    id: int
    epoch: int = 1
    partitions: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    ids: dict[str, UUID] = field(default_factory=dict)
    reported: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The last reported high watermark and log start."""


class ScriptedLogs:
    """The logs of all partitions, and the fetch sessions of the brokers."""

    def __init__(self, cluster: ScriptedCluster, *, sessions: bool = True) -> None:
        self.cluster = cluster
        self.sessions: dict[int, ScriptedFetchSession] = {}
        self.with_sessions = sessions
        """True if brokers create fetch sessions."""
        self._logs: dict[TopicPartition, ScriptedLog] = {}
        self._ids = itertools.count(1)
        for node_id in cluster.listed:
            self.serve(node_id)

    def serve(self, node_id: int) -> None:
        """Make this broker answer from the logs."""

        def fetch(request: FetchRequest, version: int) -> Any:
            return self._fetch(node_id, request, version, request.max_wait_ms)

        answers = self.cluster[node_id].answers
        answers[FetchRequest] = fetch
        answers[ListOffsetsRequest] = lambda request, _: self._list_offsets(node_id, request)
        answers[OffsetForLeaderEpochRequest] = lambda request, _: self._epochs(node_id, request)

    def __getitem__(self, key: tuple[str, int]) -> ScriptedLog:
        """Return the log of a partition, empty at first."""
        return self._logs.setdefault(TopicPartition(*key), ScriptedLog())

    # Who leads what.

    def _leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the leader and its epoch; (-2, -1) if there is no such partition."""
        topic = self.cluster.topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.leaders):
            return -2, -1
        return topic.leaders[partition.partition], topic.epochs[partition.partition]

    def _refusal(self, node_id: int, partition: TopicPartition, epoch: int) -> ErrorCode:
        leader, current = self._leader(partition)
        if leader == -2:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if -1 < epoch < current:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > current:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    # Fetch.

    def _fetch(self, node_id: int, request: FetchRequest, version: int, wait_ms: int) -> Any:
        session = self._session(request, version)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session, session_id=0, responses=[])
        full = session.id == 0 or not session.reported
        return self._try(node_id, request, session, version, wait_ms, full)

    def _try(
        self,
        node_id: int,
        request: FetchRequest,
        session: ScriptedFetchSession,
        version: int,
        wait_ms: int,
        full: bool,
    ) -> Any:
        """Read; if there is nothing, try again later."""
        room = request.max_bytes
        found: list[tuple[TopicPartition, PartitionData]] = []
        enough = False
        for partition, wanted in session.partitions.items():
            data = self._read(node_id, partition, wanted, request.isolation_level, room)
            size = len(data.records or b"")
            room -= size
            enough = enough or size > 0 or data.error_code != 0 or data.diverging_epoch is not None
            found.append((partition, data))
        if not enough and wait_ms > 0:
            pause = min(wait_ms, EMPTY_WAIT_MS)
            return DelayedAnswer(
                pause,
                lambda: self._try(node_id, request, session, version, wait_ms - pause, full),
            )
        answered = [
            (partition, data)
            for partition, data in found
            if self._has_changed(session, partition, data)
        ]
        return self._response(session, found if full else answered, version)

    @staticmethod
    def _has_changed(
        session: ScriptedFetchSession, partition: TopicPartition, data: PartitionData
    ) -> bool:
        """True if a partition must be in the answer; remembers the reported offsets."""
        known = (data.high_watermark, data.log_start_offset)
        news = session.reported.get(partition) != known or data.error_code or data.records
        session.reported[partition] = known
        return bool(news) or data.diverging_epoch is not None

    def _response(
        self,
        session: ScriptedFetchSession,
        found: Sequence[tuple[TopicPartition, PartitionData]],
        version: int,
    ) -> FetchResponse:
        topics: dict[str, list[PartitionData]] = {}
        for partition, data in found:
            topics.setdefault(partition.topic, []).append(data)
        by_id = version >= 13
        named = [
            FetchableTopicResponse(topic_id=session.ids[name], partitions=parts)
            if by_id
            else FetchableTopicResponse(topic=name, partitions=parts)
            for name, parts in topics.items()
        ]
        hinted = any(data.current_leader for _, data in found)
        return FetchResponse(
            session_id=session.id,
            responses=named,
            node_endpoints=self._endpoints() if hinted and version >= 16 else [],
        )

    def _endpoints(self) -> list[NodeEndpoint]:
        return [
            NodeEndpoint(node_id=node, host=self.cluster[node].host, port=PORT)
            for node in self.cluster.listed
        ]

    def _session(self, request: FetchRequest, version: int) -> ScriptedFetchSession | ErrorCode:
        """Return the session of a request, after updating it."""
        if request.session_epoch in (0, -1):
            self.sessions.pop(request.session_id, None)
            keeps = self.with_sessions and request.session_epoch == 0 and version >= 7
            session = ScriptedFetchSession(next(self._ids) if keeps else 0)
            if keeps:
                self.sessions[session.id] = session
        else:
            known = self.sessions.get(request.session_id)
            if known is None:
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if known.epoch != request.session_epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            known.epoch += 1
            session = known
        for forgotten in request.forgotten_topics_data:
            name = self._name(forgotten.topic, forgotten.topic_id)
            for number in forgotten.partitions:
                session.partitions.pop(TopicPartition(name, number), None)
                session.reported.pop(TopicPartition(name, number), None)
        for topic in request.topics:
            name = self._name(topic.topic, topic.topic_id)
            session.ids[name] = topic.topic_id
            for wanted in topic.partitions:
                session.partitions[TopicPartition(name, wanted.partition)] = wanted
        return session

    def _name(self, name: str, topic_id: UUID) -> str:
        if topic_id == ZERO_UUID:
            return name
        known = (n for n, topic in self.cluster.topics.items() if topic.topic_id == topic_id)
        return next(known, str(topic_id))

    def _read(
        self,
        node_id: int,
        partition: TopicPartition,
        wanted: FetchPartition,
        isolation_level: int,
        room: int,
    ) -> PartitionData:
        log = self[partition]
        code = self._refusal(node_id, partition, wanted.current_leader_epoch)
        if log.errors and code == ErrorCode.NONE:
            code = log.errors.pop(0)
        if code == ErrorCode.NONE and not log.start <= wanted.fetch_offset <= log.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        stable = log.end if log.stable is None else log.stable
        data = PartitionData(
            partition_index=partition.partition,
            error_code=code,
            high_watermark=log.end,
            last_stable_offset=stable,
            log_start_offset=log.start,
            aborted_transactions=list(log.aborted) if isolation_level else None,
            records=b"",
        )
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and log.hints:
            leader, epoch = self._leader(partition)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        if code == ErrorCode.NONE:
            self._fill(data, log, wanted, stable if isolation_level else log.end, room)
        return data

    @staticmethod
    def _fill(
        data: PartitionData, log: ScriptedLog, wanted: FetchPartition, end: int, room: int
    ) -> None:
        if wanted.last_fetched_epoch >= 0:
            epoch, epoch_end = log.epoch_end(wanted.last_fetched_epoch)
            if epoch_end < wanted.fetch_offset or epoch < wanted.last_fetched_epoch:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=epoch_end)
                return
        data.records = log.read(wanted.fetch_offset, end, min(room, wanted.partition_max_bytes))

    # Offsets.

    def _list_offsets(self, node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            found = []
            for asked in topic.partitions:
                partition = TopicPartition(topic.name, asked.partition_index)
                code = self._refusal(node_id, partition, asked.current_leader_epoch)
                offset, at, epoch = (-1, -1, -1) if code else self[partition].find(asked.timestamp)
                found.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        error_code=code,
                        timestamp=at,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=found))
        return ListOffsetsResponse(topics=topics)

    def _epochs(
        self, node_id: int, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            found = []
            for asked in topic.partitions:
                partition = TopicPartition(topic.topic, asked.partition)
                code = self._refusal(node_id, partition, asked.current_leader_epoch)
                epoch, end = (-1, -1) if code else self[partition].epoch_end(asked.leader_epoch)
                found.append(
                    EpochEnd(
                        error_code=code,
                        partition=asked.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
        return OffsetForLeaderEpochResponse(topics=topics)
