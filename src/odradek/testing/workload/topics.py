"""The topics of a run: created by one client with retries, and deleted and created again.

An acknowledged creation is a guarantee: from then on the topic exists, with its id. A creation that
was not answered is repeated and may meet its own success (`TOPIC_ALREADY_EXISTS`); the id then
comes from Metadata.

A topic with several *lives* is deleted and created again under the same name, with another id each
time:

    create ──► alive for a while ──► delete, by id ──confirmed──► a pause ──► create ...
                  │ `born(topic)`        │ `ending(label)`
                  └─ producers and readers of this life work; those of the last one stay

A deletion is repeated until it is confirmed. The id makes a late one harmless: it cannot delete the
next life. A late creation can create the next life before it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.testing.checker import RetentionRule
from odradek.testing.history import History, TopicDeletion
from odradek.testing.prng import SplitMix64
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS


class BrokerCaller(Protocol):
    """A client that calls any broker (`workload.cluster_client`, or one connection)."""

    @property
    def process(self) -> SimProcess: ...

    @property
    def chance(self) -> SplitMix64: ...

    @property
    def several(self) -> bool: ...

    def call(
        self,
        request: Any,
        version: int,
        response_type: type[Any] | None,
        answered: Callable[[Any], None],
        failed: Callable[[], None],
    ) -> None: ...


TOPIC_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to create, with settings by Kafka's names."""

    name: str
    partitions: int
    settings: tuple[tuple[str, str], ...] = ()
    retention: RetentionRule | None = None
    """The retention of its settings, if they delete records."""
    trimmed: bool = False
    """True if a trimmer deletes its records."""
    replicas: int = 1
    spans_ms: tuple[int, ...] = ()
    """The lengths of its lives, except the last."""


@dataclass(frozen=True, slots=True)
class TopicLife:
    """One life of a topic; `label` is its name in the history."""

    label: str
    name: str
    id: UUID


