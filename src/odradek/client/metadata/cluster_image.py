"""ClusterImage: the nodes, topics and leaders of a cluster, as known at one moment.

An image never changes; a new one replaces it. So any thread may read an image, and its parts always
agree. It may be out of date; the broker that gets a request will say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.model.errors import ErrorCode, error_code
from odradek.model.node import Node
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_LEADER = -1
NO_EPOCH = -1


class PartitionInfo(NamedTuple):
    """One partition. `leader` is `NO_LEADER` while there is none; `leader_epoch` is `NO_EPOCH` if
    the broker does not return it reliably."""

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
        """`ZERO_UUID` if the broker has no topic ids."""
        self.error = error
        self.internal = internal
        self.partitions = partitions
        """By number, in order."""
        self.count = len(partitions)

    @property
    def will_change(self) -> bool:
        """True if the topic or a partition has an error after which clients update their
        metadata."""
        if self.error.refresh_metadata:
            return True
        return any(info.error.refresh_metadata for info in self.partitions.values())

    def with_partition(self, info: PartitionInfo) -> TopicInfo:
        """Return a copy with one partition replaced."""
        partitions = {**self.partitions, info.partition: info}
        return TopicInfo(self.name, self.topic_id, self.error, self.internal, partitions)


class ClusterImage:
    """A picture of the cluster. `version` grows by one with every response."""

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
        """The topics of interest by name, also those with an error."""
        self.topic_names: dict[UUID, str] = {
            topic.topic_id: topic.name for topic in topics.values() if topic.topic_id != ZERO_UUID
        }

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """Return a partition; None if it is unknown."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def leader(self, topic: str, partition: int) -> int:
        """Return the id of the leader; `NO_LEADER` if there is none, or it or its address is
        unknown."""
        info = self.partition(topic, partition)
        return NO_LEADER if info is None or info.leader not in self.nodes else info.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the epoch of the leader; `NO_EPOCH` if it is unknown."""
        info = self.partition(topic, partition)
        return NO_EPOCH if info is None else info.leader_epoch

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 if it is unknown."""
        found = self.topics.get(topic)
        return 0 if found is None else found.count

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return the known partitions of these topics, in order."""
        return [
            TopicPartition(name, number)
            for name in topics
            if name in self.topics
            for number in self.topics[name].partitions
        ]

    def with_changes(
        self, nodes: Mapping[int, Node], topics: Mapping[str, TopicInfo]
    ) -> ClusterImage:
        """Return a copy of the same version with other nodes and topics."""
        return ClusterImage(self.version, self.cluster_id, self.controller_id, nodes, topics)


EMPTY = ClusterImage(0, None, -1, {}, {})


def nodes_of(response: MetadataResponse) -> dict[int, Node]:
    """Return the nodes of a response by id."""
    return {
        broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }


def topic_info_of(topic: MetadataResponseTopic, epochs: bool) -> TopicInfo:
    """Return one topic of a response. `epochs`: its leader epochs are reliable."""
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
    """Return one partition of a response."""
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
    """True if two images have the same nodes, partitions and leaders."""
    if before.topics.keys() != after.topics.keys() or before.nodes != after.nodes:
        return False
    return all(
        before.topics[name].error == topic.error
        and before.topics[name].partitions == topic.partitions
        for name, topic in after.topics.items()
    )
