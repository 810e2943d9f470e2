"""A cluster as its user sees it: what is there, and where its logs begin and end.

`Cluster` joins a `NetworkClient` with its `Metadata`. Its calls go to the leaders of the partitions
asked about, all at once, and are repeated for the partitions that answered with a retriable error,
until the time is over:

    asked ──► by leader ──► answers ──┬─► good: done
      ▲                               ├─► anything else: KafkaError
      │                               └─► retriable (leader moved, connection lost …)
      └───────────── refresh, pause ◄─────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from odradek.client.simple.connection import Disconnected
from odradek.client.simple.metadata import KafkaError, Metadata, Retry
from odradek.client.simple.network_client import NetworkClient, Pending
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

R = TypeVar("R")

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NO_OFFSET = -1


class OffsetAndTimestamp(NamedTuple):
    """An answer of ListOffsets; offset -1: no record is that young. `timestamp` -1 where none was
    looked up."""

    offset: int
    timestamp: int


class Cluster:
    """For one thread. Raises `KafkaError`, `RetriesExhausted`, `UnsupportedVersion`,
    `ProtocolError`."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "odradek",
        request_timeout_ms: int = 30_000,
        api_timeout_ms: int = 60_000,
    ) -> None:
        self.client = NetworkClient(
            bootstrap_servers, client_id=client_id, request_timeout_ms=request_timeout_ms
        )
        self.api_timeout_ms = api_timeout_ms
        self.metadata = Metadata(self.client, timeout_ms=api_timeout_ms)

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def topic_names(self) -> list[str]:
        """All topics of the cluster, sorted; internal ones too."""
        return sorted(self.metadata.describe(None))

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """The partitions of these topics as they are now, sorted. `KafkaError` if there is no such
        topic."""
        if not topics:
            return []
        self.metadata.refresh(topics)
        return sorted(
            TopicPartition(name, number)
            for name in topics
            for number in self.metadata.topics[name].leaders
        )

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offsets."""
        return self._offsets(partitions, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)

    def latest_offsets(
        self, partitions: Iterable[TopicPartition], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The high watermarks, or the last stable offsets if `read_committed`."""
        isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        return self._offsets(partitions, LATEST_TIMESTAMP, isolation)

    def _offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, isolation: int
    ) -> dict[TopicPartition, int]:
        found = self.list_offsets(dict.fromkeys(partitions, timestamp), isolation=isolation)
        return {partition: answer.offset for partition, answer in found.items()}

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """For each partition the first offset whose record is at least as young as its timestamp
        (ms)."""
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        retry = Retry(self.api_timeout_ms)
        while missing := {p: t for p, t in timestamps.items() if p not in found}:
            error = self._list_offsets_once(missing, isolation, found)
            if error is not None:
                retry.pause(error)
        return found

    def _list_offsets_once(
        self,
        missing: Mapping[TopicPartition, int],
        isolation: int,
        found: dict[TopicPartition, OffsetAndTimestamp],
    ) -> Exception | None:
        """One round over all leaders; fills `found`. What went wrong, if it may be tried again."""

        def request_of(partitions: list[TopicPartition]) -> ListOffsetsRequest:
            topics = [
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=p.partition, timestamp=missing[p])
                        for p in group
                    ],
                )
                for name, group in by_topic(partitions).items()
            ]
            return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)

        error: Exception | None = None
        for answer in self.ask_leaders(missing, request_of, ListOffsetsResponse):
            if isinstance(answer, Disconnected):
                error = answer
                continue
            for topic in answer.topics:
                for one in topic.partitions:
                    partition = TopicPartition(topic.name, one.partition_index)
                    failed = self.failure(ErrorCode(one.error_code), partition)
                    if failed is None:
                        found[partition] = OffsetAndTimestamp(one.offset, one.timestamp)
                    error = failed or error
        return error

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        request_of: Callable[[list[TopicPartition]], Any],
        response_type: type[R],
    ) -> list[R | Disconnected]:
        """One request to each leader, all under way at once; the answers, or how asking failed."""
        leaders: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            leaders.setdefault(self.metadata.leader(partition), []).append(partition)
        answers: list[R | Disconnected] = []
        sent: list[tuple[Pending[R], list[TopicPartition]]] = []
        for node_id, group in leaders.items():
            try:
                sent.append((self.client.send(node_id, request_of(group), response_type), group))
            except Disconnected as error:
                self.metadata.forget(by_topic(group))
                answers.append(error)
        while sent:
            pending, group = sent.pop(0)
            try:
                answers.append(self.client.receive(pending))
            except Disconnected as error:
                self.metadata.forget(by_topic(group))
                answers.append(error)
            except BaseException:
                for other, _ in sent:
                    self.client.abandon(other)
                raise
        return answers

    def failure(self, code: ErrorCode, partition: TopicPartition) -> KafkaError | None:
        """None if all is well, an error to pause for if it may pass; raises it if it will not."""
        if code == ErrorCode.NONE:
            return None
        error = KafkaError(code, str(partition))
        if code.refresh_metadata:
            self.metadata.forget([partition.topic])
        if not code.retriable:
            raise error
        return error


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions grouped by topic, in their order."""
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition)
    return groups
