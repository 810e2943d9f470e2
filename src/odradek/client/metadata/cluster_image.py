"""What a client knows of a cluster at one moment: nodes, topics, and who leads each partition.

An image never changes; a new one takes its place. So any thread may look at one, and two looks at
the same image agree. What it says may be out of date: the broker that is asked says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.model.errors import ErrorCode, error_code
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_LEADER = -1
NO_EPOCH = -1


class Node(NamedTuple):
    """A broker by id, and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """One partition. `leader` is `NO_LEADER` while there is none, `leader_epoch` `NO_EPOCH` where
    the broker does not tell it reliably."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class TopicInfo:
    """One topic. With an `error` it has no partitions."""

    __slots__ = ("count", "error", "internal", "name", "partitions", "topic_id")

    def __init__(
        self,
        name: str,
        topic_id: UUID,
        error: ErrorCode,
        internal: bool,
        partitions: dict[int, PartitionInfo],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        """`ZERO_UUID` where the broker has no ids."""
        self.error = error
        self.internal = internal
        self.partitions = partitions
        """By number, in order."""
        self.count = len(partitions)

    @property
    def will_change(self) -> bool:
        """Whether the broker itself said that it will soon look different."""
        if self.error.refresh_metadata:
            return True
        return any(info.error.refresh_metadata for info in self.partitions.values())

    def with_partition(self, info: PartitionInfo) -> TopicInfo:
        """The same topic with one partition replaced."""
        partitions = {**self.partitions, info.partition: info}
        return TopicInfo(self.name, self.topic_id, self.error, self.internal, partitions)


class ClusterImage:
    """All that is known. `version` grows by one with every answer of the cluster."""

    __slots__ = ("cluster_id", "controller_id", "nodes", "topic_names", "topics", "version")

    def __init__(
        self,
        version: int,
        cluster_id: str | None,
        controller_id: int,
        nodes: Mapping[int, Node],
        topics: Mapping[str, TopicInfo],
    ) -> None:
        self.version = version
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.nodes = nodes
        self.topics = topics
        """By name: those of interest, also those the broker answered with an error for."""
        self.topic_names: dict[UUID, str] = {
            topic.topic_id: topic.name for topic in topics.values() if topic.topic_id != ZERO_UUID
        }

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """What is known of a partition; None if nothing is."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads it; `NO_LEADER` if none does, or it is not known, or not where that
        node is.
        """
        info = self.partition(topic, partition)
        return NO_LEADER if info is None or info.leader not in self.nodes else info.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The epoch of its leader; `NO_EPOCH` if that is not known."""
        info = self.partition(topic, partition)
        return NO_EPOCH if info is None else info.leader_epoch

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; 0 if that is not known."""
        found = self.topics.get(topic)
        return 0 if found is None else found.count

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of these topics that are known, in order."""
        return [
            TopicPartition(name, number)
            for name in topics
            if name in self.topics
            for number in self.topics[name].partitions
        ]

    def with_changes(
        self, nodes: Mapping[int, Node], topics: Mapping[str, TopicInfo]
    ) -> ClusterImage:
        """The same answer of the cluster, corrected by what was learnt elsewhere."""
        return ClusterImage(self.version, self.cluster_id, self.controller_id, nodes, topics)


EMPTY = ClusterImage(0, None, -1, {}, {})


def nodes_of(response: MetadataResponse) -> dict[int, Node]:
    """The brokers of a response."""
    return {
        broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }


def topic_info_of(topic: MetadataResponseTopic, epochs: bool) -> TopicInfo:
    """One topic of a response; `epochs`: whether its leader epochs can be relied on."""
    code = error_code(topic.error_code)
    partitions = {} if code else {p.partition_index: p for p in topic.partitions}
    return TopicInfo(
        topic.name or "",
        topic.topic_id,
        code,
        topic.is_internal,
        {number: partition_info_of(partitions[number], epochs) for number in sorted(partitions)},
    )


def partition_info_of(partition: MetadataResponsePartition, epochs: bool) -> PartitionInfo:
    """One partition of a response."""
    return PartitionInfo(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch if epochs else NO_EPOCH,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        error_code(partition.error_code),
    )


def same_leaders(before: ClusterImage, after: ClusterImage) -> bool:
    """Whether an answer told nothing new about who leads what."""
    if before.topics.keys() != after.topics.keys() or before.nodes != after.nodes:
        return False
    return all(
        before.topics[name].error == topic.error
        and before.topics[name].partitions == topic.partitions
        for name, topic in after.topics.items()
    )
