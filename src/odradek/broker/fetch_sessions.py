"""Incremental fetch sessions (KIP-227): the broker remembers the partitions of a consumer, so
requests carry only changes.

A request names a session by (id, epoch):

| epoch         | id    | meaning                                                                |
|---------------|-------|------------------------------------------------------------------------|
| -1            | any   | sessionless; a session of this id is removed                           |
| 0             | any   | full request; a session of this id is replaced by a new one            |
| 1, 2, ...     | known | incremental: lists the partitions to add, change and forget            |

The response to a full request lists every partition. The response to an incremental one lists a
partition only if it has records, an error, or a high watermark or log start offset that was not
sent before. A partition that returned records moves to the end of its session, so that with a small
`max_bytes` none starves.

The cache of sessions is bounded. A new session may take the slot of the least recently used one, if
that has not been used for `eviction_ms`, or if it is older than that and smaller. Otherwise the
client gets session id 0 and sends full requests. The same happens when all sessions together would
hold more than `max_partitions`, which Kafka does not bound: a request may name partitions that do
not exist, and a session can grow with every request. A session that grows beyond it is removed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from uuid import UUID

from odradek.model.env import Random
from odradek.model.errors import ErrorCode
from odradek.protocol.hot_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
MAX_PARTITIONS: Final = 1_000_000
"""Limit of all sessions together; some 200 bytes each."""
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

NONE: Final = ErrorCode.NONE
Key = tuple[str | UUID, int]


class CachedPartition:
    """A partition of a fetch, and the offsets that were last sent to the client of its session.

    `name` is that of the topic when its id was first found: a session outlives its topics.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "max_bytes",
        "name",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
    )

    def __init__(
        self,
        topic: str | UUID,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        max_bytes: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.max_bytes = max_bytes
        self.name = ""
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1


class FetchSession:
    """The partitions that one client fetches. `epoch` is the one its next request must carry."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "last_used_ms", "partitions")

    def __init__(
        self, new_id: int, by_id: bool, now_ms: int, partitions: OrderedDict[Key, CachedPartition]
    ) -> None:
        self.id = new_id
        self.by_id = by_id
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1
        self.partitions = partitions


class FetchPlan:
    """The partitions to read for one request, in order (Kafka's FetchContext).

    `session` is None for a sessionless request.
    """

    __slots__ = ("incremental", "partitions", "session")

    def __init__(
        self,
        partitions: list[CachedPartition],
        session: FetchSession | None = None,
        incremental: bool = False,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.incremental = incremental

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.id

    def update_and_list(
        self,
        partition: CachedPartition,
        error: ErrorCode,
        size: int,
        high_watermark: int,
        log_start: int,
    ) -> bool:
        """True if the response lists this partition; notes the offsets that are sent then."""
        changed = (
            size > 0
            or error is not NONE
            or high_watermark != partition.sent_high_watermark
            or log_start != partition.sent_log_start_offset
        )
        if self.session is None:
            return True
        partition.sent_high_watermark = high_watermark if error is NONE else -1
        partition.sent_log_start_offset = log_start
        if size > 0:
            key = (partition.topic, partition.partition)
            if key in self.session.partitions:
                self.session.partitions.move_to_end(key)
        return changed or not self.incremental


def requested(topics: list[FetchTopic], by_id: bool) -> OrderedDict[Key, CachedPartition]:
    """The partitions of a request by key; of one that is listed twice the last one counts."""
    found: OrderedDict[Key, CachedPartition] = OrderedDict()
    for topic in topics:
        add_requested(found, topic.topic_id if by_id else topic.topic, topic.partitions)
    return found


def add_requested(
    found: OrderedDict[Key, CachedPartition], name: str | UUID, partitions: list[FetchPartition]
) -> None:
    """Add partitions that a request lists of one topic."""
    for asked in partitions:
        found[(name, asked.partition)] = CachedPartition(
            name,
            asked.partition,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.partition_max_bytes,
        )


class FetchSessionCache:
    """The sessions of this broker, least recently used first."""

    def __init__(
        self,
        slots: int,
        random: Random,
        eviction_ms: int = 120_000,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        self.slots = slots
        self.max_partitions = max_partitions
        self.eviction_ms = eviction_ms
        self.random = random
        self.sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def plan(
        self,
        request: FetchRequest,
        version: int,
        now_ms: int,
        listed: OrderedDict[Key, CachedPartition] | None = None,
    ) -> FetchPlan | ErrorCode:
        """The partitions that a request reads, or the error of its session.

        `listed`: what `add_requested` has found in its topics, if that was done before.
        """
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if listed is None:
            listed = requested(request.topics, by_id)
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self.sessions.pop(request.session_id, None)
            partitions = listed
            if request.session_epoch == FINAL_EPOCH:
                return FetchPlan(list(partitions.values()))
            session = self._create(partitions, by_id, now_ms)
            return FetchPlan(list(partitions.values()), session)
        return self._continue(request, by_id, now_ms, listed)

    def _continue(
        self,
        request: FetchRequest,
        by_id: bool,
        now_ms: int,
        listed: OrderedDict[Key, CachedPartition],
    ) -> FetchPlan | ErrorCode:
        session = self.sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id and (request.topics or request.forgotten_topics_data):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used_ms = now_ms
        self.sessions.move_to_end(session.id)
        before = len(session.partitions)
        self._update(session, listed, request.forgotten_topics_data)
        if len(session.partitions) > before and self.total_partitions > self.max_partitions:
            del self.sessions[session.id]
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if not session.partitions:
            del self.sessions[session.id]
            return FetchPlan([])
        return FetchPlan(list(session.partitions.values()), session, incremental=True)

    @property
    def total_partitions(self) -> int:
        """The partitions of all sessions together. Read only when a session is made or grows."""
        return sum(len(session.partitions) for session in self.sessions.values())

    @staticmethod
    def _update(
        session: FetchSession,
        listed: OrderedDict[Key, CachedPartition],
        forgotten: list[ForgottenTopic],
    ) -> None:
        for key, new in listed.items():
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = new
            else:
                known.current_leader_epoch = new.current_leader_epoch
                known.fetch_offset = new.fetch_offset
                known.last_fetched_epoch = new.last_fetched_epoch
                known.max_bytes = new.max_bytes
        for topic in forgotten:
            name = topic.topic_id if session.by_id else topic.topic
            for partition in topic.partitions:
                session.partitions.pop((name, partition), None)

    def _create(
        self, partitions: OrderedDict[Key, CachedPartition], by_id: bool, now_ms: int
    ) -> FetchSession | None:
        if not self._make_room(len(partitions), now_ms):
            return None
        if self.total_partitions + len(partitions) > self.max_partitions:
            return None
        while (new_id := self.random.getrandbits(31)) == 0 or new_id in self.sessions:
            pass
        session = FetchSession(new_id, by_id, now_ms, partitions)
        self.sessions[new_id] = session
        return session

    def _make_room(self, size: int, now_ms: int) -> bool:
        if len(self.sessions) < self.slots:
            return True
        if not self.sessions:
            return False
        oldest = next(iter(self.sessions.values()))
        unused = now_ms - oldest.last_used_ms > self.eviction_ms
        smaller = now_ms - oldest.created_ms > self.eviction_ms and len(oldest.partitions) < size
        if unused or smaller:
            del self.sessions[oldest.id]
            return True
        return False
