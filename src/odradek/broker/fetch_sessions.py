"""Incremental fetch sessions (KIP-227): the broker remembers what a consumer reads, so requests
carry only changes.

A request names a session by (id, epoch):

| epoch         | id    | meaning                                                                |
|---------------|-------|------------------------------------------------------------------------|
| -1            | any   | sessionless; a session named by the id is forgotten                    |
| 0             | any   | full request; a session named by the id is replaced by a new one       |
| 1, 2, ...     | known | incremental: lists what to add or change, and what to forget           |

The answer to a full request lists every partition. The answer to an incremental one lists a
partition only if it has records, an error, or a high watermark or log start offset that the client
has not been told. A partition that brought records moves to the end of its session, so that with a
small `max_bytes` none starves.

Sessions live in a cache of bounded size. A new one may take the slot of the one unused for longest,
when that has not been used for `eviction_ms`, or when it is older than that and smaller. Otherwise
the client gets session id 0 and goes on with full requests. So it does when all sessions together
would hold more than `most_partitions`, which Kafka does not bound: partitions need not exist to be
asked for, and a session can grow with every request. One that grows beyond it is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from uuid import UUID

from odradek.model.env import Random
from odradek.model.errors import ErrorCode
from odradek.protocol.hot_fetch import FetchRequest, FetchTopic, ForgottenTopic

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
MOST_PARTITIONS: Final = 1_000_000
"""Of all sessions; some 200 bytes each."""
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

NONE: Final = ErrorCode.NONE
Key = tuple[str | UUID, int]


class Wanted:
    """A partition that a fetch asks for, and what its session's client was last told of it.

    `name` is that of the topic when an id was first found: a session outlives its topics.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "max_bytes",
        "name",
        "partition",
        "told_high_watermark",
        "told_log_start_offset",
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
        self.told_high_watermark = -1
        self.told_log_start_offset = -1


class FetchSession:
    """What one client reads. `epoch` is the one its next request must carry."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "last_used_ms", "wanted")

    def __init__(
        self, new_id: int, by_id: bool, now_ms: int, wanted: OrderedDict[Key, Wanted]
    ) -> None:
        self.id = new_id
        self.by_id = by_id
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1
        self.wanted = wanted


class FetchPlan:
    """What to read for one request, in order. `session` is None for a sessionless request."""

    __slots__ = ("incremental", "session", "wanted")

    def __init__(
        self, wanted: list[Wanted], session: FetchSession | None = None, incremental: bool = False
    ) -> None:
        self.wanted = wanted
        self.session = session
        self.incremental = incremental

    @property
    def session_id(self) -> int:
        return 0 if self.session is None else self.session.id

    def tells(
        self, wanted: Wanted, error: ErrorCode, size: int, high_watermark: int, log_start: int
    ) -> bool:
        """Whether the answer lists this partition; remembers what the client is told."""
        news = (
            size > 0
            or error is not NONE
            or high_watermark != wanted.told_high_watermark
            or log_start != wanted.told_log_start_offset
        )
        if self.session is None:
            return True
        wanted.told_high_watermark = high_watermark if error is NONE else -1
        wanted.told_log_start_offset = log_start
        if size > 0:
            key = (wanted.topic, wanted.partition)
            if key in self.session.wanted:
                self.session.wanted.move_to_end(key)
        return news or not self.incremental


def requested(topics: list[FetchTopic], by_id: bool) -> OrderedDict[Key, Wanted]:
    """The partitions a request lists; of a partition listed twice the last one counts."""
    found: OrderedDict[Key, Wanted] = OrderedDict()
    for topic in topics:
        name = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            found[(name, asked.partition)] = Wanted(
                name,
                asked.partition,
                asked.current_leader_epoch,
                asked.fetch_offset,
                asked.last_fetched_epoch,
                asked.partition_max_bytes,
            )
    return found


class FetchSessionCache:
    """All sessions of this broker, least recently used first."""

    def __init__(
        self,
        slots: int,
        random: Random,
        eviction_ms: int = 120_000,
        most_partitions: int = MOST_PARTITIONS,
    ) -> None:
        self.slots = slots
        self.most_partitions = most_partitions
        self.eviction_ms = eviction_ms
        self.random = random
        self.sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def plan(self, request: FetchRequest, version: int, now_ms: int) -> FetchPlan | ErrorCode:
        """What this request reads, or the error its session is answered with."""
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self.sessions.pop(request.session_id, None)
            wanted = requested(request.topics, by_id)
            if request.session_epoch == FINAL_EPOCH:
                return FetchPlan(list(wanted.values()))
            session = self._create(wanted, by_id, now_ms)
            return FetchPlan(list(wanted.values()), session)
        return self._continue(request, by_id, now_ms)

    def _continue(self, request: FetchRequest, by_id: bool, now_ms: int) -> FetchPlan | ErrorCode:
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
        before = len(session.wanted)
        self._update(session, request.topics, request.forgotten_topics_data)
        if len(session.wanted) > before and self.partitions > self.most_partitions:
            del self.sessions[session.id]
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if not session.wanted:
            del self.sessions[session.id]
            return FetchPlan([])
        return FetchPlan(list(session.wanted.values()), session, incremental=True)

    @property
    def partitions(self) -> int:
        """Of all sessions. Counted when it is asked for, which is when one is made or grows."""
        return sum(len(session.wanted) for session in self.sessions.values())

    @staticmethod
    def _update(
        session: FetchSession, topics: list[FetchTopic], forgotten: list[ForgottenTopic]
    ) -> None:
        for key, wanted in requested(topics, session.by_id).items():
            known = session.wanted.get(key)
            if known is None:
                session.wanted[key] = wanted
            else:
                known.current_leader_epoch = wanted.current_leader_epoch
                known.fetch_offset = wanted.fetch_offset
                known.last_fetched_epoch = wanted.last_fetched_epoch
                known.max_bytes = wanted.max_bytes
        for topic in forgotten:
            name = topic.topic_id if session.by_id else topic.topic
            for partition in topic.partitions:
                session.wanted.pop((name, partition), None)

    def _create(
        self, wanted: OrderedDict[Key, Wanted], by_id: bool, now_ms: int
    ) -> FetchSession | None:
        if not self._make_room(len(wanted), now_ms):
            return None
        if self.partitions + len(wanted) > self.most_partitions:
            return None
        while (new_id := self.random.getrandbits(31)) == 0 or new_id in self.sessions:
            pass
        session = FetchSession(new_id, by_id, now_ms, wanted)
        self.sessions[new_id] = session
        return session

    def _make_room(self, size: int, now_ms: int) -> bool:
        if len(self.sessions) < self.slots:
            return True
        if not self.sessions:
            return False
        oldest = next(iter(self.sessions.values()))
        unused = now_ms - oldest.last_used_ms > self.eviction_ms
        smaller = now_ms - oldest.created_ms > self.eviction_ms and len(oldest.wanted) < size
        if unused or smaller:
            del self.sessions[oldest.id]
            return True
        return False