def by_topic(partitions: Sequence[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    """Group partitions by topic, as requests list them."""
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return list(topics.items())


@dataclass(slots=True, eq=False)
class TopicCreator:
    """Creates one topic, checks it with Metadata, then calls `ready`."""

    client: BrokerCaller
    history: History
    plan: TopicPlan
    ready: Callable[[UUID], None]
    create_version: int = 7
    metadata_version: int = 12
    ended_ids: Sequence[UUID] = ()
    """The ids of its earlier lives: one of several brokers may not know that they have ended."""
    acknowledged: UUID | None = None
    topic_id: UUID | None = None
    _waits: int = field(default=0)

    def start(self) -> None:
        topic = CreatableTopic(
            name=self.plan.name,
            num_partitions=self.plan.partitions,
            replication_factor=self.plan.replicas,
            assignments=[],
            configs=[CreatableTopicConfig(name=n, value=v) for n, v in self.plan.settings],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1500)
        self.client.call(
            request, self.create_version, CreateTopicsResponse, self._created, self._again
        )

    def _created(self, response: CreateTopicsResponse) -> None:
        result = response.topics[0]
        error = ErrorCode(result.error_code)
        if error == ErrorCode.NONE:
            self.acknowledged = result.topic_id
            self.ask()
        elif error == ErrorCode.TOPIC_ALREADY_EXISTS:
            self.ask()
        else:
            self._retry_after(error, self.start)

    def ask(self) -> None:
        """Ask Metadata for the topic, until it is there."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.plan.name)], allow_auto_topic_creation=False
        )
        self.client.call(
            request, self.metadata_version, MetadataResponse, self._described, self._ask_again
        )

    def _described(self, response: MetadataResponse) -> None:
        topic = response.topics[0]
        error = ErrorCode(topic.error_code)
        if error != ErrorCode.NONE:
            unknown = error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if self.client.several and self.acknowledged is not None:
                self._later(self.ask)  # Not every broker knows of it yet.
                return
            if unknown and self.acknowledged is not None:
                self.history.surprise(
                    "refused", f"topic {self.plan.name} is gone after its creation"
                )
            self._retry_after(error, self.start)
            return
        stale = topic.topic_id in self.ended_ids
        if self.acknowledged not in (None, ZERO_UUID, topic.topic_id) and not stale:
            self.history.surprise(
                "refused",
                f"topic {self.plan.name} was created as {self.acknowledged}, is {topic.topic_id}",
            )
        if stale and self.client.several:
            self._later(self.start if self.acknowledged is None else self.ask)
            return
        if len(topic.partitions) != self.plan.partitions:
            self.history.surprise(
                "refused", f"topic {self.plan.name} has {len(topic.partitions)} partitions"
            )
        self.topic_id = topic.topic_id
        self.ready(topic.topic_id)

    def _retry_after(self, error: ErrorCode, again: Callable[[], None]) -> None:
        known = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR]
        if self.client.several:  # Too few of the brokers are registered and unfenced.
            known.append(ErrorCode.INVALID_REPLICATION_FACTOR)
        if not error.retriable and error not in known:
            self.history.surprise("refused", f"creating topic {self.plan.name}: {error.name}")
        self._later(again)

    def _again(self) -> None:
        self._later(self.start)

    def _ask_again(self) -> None:
        self._later(self.ask)

    def _later(self, again: Callable[[], None]) -> None:
        self._waits += 1
        delay_ms = self.client.chance.between(30, 500)
        self.client.process.post(delay_ms * MS, "retry topic", again)


DELETE_VERSION = 6
PATIENCE = 4
"""How often a client of several brokers asks until it takes a topic for unknown."""


@dataclass(slots=True, eq=False)
class TopicLives:
    """Creates a topic, and deletes it and creates it again as its plan says."""

    client: BrokerCaller
    history: History
    plan: TopicPlan
    born: Callable[[TopicLife], None]
    ending: Callable[[str], None]
    topics: list[TopicLife] = field(default_factory=list)
    _asked: int = 0

    def start(self) -> None:
        ended_ids = [topic.id for topic in self.topics]
        TopicCreator(
            self.client, self.history, self.plan, self._created, ended_ids=ended_ids
        ).start()

    @property
    def finished(self) -> bool:
        """True if the last life has begun."""
        return len(self.topics) > len(self.plan.spans_ms)

    def pending(self) -> str:
        """Return what is unfinished, for a report."""
        ended = [t.label for t in self.topics if t.label in self.history.topic_deletions]
        return f"topic {self.plan.name}: {len(self.topics)} lives, {len(ended)} ended"

    def _created(self, topic_id: UUID) -> None:
        number = len(self.topics) + 1
        if any(topic.id == topic_id for topic in self.topics):
            self.history.surprise("refused", f"topic {self.plan.name} is back after its deletion")
            return
        label = self.plan.name if number == 1 else f"{self.plan.name}#{number}"
        topic = TopicLife(label, self.plan.name, topic_id)
        self.topics.append(topic)
        self.born(topic)
        if not self.finished:
            span_ms = self.plan.spans_ms[number - 1]
            self.client.process.post(span_ms * MS, "delete topic", self._delete)

    def _delete(self) -> None:
        topic = self.topics[-1]
        if topic.label not in self.history.topic_deletions:
            self._asked = 0
            self.history.topic_deletions[topic.label] = TopicDeletion(
                self.client.process.scheduler.now_ns
            )
            self.ending(topic.label)
        self._asked += 1
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic.id)], timeout_ms=1500
        )
        self.client.call(request, DELETE_VERSION, DeleteTopicsResponse, self._deleted, self._again)

    def _deleted(self, response: DeleteTopicsResponse) -> None:
        error = ErrorCode(response.responses[0].error_code)
        if error in TOPIC_UNKNOWN and self.client.several and self._asked <= PATIENCE:
            self._again()  # A controller that is not the active one any more may not know it.
            return
        if error in TOPIC_UNKNOWN and self._asked == 1:
            self.history.surprise("refused", f"deleting {self.topics[-1].label}: {error.name}")
        if error == ErrorCode.NONE or error in TOPIC_UNKNOWN:
            ending = self.history.topic_deletions[self.topics[-1].label]
            ending.confirmed_ns = self.client.process.scheduler.now_ns
            pause_ms = self.client.chance.between(0, 300)
            self.client.process.post(pause_ms * MS, "create topic again", self.start)
            return
        if not error.retriable and error != ErrorCode.KAFKA_STORAGE_ERROR:
            self.history.surprise("refused", f"deleting {self.topics[-1].label}: {error.name}")
        self._again()

    def _again(self) -> None:
        delay_ms = self.client.chance.between(30, 500)
        self.client.process.post(delay_ms * MS, "retry delete", self._delete)
