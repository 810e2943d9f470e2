"""What is known of a cluster: its nodes, its topics, and who leads each partition. Asked for when
needed, then kept.

    leader(partition) ── known? ──► node
           │ no
           ▼
      refresh(topics) ──► Metadata request to any node ──► nodes, topics and leaders as they are now

A caller that is told "not the leader" (or whose connection broke) calls `forget` and asks again:
see `Retry` for the pauses between. Only topics that were asked for are kept, so a cluster of many
topics costs a client what it uses.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from odradek.client.simple.connection import Disconnected
from odradek.client.simple.network_client import NetworkClient
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_UUID, TopicPartition
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

NO_LEADER = -1


class KafkaError(Exception):
    """The cluster answered with an error that trying again did not cure."""

    def __init__(self, code: ErrorCode, what: str) -> None:
        super().__init__(f"{what}: {code.name} ({code.text})")
        self.code = code


class RetriesExhausted(Exception):
    """The last thing that went wrong when there was no more time to try again; its cause says
    what."""


class Retry:
    """Pauses that double, up to a deadline. One per operation.

    `pause(error)` sleeps and returns, or raises `RetriesExhausted` from `error` when the time is
    over.
    """

    def __init__(
        self, timeout_ms: int, *, backoff_ms: int = 50, backoff_max_ms: int = 1000
    ) -> None:
        self.deadline = time.monotonic() + timeout_ms / 1000
        self.timeout_ms = timeout_ms
        self.backoff_ms = backoff_ms
        self.backoff_max_ms = backoff_max_ms

    def pause(self, error: BaseException) -> None:
        if time.monotonic() + self.backoff_ms / 1000 > self.deadline:
            raise RetriesExhausted(f"gave up after {self.timeout_ms} ms: {error}") from error
        time.sleep(self.backoff_ms / 1000)
        self.backoff_ms = min(self.backoff_ms * 2, self.backoff_max_ms)


@dataclass(slots=True)
class Topic:
    """A topic as last described; `leaders` by partition (`NO_LEADER` while one is elected)."""

    name: str
    topic_id: UUID
    leaders: dict[int, int] = field(default_factory=dict)


class Metadata:
    """The cache. Raises `KafkaError` and `RetriesExhausted`."""

    def __init__(self, client: NetworkClient, *, timeout_ms: int = 30_000) -> None:
        self.client = client
        self.timeout_ms = timeout_ms
        self.topics: dict[str, Topic] = {}

    def topic(self, name: str) -> Topic:
        """The topic by name. `KafkaError` with UNKNOWN_TOPIC_OR_PARTITION if the cluster has
        none."""
        if name not in self.topics:
            self.refresh([name])
        return self.topics[name]

    def leader(self, partition: TopicPartition) -> int:
        """The node that leads a partition; waits for an election to end."""
        retry = Retry(self.timeout_ms)
        while True:
            leaders = self.topic(partition.topic).leaders
            if partition.partition not in leaders:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition))
            node_id = leaders[partition.partition]
            if node_id != NO_LEADER and node_id in self.client.nodes:
                return node_id
            self.forget([partition.topic])
            retry.pause(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(partition)))

    def forget(self, topics: Iterable[str]) -> None:
        """What was known of these may be wrong: ask again at the next use."""
        for name in topics:
            self.topics.pop(name, None)

    def refresh(self, names: Collection[str]) -> dict[str, ErrorCode]:
        """Ask about topics by name, all at once. Raises `KafkaError` for the first that cannot be
        described."""
        answers = self.describe(names)
        for name in sorted(names):
            code = answers.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code != ErrorCode.NONE:
                raise KafkaError(code, f"topic {name}")
        return answers

    def describe(self, names: Collection[str] | None) -> dict[str, ErrorCode]:
        """Ask about topics (None: all); an error code for each, the good ones kept. Never creates a
        topic."""
        retry = Retry(self.timeout_ms)
        wanted = None if names is None else [MetadataRequestTopic(name=n) for n in sorted(names)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        while True:
            error: Exception
            try:
                response = self.client.call(self.client.any_node(), request, MetadataResponse)
                found = self.learn(response)
                waiting = [n for n, code in found.items() if is_forming(code)]
                if not waiting:
                    return found
                error = KafkaError(found[waiting[0]], f"topic {waiting[0]}")
            except Disconnected as failed:
                error = failed
                if all(node.failures for node in self.client.nodes.values()):
                    self.client.reset_to_bootstrap()
            retry.pause(error)

    def learn(self, response: MetadataResponse) -> dict[str, ErrorCode]:
        """Take over what a response says; the code of each topic in it."""
        if response.brokers:
            self.client.update_nodes({b.node_id: (b.host, b.port) for b in response.brokers})
        found: dict[str, ErrorCode] = {}
        for answer in response.topics:
            if answer.name is not None:
                found[answer.name] = ErrorCode(answer.error_code)
                self.keep(answer.name, answer)
        return found

    def keep(self, name: str, answer: MetadataResponseTopic) -> None:
        if answer.error_code != ErrorCode.NONE:
            self.topics.pop(name, None)
            return
        leaders = {p.partition_index: p.leader_id for p in answer.partitions}
        self.topics[name] = Topic(name, answer.topic_id, leaders)

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of a topic known here by its id."""
        for topic in self.topics.values():
            if topic.topic_id == topic_id and topic_id != ZERO_UUID:
                return topic.name
        return None


def is_forming(code: ErrorCode) -> bool:
    """The topic is there but not ready to be described yet."""
    return code == ErrorCode.LEADER_NOT_AVAILABLE
