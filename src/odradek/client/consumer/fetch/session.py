"""Fetch sessions of the consumer (KIP-227): the client's side, one session per broker.

    no session ── full fetch (id 0, epoch 0) ──► session, epoch 1 ── changes ──► epoch 2 ...
        ▲                                             │
        └── the broker does not know the session, or the response does not fit it ──┘

A full fetch names every partition. The broker answers with the id of a session that remembers them,
or with 0 if it makes no session; then every fetch is full. A fetch in a session names the
partitions that are new or have another fetch offset, and the partitions that the broker should
forget. The response contains only partitions that have news.

The epoch counts the requests of a session and wraps around to 1; 0 begins a session and -1 ends it.
When a request fails, the client does not know whether the broker saw it, so the session cannot go
on: the next fetch is full and closes the old session.

Topics are named by id if every topic of the session has an id and the broker supports version 13. A
session cannot mix ids and names, so a change between them begins a new session. A topic that was
deleted and created again has another id, and the session forgets the old one.

Ids are compared by their integer values: `UUID` compares and hashes in interpreted code, and each
fetch does so once per partition.

This module only decides; `Fetcher` sends and receives. It is compiled.
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

NONE: Final = ErrorCode.NONE
NO_SESSION: Final = 0
NEW: Final = 0
FINAL: Final = -1
EPOCH_MAX: Final = 2**31 - 1
FIRST_VERSION_WITH_FETCHED_EPOCH: Final = 12
LAST_VERSION_BY_NAME: Final = 12


class PartitionFetch(NamedTuple):
    """One partition in a fetch request. A session sends it again only when it changed."""

    topic_id: UUID
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class FetchSession:
    """The fetch session with `node_id`, if there is one."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.session_id = NO_SESSION
        self.epoch = NEW
        self.partitions: dict[TopicPartition, PartitionFetch] = {}
        """The fields of each partition that the broker received last."""
        self._names: dict[int, str] = {}
        self._by_id = False

    @property
    def is_full(self) -> bool:
        """True if the next fetch names every partition."""
        return self.epoch == NEW

    def next_request(
        self, to_fetch: Mapping[TopicPartition, PartitionFetch], version: int
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return the topics to name in the next fetch of this version, and the topics to forget, so
        that the broker fetches exactly `to_fetch`.
        """
        by_id = version > LAST_VERSION_BY_NAME
        if version < FIRST_VERSION_WITH_FETCHED_EPOCH:
            to_fetch = {p: w._replace(last_fetched_epoch=-1) for p, w in to_fetch.items()}
        if by_id != self._by_id:
            self.reset()
        self._by_id = by_id
        known = {} if self.is_full else self.partitions
        named = {p: w for p, w in to_fetch.items() if known.get(p) != w}
        forgotten = {
            p: w
            for p, w in known.items()
            if p not in to_fetch or to_fetch[p].topic_id.int != w.topic_id.int
        }
        self.partitions = dict(to_fetch)
        self._names = {w.topic_id.int: p.topic for p, w in to_fetch.items()}
        return self._fetch_topics(named), self._forgotten_topics(forgotten)

    def _fetch_topics(self, named: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
        topics: dict[tuple[str, int], FetchTopic] = {}
        for partition, fetch in named.items():
            key = (partition.topic, fetch.topic_id.int)
            topic = topics.get(key)
            if topic is None:
                name, topic_id = self._topic_key(partition.topic, fetch.topic_id)
                topic = topics[key] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=fetch.current_leader_epoch,
                    fetch_offset=fetch.fetch_offset,
                    last_fetched_epoch=fetch.last_fetched_epoch,
                    partition_max_bytes=fetch.max_bytes,
                )
            )
        return list(topics.values())

    def _forgotten_topics(
        self, forgotten: Mapping[TopicPartition, PartitionFetch]
    ) -> list[ForgottenTopic]:
        topics: dict[tuple[str, int], ForgottenTopic] = {}
        for partition, fetch in forgotten.items():
            key = (partition.topic, fetch.topic_id.int)
            topic = topics.get(key)
            if topic is None:
                name, topic_id = self._topic_key(partition.topic, fetch.topic_id)
                topic = topics[key] = ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(partition.partition)
        return list(topics.values())

    def _topic_key(self, topic: str, topic_id: UUID) -> tuple[str, UUID]:
        """Return the name and the id with which this session names a topic."""
        return ("", topic_id) if self._by_id else (topic, ZERO_UUID)

    def name_of(self, topic: str, topic_id: UUID) -> str | None:
        """Return the name of a topic in a response; None if the session did not ask for it."""
        return self._names.get(topic_id.int) if self._by_id else topic or None

    def handle_response(
        self, response: FetchResponse, named: Iterable[TopicPartition]
    ) -> str | None:
        """Take a response about the partitions `named`. Return None if its partitions can be used;
        else return the problem, and the next fetch is full.
        """
        code = response.error_code
        if code != NONE:
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
            return f"the response has partitions that were not requested, such as {min(extra)}"
        if self.is_full and omitted:
            return f"the response lacks requested partitions, such as {min(omitted)}"
        if not self.is_full and session_id not in (self.session_id, NO_SESSION):
            return f"the response is of session {session_id}, not {self.session_id}"
        return None

    def failed(self) -> None:
        """The request failed; the broker may have seen it."""
        self.reset()

    def reset(self) -> None:
        """Make the next fetch a full one, which closes the present session."""
        self.epoch = NEW

    def _begin(self, session_id: int) -> None:
        self.session_id, self.epoch = session_id, NEW

    def closing_request(self) -> FetchRequest | None:
        """Return the request that ends the session on the broker; None if there is no session."""
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
    """Return the session epoch after `epoch`."""
    return 1 if epoch >= EPOCH_MAX else epoch + 1
