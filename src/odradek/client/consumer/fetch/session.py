"""FetchSession: this side of an incremental fetch session with one node (KIP-227).

    no session ── full fetch (id 0, epoch 0) ──► session, epoch 1 ── what changed ──► epoch 2 ...
        ▲                                             │
        └── the node does not know the session, or the answer was not one of it ──┘

A full fetch names every partition. The node answers with the id of a session in which it remembers
them, or 0 if it makes none; then every fetch is full. In a session a fetch names the partitions
that are new or stand elsewhere than the node thinks, and those that it should forget; the node
answers with those that have something to tell.

Epochs count requests and wrap to 1; 0 begins a session and -1 ends it. A request that failed may
have been seen or not, so the session cannot go on: the next fetch is full and closes the old one.

Topics are named by id, as long as every topic of the session has one and the node understands
version 13; a node does not take ids and names in one session, so a change begins a new one. A topic
that was created anew has another id: the session forgets the old one.

Ids are compared by their numbers: `UUID` compares and hashes in interpreted code, and every fetch
would do it for each partition.

Deciding only; `Fetcher` sends and receives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION: Final = 0
NEW: Final = 0
FINAL: Final = -1
EPOCH_MAX: Final = 2**31 - 1
FIRST_VERSION_WITH_FETCHED_EPOCH: Final = 12
LAST_VERSION_BY_NAME: Final = 12


class PartitionFetch(NamedTuple):
    """What a fetch asks of one partition. Two that are equal need not be said twice."""

    topic_id: UUID
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class FetchSession:
    """The session with `node_id`, if there is one."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.session_id = NO_SESSION
        self.epoch = NEW
        self.partitions: dict[TopicPartition, PartitionFetch] = {}
        """What the node was last told about each."""
        self._names: dict[int, str] = {}
        self._by_id = False

    @property
    def is_full(self) -> bool:
        """Whether the next fetch names every partition."""
        return self.epoch == NEW

    def next_request(
        self, wanted: Mapping[TopicPartition, PartitionFetch], version: int
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """What to name in the next fetch, which is of that version, and what to take back, so that
        all of `wanted` and nothing else is fetched.
        """
        by_id = version > LAST_VERSION_BY_NAME
        if version < FIRST_VERSION_WITH_FETCHED_EPOCH:
            wanted = {p: w._replace(last_fetched_epoch=-1) for p, w in wanted.items()}
        if by_id != self._by_id:
            self.reset()
        self._by_id = by_id
        known = {} if self.is_full else self.partitions
        named = {p: w for p, w in wanted.items() if known.get(p) != w}
        gone = {
            p: w
            for p, w in known.items()
            if p not in wanted or wanted[p].topic_id.int != w.topic_id.int
        }
        self.partitions = dict(wanted)
        self._names = {w.topic_id.int: p.topic for p, w in wanted.items()}
        return self._fetch_topics(named), self._forgotten_topics(gone)

    def _fetch_topics(self, named: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
        topics: dict[tuple[str, int], FetchTopic] = {}
        for partition, wanted in named.items():
            key = (partition.topic, wanted.topic_id.int)
            topic = topics.get(key)
            if topic is None:
                name, topic_id = self._topic_key(partition.topic, wanted.topic_id)
                topic = topics[key] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=wanted.current_leader_epoch,
                    fetch_offset=wanted.fetch_offset,
                    last_fetched_epoch=wanted.last_fetched_epoch,
                    partition_max_bytes=wanted.max_bytes,
                )
            )
        return list(topics.values())

    def _forgotten_topics(
        self, gone: Mapping[TopicPartition, PartitionFetch]
    ) -> list[ForgottenTopic]:
        topics: dict[tuple[str, int], ForgottenTopic] = {}
        for partition, wanted in gone.items():
            key = (partition.topic, wanted.topic_id.int)
            topic = topics.get(key)
            if topic is None:
                name, topic_id = self._topic_key(partition.topic, wanted.topic_id)
                topic = topics[key] = ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(partition.partition)
        return list(topics.values())

    def _topic_key(self, topic: str, topic_id: UUID) -> tuple[str, UUID]:
        """A topic as the session names it."""
        return ("", topic_id) if self._by_id else (topic, ZERO_UUID)

    def name_of(self, topic: str, topic_id: UUID) -> str | None:
        """The topic that a response means; None for one that was not asked for."""
        return self._names.get(topic_id.int) if self._by_id else topic or None

    def handle_response(
        self, response: FetchResponse, named: Iterable[TopicPartition]
    ) -> str | None:
        """An answer came, about the partitions `named`. None if its partitions are to be read;
        else why they are not, and the next fetch is a full one.
        """
        code = response.error_code
        if code != ErrorCode.NONE:
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._begin(NO_SESSION)
            else:
                self.reset()
            return error_code(code).name
        problem = self._mismatch(set(named), response.session_id)
        if problem is not None:
            self.reset()
            return problem
        if response.session_id == NO_SESSION:
            self._begin(NO_SESSION)
        elif self.is_full:
            self.session_id, self.epoch = response.session_id, 1
        else:
            self.epoch = next_epoch(self.epoch)
        return None

    def _mismatch(self, named: set[TopicPartition], session_id: int) -> str | None:
        known = self.partitions.keys()
        extra, omitted = named - known, known - named
        if extra:
            return f"the answer has partitions that were not asked for, such as {min(extra)}"
        if self.is_full and omitted:
            return f"the answer lacks partitions that were asked for, such as {min(omitted)}"
        if not self.is_full and session_id not in (self.session_id, NO_SESSION):
            return f"the answer is of session {session_id}, not {self.session_id}"
        return None

    def failed(self) -> None:
        """No answer came; the node may have seen the request."""
        self.reset()

    def reset(self) -> None:
        """The next fetch is full; it closes the session there was."""
        self.epoch = NEW

    def _begin(self, session_id: int) -> None:
        self.session_id, self.epoch = session_id, NEW

    def closing_request(self) -> FetchRequest | None:
        """What ends the session, so that the node may forget it; None if there is none."""
        if self.session_id == NO_SESSION:
            return None
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=self.session_id,
            session_epoch=FINAL,
            topics=[],
        )


def next_epoch(epoch: int) -> int:
    """The epoch after one of a session."""
    return 1 if epoch >= EPOCH_MAX else epoch + 1
