"""Scrape: what the rows of the table read, each of it once and a little at a time.

A scrape of a large broker takes many turns of the loop, and partitions, groups and topics come and
go meanwhile. So it walks lists that it copied, and sums that several rows need are made once:
`count_topics`, `count_cluster` and `count_groups` yield pauses while they work, and nothing when
called again.

Topics beyond the first `TOPICS_SHOWN`, and groups beyond `GROUPS_SHOWN`, have no series of their
own on the broker's page; sums over all of them include them, and `odradek_topics_without_series`
and `odradek_groups_without_series` say how many they are. The oldest are shown, so that a series
does not come and go. What is kept for a scrape is a list of the partitions and these sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import compress, islice
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import PAUSE, PartitionKey, PartitionKeys, Sample
from odradek.controller.image import NO_LEADER, PartitionRegistration, TopicImage
from odradek.replication.partition import Partition, PartitionTotals

if TYPE_CHECKING:
    from odradek.broker.node import Node
    from odradek.coordinator.group.classic_group import ClassicGroup, GroupState
    from odradek.coordinator.group.group_shard import GroupShard
    from odradek.network.process_usage import ProcessUsage

TOPICS_SHOWN: Final = 1_000
GROUPS_SHOWN: Final = 1_000
BLOCK: Final = 200
"""Partitions or groups that are read in one step: some 0.1 ms, interpreted too."""
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

Committed = tuple[PartitionKey, int, int | None]
"""A partition, the offset that a group has committed, and the end if that is known."""


NamedRegistrations = tuple[PartitionKeys, list[PartitionRegistration]]
"""Some partitions, and the registration of each."""


class TopicTotals:
    """The sums over the partitions of a topic, or of all topics."""

    __slots__ = ("counts", "leading", "offline", "partitions", "segments", "size_bytes")

    def __init__(self) -> None:
        self.counts = PartitionTotals()
        self.partitions = 0
        self.offline = 0
        """Partitions whose log cannot be used."""
        self.leading = 0
        """Partitions that this broker leads and serves."""
        self.size_bytes = 0
        self.segments = 0

    def add(self, partition: Partition) -> None:
        """Add a partition."""
        self.counts.add(partition)
        self.partitions += 1
        self.leading += not partition.availability()
        if partition.failure:
            self.offline += 1
        else:
            self.size_bytes += partition.log.segments.size
            self.segments += len(partition.log.segments)

    def add_totals(self, other: TopicTotals) -> None:
        """Add other sums."""
        self.counts.add_totals(other.counts)
        self.partitions += other.partitions
        self.offline += other.offline
        self.leading += other.leading
        self.size_bytes += other.size_bytes
        self.segments += other.segments


class PartitionBlock:
    """Some partitions of this broker, which are read in one step."""

    __slots__ = ("_keys", "partitions")

    def __init__(self, partitions: list[Partition]) -> None:
        self.partitions = partitions
        self._keys: PartitionKeys | None = None

    @property
    def keys(self) -> PartitionKeys:
        """Their keys: the same object each time."""
        if self._keys is None:
            self._keys = PartitionKeys(partition.topic_partition for partition in self.partitions)
        return self._keys

    def keys_of(self, some: list[Partition]) -> PartitionKeys:
        """The keys of all of them, as mostly, or of some."""
        if len(some) == len(self.partitions):
            return self.keys
        return PartitionKeys(partition.topic_partition for partition in some)


class ClusterTotals:
    """Numbers of partitions by their state in the committed metadata; those by their in-sync
    replicas of the partitions that this broker leads.
    """

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


class GroupTotals:
    """The numbers of groups and of their members."""

    __slots__ = ("by_state", "groups", "members")

    def __init__(self) -> None:
        self.groups = self.members = 0
        self.by_state: Counter[GroupState] = Counter()


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
        self.all_groups = GroupTotals()
        """Numbers of all groups, after `count_groups`."""
        self.groups_counted = False
        self._blocks: list[PartitionBlock] = []
        self._told_registrations: list[NamedRegistrations] | None = None
        self._min_isr = ("", 0)
        self._usage: ProcessUsage | None = None

    def process_usage(self) -> ProcessUsage | None:
        """The resources that the process uses, read once; None in a simulation."""
        if self._usage is None and self.node.usage is not None:
            self._usage = self.node.usage()
        return self._usage

    # -- topics ------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[PartitionBlock]:
        """Yield the partitions of this broker, `BLOCK` at a time: the same blocks each time."""
        for number, begin in enumerate(range(0, len(self.partitions), BLOCK)):
            if number == len(self._blocks):
                self._blocks.append(PartitionBlock(self.partitions[begin : begin + BLOCK]))
            yield self._blocks[number]

    def count_topics(self) -> Iterator[Sample]:
        """Sum the partitions of this broker by topic."""
        if self.topics_counted:
            return
        self.topics_counted = True
        for block in self.blocks():
            for partition in block.partitions:
                self._totals_of(partition.topic_partition.topic).add(partition)
            yield PAUSE
        for number, totals in enumerate(self.topics.values(), 1):
            self.all_topics.add_totals(totals)
            if number % BLOCK == 0:
                yield PAUSE

    def _totals_of(self, topic: str) -> TopicTotals:
        """The sums of a topic, or if it is not shown those of all topics."""
        totals = self.topics.get(topic)
        if totals is not None:
            return totals
        if len(self.topics) < TOPICS_SHOWN:
            totals = self.topics[topic] = TopicTotals()
            return totals
        self.topics_not_shown.add(topic)
        return self.all_topics

    # -- the cluster -------------------------------------------------------------------------------

    def registrations(self) -> Iterator[tuple[list[PartitionKey], list[PartitionRegistration]]]:
        """Yield the partitions of the cluster and their registrations, about `BLOCK` at a time."""
        keys: list[PartitionKey] = []
        found: list[PartitionRegistration] = []
        for topic in list(self.node.broker.image.topics.values()):
            name, partitions = topic.name, topic.partitions
            numbers = list(partitions)
            for begin in range(0, len(numbers), BLOCK):
                part = numbers[begin : begin + BLOCK]
                keys += [(name, number) for number in part]
                found += [partitions[number] for number in part]
                if len(keys) >= BLOCK:
                    yield keys, found
                    keys, found = [], []
        yield keys, found

    def told_registrations(self) -> Iterator[NamedRegistrations]:
        """Yield the same of the partitions that this broker tells, as the first call found them."""
        if self._told_registrations is not None:
            yield from self._told_registrations
            return
        found: list[NamedRegistrations] = []
        tells = self.teller()
        for keys, registrations in self.registrations():
            told = [tells(each) for each in registrations]
            found.append((PartitionKeys(compress(keys, told)), list(compress(registrations, told))))
            yield found[-1]
        self._told_registrations = found

    def teller(self) -> Callable[[PartitionRegistration], bool]:
        """Find the partitions of the cluster of which this broker has samples: those that it leads,
        and on the active controller those without a leader. So each partition is on one page.
        """
        metadata = self.node.metadata
        own_id = self.node.config.node_id
        if metadata.controller.is_active and metadata.failure is None:
            return lambda registration: registration.leader in (own_id, NO_LEADER)
        return lambda registration: registration.leader == own_id

    def shown_topics(self) -> Iterator[TopicImage]:
        """Yield the topics of the cluster that have series of their own on the broker's page."""
        yield from list(islice(self.node.broker.image.topics.values(), TOPICS_SHOWN))

    def count_cluster(self) -> Iterator[Sample]:
        """Count the partitions of the cluster by what ails them."""
        if self.cluster_counted:
            return
        self.cluster_counted = True
        totals, node_id = self.cluster, self.node.config.node_id
        for keys, registrations in self.registrations():
            totals.partitions += len(keys)
            for key, registration in zip(keys, registrations):
                in_sync, replicas = len(registration.isr), len(registration.replicas)
                least = min(self.min_isr(key[0]), replicas)
                totals.offline += not self.has_leader(key, registration)
                totals.not_preferred += registration.leader != registration.replicas[0]
                if registration.leader == node_id:
                    totals.under_replicated += in_sync < replicas
                    totals.under_min_isr += in_sync < least
                    totals.at_min_isr += in_sync == least
            yield PAUSE

    def has_leader(self, key: PartitionKey, registration: PartitionRegistration) -> bool:
        """True if a partition has a leader that can serve it, as far as this broker knows."""
        if registration.leader != self.node.config.node_id:
            return registration.leader >= 0
        partition = self.node.replicas.by_name.get(key)
        return partition is not None and not partition.availability()

    def min_isr(self, topic: str) -> int:
        """The in-sync replicas that `acks=-1` wants, at most all replicas of a partition."""
        if self._min_isr[0] != topic:
            override = self.node.broker.image.topic_config(topic).get(MIN_INSYNC_REPLICAS)
            least = self.node.config.min_insync_replicas if override is None else int(override)
            self._min_isr = (topic, least)
        return self._min_isr[1]

    # -- groups ------------------------------------------------------------------------------------

    def shards(self) -> list[GroupShard]:
        """The state of the shards of groups that are active here."""
        return list(self.node.groups.runtime.state_machines())

    def count_groups(self) -> Iterator[Sample]:
        """Count the groups of all active shards, and their members."""
        if self.groups_counted:
            return
        self.groups_counted = True
        totals = self.all_groups
        for shard in self.shards():
            groups = list(shard.groups)
            totals.groups += len(groups)
            for begin in range(0, len(groups), BLOCK):
                for group in groups[begin : begin + BLOCK]:
                    totals.by_state[group.state] += 1
                    totals.members += len(group.members)
                yield PAUSE

    def shown_groups(self) -> Iterator[tuple[GroupShard, ClassicGroup]]:
        """Yield the groups that have series of their own on the broker's page."""
        found = ((shard, group) for shard in self.shards() for group in list(shard.groups))
        yield from islice(found, GROUPS_SHOWN)

    def committed_offsets(self, shard: GroupShard, group_id: str) -> Iterator[list[Committed]]:
        """Yield a group's committed offsets of partitions that exist, each with the end for
        consumers, None where it is not known: about `BLOCK` at a time.
        """
        found: list[Committed] = []
        walked = 0
        for topic, partitions in list(shard.offsets.of_group(group_id).items()):
            registered = self.node.broker.image.topic(topic)
            if registered is None:
                continue
            numbers = list(partitions)
            for begin in range(0, len(numbers), BLOCK):
                for number in numbers[begin : begin + BLOCK]:
                    value, registration = partitions.get(number), registered.partitions.get(number)
                    if value is not None and registration is not None:
                        key = (topic, number)
                        found.append((key, value.offset, self.end_of(key, registration)))
                walked += min(BLOCK, len(numbers) - begin)
                if walked >= BLOCK:
                    yield found
                    found, walked = [], 0
        yield found

    def end_of(self, key: PartitionKey, registration: PartitionRegistration) -> int | None:
        """Return the end of a partition for consumers by its leader; None if that is not known.

        A follower's own end may be behind, so another leader is asked: see `leader_ends`.
        """
        if registration.leader == self.node.config.node_id:
            partition = self.node.replicas.by_name.get(key)
            if partition is None or partition.availability() or partition.is_cut_off:
                return None
            return partition.high_watermark if partition.is_in_epoch else None
        ends = self.node.broker.leader_ends
        return None if ends is None or registration.leader < 0 else ends.end_of(key)
