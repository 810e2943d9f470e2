"""Scrape: what the rows of the table read, each of it once and a little at a time.

A scrape of a large broker takes many turns of the loop, and partitions, groups and topics come and
go meanwhile. So it walks lists that it copied, and sums that several rows need are made once:
`count_topics` and `count_cluster` yield pauses while they work, and nothing when called again.

Topics beyond the first `TOPICS_SHOWN`, and groups beyond `GROUPS_SHOWN`, have no series of their
own on the broker's page; sums over all of them include them. The oldest are shown, so that a series
does not come and go. What is kept for a scrape is a list of the partitions and these sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import PAUSE, Sample
from odradek.controller.image import PartitionRegistration, TopicImage
from odradek.replication.partition import Partition, PartitionTotals

if TYPE_CHECKING:
    from odradek.broker.node import Node
    from odradek.coordinator.group.classic_group import ClassicGroup
    from odradek.coordinator.group.group_shard import GroupShard
    from odradek.network.process_usage import ProcessUsage

TOPICS_SHOWN: Final = 1_000
GROUPS_SHOWN: Final = 1_000
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class TopicTotals:
    """The sums over the partitions of a topic, or of all topics."""

    __slots__ = ("counts", "partitions", "segments", "size_bytes")

    def __init__(self) -> None:
        self.counts = PartitionTotals()
        self.partitions = 0
        self.size_bytes = 0
        self.segments = 0

    def add(self, partition: Partition) -> None:
        self.counts.add(partition)
        self.partitions += 1
        if not partition.failure:
            self.size_bytes += partition.log.segments.size
            self.segments += len(partition.log.segments)


class ClusterTotals:
    """What the committed metadata says of partitions, as numbers of them."""

    __slots__ = (
        "at_min_isr",
        "not_preferred",
        "offline",
        "partitions",
        "under_min_isr",
        "under_replicated",
    )

    def __init__(self) -> None:
        self.partitions = self.offline = self.not_preferred = 0
        self.under_replicated = self.under_min_isr = self.at_min_isr = 0


class Scrape:
    """One scrape of a node's metrics."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.partitions: list[Partition] = list(node.replicas)
        self.topics: dict[str, TopicTotals] = {}
        """The topics that are shown, after `count_topics`."""
        self.topics_not_shown: set[str] = set()
        self.all_topics = TopicTotals()
        # Of the same instant as the list: a partition that goes meanwhile must not count twice.
        self.all_topics.counts.add_totals(node.replicas.removed)
        self.topics_counted = False
        self.cluster = ClusterTotals()
        self.cluster_counted = False
        self._min_isr = ("", 0)
        self._usage: ProcessUsage | None = None

    def process_usage(self) -> ProcessUsage | None:
        """What the process uses, read once; None in a simulation."""
        if self._usage is None and self.node.usage is not None:
            self._usage = self.node.usage()
        return self._usage

    # -- topics ------------------------------------------------------------------------------------

    def count_topics(self) -> Iterator[Sample]:
        """Sum the partitions of this broker by topic."""
        if self.topics_counted:
            return
        self.topics_counted = True
        for partition in self.partitions:
            self.all_topics.add(partition)
            topic = partition.topic_partition.topic
            totals = self.topics.get(topic)
            if totals is None and len(self.topics) < TOPICS_SHOWN:
                totals = self.topics[topic] = TopicTotals()
            if totals is None:
                self.topics_not_shown.add(topic)
            else:
                totals.add(partition)
            yield PAUSE

    # -- the cluster -------------------------------------------------------------------------------

    def registrations(self) -> Iterator[tuple[str, int, PartitionRegistration]]:
        """Yield the partitions of the cluster: topic, number and registration."""
        for topic in list(self.node.broker.image.topics.values()):
            for number, registration in list(topic.partitions.items()):
                yield topic.name, number, registration

    def shown_topics(self) -> Iterator[TopicImage]:
        """Yield the topics of the cluster that have series of their own on the broker's page."""
        yield from list(islice(self.node.broker.image.topics.values(), TOPICS_SHOWN))

    def count_cluster(self) -> Iterator[Sample]:
        """Count the partitions of the cluster by what ails them."""
        if self.cluster_counted:
            return
        self.cluster_counted = True
        totals = self.cluster
        for topic, number, registration in self.registrations():
            in_sync, least = len(registration.isr), self.min_isr(topic, registration)
            totals.partitions += 1
            totals.offline += not self.has_leader(topic, number, registration)
            totals.not_preferred += registration.leader != registration.replicas[0]
            totals.under_replicated += in_sync < len(registration.replicas)
            totals.under_min_isr += in_sync < least
            totals.at_min_isr += in_sync == least
            yield PAUSE

    def has_leader(self, topic: str, number: int, registration: PartitionRegistration) -> bool:
        """True if a partition has a leader that can serve it, as far as this broker knows."""
        if registration.leader != self.node.config.node_id:
            return registration.leader >= 0
        partition = self.node.replicas.by_name.get((topic, number))
        return partition is not None and not partition.failure

    def min_isr(self, topic: str, registration: PartitionRegistration) -> int:
        """The in-sync replicas that `acks=-1` wants: min.insync.replicas, or all if these are
        fewer.
        """
        if self._min_isr[0] != topic:
            override = self.node.broker.image.topic_config(topic).get(MIN_INSYNC_REPLICAS)
            least = self.node.config.min_insync_replicas if override is None else int(override)
            self._min_isr = (topic, least)
        return min(self._min_isr[1], len(registration.replicas))

    # -- groups ------------------------------------------------------------------------------------

    def shards(self) -> list[GroupShard]:
        """The state of the shards of groups that are active here."""
        return list(self.node.groups.runtime.state_machines())

    def groups(self) -> Iterator[ClassicGroup]:
        """Yield the groups of all active shards."""
        for shard in self.shards():
            yield from list(shard.groups)

    def shown_groups(self) -> Iterator[tuple[GroupShard, ClassicGroup]]:
        """Yield the groups that have series of their own on the broker's page."""
        found = ((shard, group) for shard in self.shards() for group in list(shard.groups))
        yield from islice(found, GROUPS_SHOWN)

    def committed_offsets(
        self, shard: GroupShard, group_id: str
    ) -> Iterator[tuple[str, int, int, Partition | None]]:
        """Yield (topic, partition, committed offset, the partition if it is here) of a group."""
        by_name = self.node.replicas.by_name
        for topic, partitions in list(shard.offsets.of_group(group_id).items()):
            for number, value in list(partitions.items()):
                partition = by_name.get((topic, number))
                online = partition is not None and not partition.failure
                yield topic, number, value.offset, partition if online else None
