"""Sticky assignment if all members want the same topics: optimal balance and stickiness.

With P partitions and M members, P mod M members get ceil(P / M) partitions and the others floor(P /
M). One pass over the members lets each keep what it owns, up to its quota; one pass over the
remaining partitions gives them to the members below their quota.

    1. keep      below the lower quota: everything, and the member waits for more;
                 at the higher quota, while members may have it: that many;
                 else: the lower quota, and the member waits for one more while members may
                 have the higher quota
    2. deal      sorted partitions round-robin to the members below the lower quota; then one each
                 to those at the lower quota, in the order in which they reached it

Partitions that a member owned beyond its quota are revoked. One that another member then gets
moves, which the cooperative assignor must know (`moving`).

In Kafka: AbstractStickyAssignor's ConstrainedAssignmentBuilder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from operator import itemgetter

from odradek.client.consumer.assignor.hash_order import utf16_order
from odradek.client.consumer.assignor.ownership import Ownership
from odradek.client.consumer.assignor.partition_assignor import partitions_of
from odradek.model.topics import TopicPartition

partition_first = itemgetter(1, 0)
"""Sort key of partitions: number first, then topic, so that each member keeps a slice across many
topics.
"""


class ConstrainedAssignment:
    """Computes one assignment. `shares` is the result, by member."""

    def __init__(self, partitions_per_topic: Mapping[str, int], ownership: Ownership) -> None:
        self.partitions_per_topic = partitions_per_topic
        self.owned = ownership.owned
        self.doubly_claimed = ownership.doubly_claimed
        self.shares: dict[str, list[TopicPartition]] = {member: [] for member in ownership.owned}
        self.moving: dict[TopicPartition, str] = {}
        """Partitions that move from one member to another, with the member that gets them."""
        total = sum(partitions_per_topic.values())
        self.min_quota, self.max_quota_members = divmod(total, len(ownership.owned))
        self.max_quota = self.min_quota + (self.max_quota_members > 0)
        self.members_at_max_quota = 0
        self.below_quota: list[str] = []
        self.at_min_quota: deque[str] = deque()
        """Members at the lower quota that may get one more."""
        self.revoked: dict[TopicPartition, str] = {}

    def run(self) -> dict[str, list[TopicPartition]]:
        """Assign all partitions; return the shares."""
        for member in self.owned:
            self.keep(member)
        assigned = {partition for share in self.shares.values() for partition in share}
        self.below_quota.sort(key=utf16_order)
        self.at_min_quota = deque(sorted(self.at_min_quota, key=utf16_order))
        self.deal(
            partition
            for topic in sorted(self.partitions_per_topic)
            for partition in partitions_of(topic, self.partitions_per_topic[topic])
            if partition not in assigned
        )
        return self.shares

    def keep(self, member: str) -> None:
        """Let a member keep what it owns, up to its quota."""
        mine = [each for each in self.owned[member] if each not in self.doubly_claimed]
        mine.sort(key=partition_first)
        count = len(mine)
        may_be_more = self.members_at_max_quota < self.max_quota_members
        if count < self.min_quota:
            kept = count
            self.below_quota.append(member)
        elif count >= self.max_quota and may_be_more:
            kept = self.max_quota
            self.members_at_max_quota += 1
            if self.members_at_max_quota == self.max_quota_members:
                self.at_min_quota.clear()
        else:
            kept = self.min_quota
            if may_be_more:
                self.at_min_quota.append(member)
        self.shares[member] += mine[:kept]
        for partition in mine[kept:]:
            self.revoked[partition] = member

    def deal(self, unassigned: Iterable[TopicPartition]) -> None:
        """Assign the remaining partitions round-robin."""
        below = self.below_quota
        next_index = 0
        for partition in unassigned:
            if below:
                next_index %= len(below)
                member = below[next_index]
                next_index += 1
            else:
                member = self.at_min_quota.popleft()
            if self.give(partition, member) == self.min_quota:
                next_index -= 1
                del below[next_index]
                self.at_min_quota.append(member)
        assert all(len(self.shares[member]) == self.min_quota for member in below), below

    def give(self, partition: TopicPartition, member: str) -> int:
        """Assign a partition; return the number of partitions that the member has."""
        share = self.shares[member]
        share.append(partition)
        previous = self.revoked.get(partition)
        if (previous is not None and previous != member) or partition in self.doubly_claimed:
            self.moving[partition] = member
        return len(share)
