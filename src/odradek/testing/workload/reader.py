"""A simulated consumer of assigned partitions: fetches from the beginning and records the answers.

It checks only what only it can see: batches whose CRC is wrong, and positions that the broker
claims not to have. Everything else is evidence for the checker. A *final* reader asks for the end
offsets first and is finished when it has read up to them; others read until they are stopped.

If logs may lose their beginning, a position out of range is compared with the current log start: if
that is later, reading goes on there.

With `sessions` it keeps its half of an incremental fetch session (KIP-227):

    full request (epoch 0) ──► the broker gave a session ──► incremental (epoch 1, 2, ...)
        ▲    ▲                                                     │
        │    └── it gave none: the next is full again              │
        └── no answer, an error of the session, or at random ◄─────┘

An incremental request lists the partitions whose position has changed since the last answered
request, and those to forget. This is not the code of our own client: each must agree with the
broker, not only with the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol import record_batch
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.testing.history import Content, History, Read, Start
from odradek.testing.scheduler import MS
from odradek.testing.workload.cluster_client import MOVED, ClusterClient
from odradek.testing.workload.topics import TOPIC_UNKNOWN, TopicLife, by_topic

LATEST, EARLIEST = -1, -2
SESSIONLESS, FULL = -1, 0

SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """The plan of a reader. Times in ms, sizes in bytes."""

    name: str
    partitions: Sequence[TopicPartition]
    version: int = 17
    max_wait_ms: int = 300
    min_bytes: int = 1
    max_bytes: int = 16_384
    partition_max_bytes: int = 4096
    pause_ms: tuple[int, int] = (1, 200)
    final: bool = False
    sessions: bool = False
    """True if it uses incremental fetch sessions."""
    forgetful: bool = False
    """True if the logs may lose their beginning."""


@dataclass(slots=True)
class SimFetchSession:
    """A reader's fetch session: its id, its epoch, the positions last sent in it."""

    id: int = 0
    epoch: int = FULL
    sent: dict[TopicPartition, int] = field(default_factory=dict)

    def to_list(
        self, wanted: Sequence[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the partitions that the next request lists, and those it forgets."""
        if self.epoch == FULL:
            self.sent = {}
        listed = [tp for tp in wanted if self.sent.get(tp) != positions[tp]]
        forgotten = [tp for tp in self.sent if tp not in wanted]
        self.sent = {tp: positions[tp] for tp in wanted}
        return listed, forgotten

    def answered(self, session_id: int) -> None:
        """Handle an answer from the session of this id (0: the broker keeps none)."""
        self.id = session_id
        self.epoch = self.epoch + 1 if session_id else FULL

    def lost(self) -> None:
        """Start a new session, because the broker's state is unknown."""
        self.epoch = FULL


@dataclass(slots=True, eq=False)
class SimReader:
    """Runs a plan. `positions`: the next offset to fetch; `ends`: where a final reader stops."""

    client: ClusterClient
    history: History
    plan: ReaderPlan
    topics: Mapping[str, TopicLife]
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    stopped: bool = False
    _asked_ns: int = 0
    _asked_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """The leader epochs of the last requests that listed the partitions."""
    _sessions: dict[str, SimFetchSession] = field(default_factory=dict)
    """By broker."""
    _out_of_range: dict[TopicPartition, int] = field(default_factory=dict)
    """With the leader epochs of the requests that were refused."""

    def start(self) -> None:
        self.positions = dict.fromkeys(self.plan.partitions, 0)
        if self.plan.final:
            self._ask(LATEST, self.plan.partitions)
        else:
            self._fetch()

    def stop(self) -> None:
        self.stopped = True

    @property
    def finished(self) -> bool:
        if not self.plan.final:
            return self.stopped
        known = len(self.ends) == len(self.plan.partitions)
        return known and all(self.positions[tp] >= end for tp, end in self.ends.items())

    def pending(self) -> str:
        """Return what is unfinished, for a report."""
        left = [
            f"{tp} at {self.positions[tp]} of {self.ends.get(tp, '?')}"
            for tp in self.plan.partitions
            if self.positions[tp] < self.ends.get(tp, 1)
        ]
        return f"{self.plan.name}: {', '.join(left)}"

    # Ends and starts.

    def _ask(self, what: int, partitions: Sequence[TopicPartition]) -> None:
        """Ask for the end (`LATEST`) or the start (`EARLIEST`) of these partitions.

        Those that have another leader than the first one are asked for later.
        """
        led = self.client.by_leader(partitions)
        if led:
            partitions = led[0][1]
        topics = [
            ListOffsetsTopic(
                name=self.topics[label].name,
                partitions=[
                    ListOffsetsPartition(partition_index=tp.partition, timestamp=what)
                    for tp in asked
                ],
            )
            for label, asked in by_topic(partitions)
        ]
        asked_ns = self._now_ns()
        self.client.call_leader(
            partitions[0],
            ListOffsetsRequest(replica_id=-1, topics=topics),
            7,
            ListOffsetsResponse,
            lambda response: self._offsets_received(what, partitions, response, asked_ns),
            lambda: self._ask_later(what, partitions),
        )

    def _offsets_received(
        self,
        what: int,
        partitions: Sequence[TopicPartition],
        response: ListOffsetsResponse,
        asked_ns: int,
    ) -> None:
        labels = {self.topics[tp.topic].name: tp.topic for tp in partitions}
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(labels[topic.name], partition.partition_index)
                error = ErrorCode(partition.error_code)
                if self._is_over(tp, error):
                    continue
                if error != ErrorCode.NONE:
                    self.client.note_error(tp, error)
                    self._ask_later(what, partitions)
                    return
                if what == LATEST:
                    self.ends[tp] = partition.offset
                else:
                    self._begins_at(tp, partition.offset, asked_ns)
        if what == LATEST and self.plan.forgetful:
            self._ask(EARLIEST, partitions)
        else:
            self._fetch()

    def _begins_at(self, tp: TopicPartition, offset: int, asked_ns: int) -> None:
        self.history.starts.append(Start(tp, offset, asked_ns, self._now_ns(), self.plan.final))
        epoch = self._out_of_range.pop(tp, None)
        if epoch is not None and offset <= self.positions[tp]:
            if epoch != self.client.epoch_of(tp):
                return  # Of another leader, whose retention has not deleted as much yet.
            self._lost(tp)
        self.positions[tp] = offset

    def _ask_later(self, what: int, partitions: Sequence[TopicPartition]) -> None:
        if not self.stopped:
            self.client.process.post(100 * MS, "retry ends", lambda: self._ask(what, partitions))

    def _is_over(self, tp: TopicPartition, error: ErrorCode) -> bool:
        """True if a partition is damaged or deleted and will never answer again."""
        damaged = error == ErrorCode.KAFKA_STORAGE_ERROR and tp in self.history.damaged
        if damaged or (error in TOPIC_UNKNOWN and tp.topic in self.history.topic_deletions):
            self.ends[tp] = self.positions[tp]
            return True
        return False

    def _lost(self, tp: TopicPartition) -> None:
        self.history.surprise(
            "lost",
            f"{self.plan.name} read {tp} up to {self.positions[tp]}, now that is out of range",
        )

    # Fetching.

    def _fetch(self) -> None:
        if self.stopped or self.finished:
            return
        if self._out_of_range:
            self._ask(EARLIEST, list(self._out_of_range))
            return
        led = self.client.by_leader(self.plan.partitions)
        missing = sum(len(mine) for _, mine in led) < len(self.plan.partitions)
        if missing and (not led or self.client.chance.chance(500)):
            topics = list(dict.fromkeys(tp.topic for tp in self.plan.partitions))
            self.client.find_leaders(topics, self._later)
            return
        host, listed = led[0] if len(led) == 1 else self.client.chance.pick(led)
        self._fetch_from(host, listed)

    def _fetch_from(self, host: str, listed: list[TopicPartition]) -> None:
        """Fetch these partitions from their leader."""
        forgotten: list[TopicPartition] = []
        session = self._sessions.setdefault(host, SimFetchSession())
        if self.plan.sessions:
            listed, forgotten = session.to_list(self._wanted(listed), self.positions)
        self._asked_ns = self._now_ns()
        request = FetchRequest(
            max_wait_ms=self.plan.max_wait_ms,
            min_bytes=self.plan.min_bytes,
            max_bytes=self.plan.max_bytes,
            session_id=session.id,
            session_epoch=session.epoch if self.plan.sessions else SESSIONLESS,
            topics=[self._fetch_topic(label, asked) for label, asked in by_topic(listed)],
            forgotten_topics_data=[
                ForgottenTopic(
                    topic=self.topics[label].name,
                    topic_id=self.topics[label].id,
                    partitions=[tp.partition for tp in partitions],
                )
                for label, partitions in by_topic(forgotten)
            ],
        )
        self.client.wire(host).call(
            request,
            self.plan.version,
            FetchResponse,
            lambda response: self._fetched(host, session, response),
            lambda: self._unanswered(host, session),
        )

    def _wanted(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return all partitions; sometimes one is left out once."""
        if self.plan.final or not self.client.chance.chance(100):
            return partitions
        without = self.client.chance.pick(partitions)
        return [tp for tp in partitions if tp != without] or [without]

    def _fetch_topic(self, label: str, partitions: Sequence[TopicPartition]) -> FetchTopic:
        for tp in partitions:
            self._asked_epochs[tp] = self.client.epoch_of(tp)
        return FetchTopic(
            topic=self.topics[label].name,
            topic_id=self.topics[label].id,
            partitions=[
                FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=self.client.epoch_of(tp),
                    fetch_offset=self.positions[tp],
                    partition_max_bytes=self.plan.partition_max_bytes,
                )
                for tp in partitions
            ],
        )

    def _reach(self, what: str) -> None:
        self.client.process.scheduler.reach(f"reader: {what}")

    def _unanswered(self, host: str, session: SimFetchSession) -> None:
        self._reach("no answer")
        for tp in self.plan.partitions:
            leader = self.client.leaders.get(tp)
            if leader is not None and leader.host == host:
                del self.client.leaders[tp]
        self._failed(session)

    def _failed(self, session: SimFetchSession) -> None:
        session.lost()
        self._later()

    def _fetched(self, host: str, session: SimFetchSession, response: FetchResponse) -> None:
        error = ErrorCode(response.error_code)
        if error != ErrorCode.NONE:
            self._reach("a session starts over" if error in SESSION_ERRORS else error.name)
            if not (self.plan.sessions and error in SESSION_ERRORS):
                self.history.surprise("refused", f"{self.plan.name}: fetch answered {error.name}")
            self._failed(session)
            return
        if self.plan.sessions:
            session.answered(response.session_id)
            if self.client.chance.chance(30):
                session.lost()
        labels = {self.topics[tp.topic].id: tp.topic for tp in self.plan.partitions}
        names = {self.topics[tp.topic].name: tp.topic for tp in self.plan.partitions}
        for topic in response.responses:
            label = names[topic.topic] if topic.topic else labels[topic.topic_id]
            for partition in topic.partitions:
                self._take(TopicPartition(label, partition.partition_index), partition, host)
        self._later()

    def _later(self) -> None:
        delay_ms = self.client.chance.between(*self.plan.pause_ms)
        self.client.process.post(delay_ms * MS, "fetch", self._fetch)

    def _take(self, tp: TopicPartition, data: PartitionData, host: str) -> None:
        error = ErrorCode(data.error_code)
        if error != ErrorCode.NONE:
            self._reach(error.name)
        if self._is_over(tp, error):
            return
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self.plan.forgetful:
                self._out_of_range[tp] = self._asked_epochs.get(tp, -1)
            else:
                self._lost(tp)
                self.positions[tp] = 0
            return
        if error != ErrorCode.NONE:
            self.client.note_error(tp, error)
            moved = self.client.several and error in MOVED
            if not moved and (not error.retriable or error in TOPIC_UNKNOWN):
                self.history.surprise("refused", f"{self.plan.name} of {tp}: {error.name}")
            return
        position = self.positions[tp]
        records = [r for r in contents_of(tp, data.records, self.history) if r[0] >= position]
        if records:
            self.positions[tp] = records[-1][0] + 1
        self.history.reads.append(
            Read(
                reader=self.plan.name,
                partition=tp,
                at_ns=self._now_ns(),
                losses=self.history.losses_until(self.client.connected_ns(host)),
                records=records,
                high_watermark=data.high_watermark,
                final=self.plan.final,
                asked_ns=self._asked_ns,
                position=position,
                size=len(data.records) if isinstance(data.records, ByteRange) else 0,
                broker=host,
                leader_epoch=self._asked_epochs.get(tp, -1),
            )
        )

    def _now_ns(self) -> int:
        return self.client.process.scheduler.now_ns


def contents_of(tp: TopicPartition, span: object, history: History) -> list[tuple[int, Content]]:
    """Return the fetched records with their offsets. A batch whose CRC is wrong is left out and
    noted as a surprise.
    """
    found: list[tuple[int, Content]] = []
    if span is None:
        return found
    assert isinstance(span, ByteRange)
    for header in record_batch.batches(span.data, span.start, span.end):
        if not record_batch.is_intact(span.data, header):
            history.surprise("corrupt", f"{tp}: batch at offset {header.base_offset}")
            continue
        for record in record_batch.records_of(span.data, header):
            content = Content(
                record.key, record.value or b"", tuple(record.headers), record.timestamp
            )
            found.append((record.offset, content))
    return found
