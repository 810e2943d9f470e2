"""The range assignor and the round-robin assignor.

Range: of every topic, each member gets one range of partitions. Topics t0 and t1 of 3 partitions
each, members C0 and C1:

    C0   t0-0 t0-1   t1-0 t1-1
    C1   t0-2        t1-2

Members are sorted (static ones by instance id first). Each takes partitions / members; the first
ones take one more until the remainder is used up. Topics with the same number of partitions and the
same subscribers are co-partitioned: equal partition numbers go to the same member.

Round-robin: all partitions of all topics are dealt to the members one by one.

    C0   t0-0 t0-2 t1-1
    C1   t0-1 t1-0 t1-2

A member that does not want a topic is skipped for the topic's partitions, so with different
subscriptions the counts may differ by more than one.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.consumer.assignor.hash_order import hash_ordered
from odradek.client.consumer.assignor.partition_assignor import (
    PartitionAssignor,
    member_order,
    partitions_of,
    subscribed_topics,
)
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import Assignment, Subscription


class RangeAssignor(PartitionAssignor):
    """Ranges per topic; the default."""

    name = "range"

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        members = sorted(subscriptions, key=lambda each: member_order(each, subscriptions[each]))
        wants = {member: frozenset(subscriptions[member].topics) for member in members}
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for topic in topic_order(partitions_per_topic, subscriptions):
            subscribers = [member for member in members if topic in wants[member]]
            each, rest = divmod(partitions_per_topic[topic], len(subscribers))
            partitions = partitions_of(topic, partitions_per_topic[topic])
            start = 0
            for place, member in enumerate(subscribers):
                end = start + each + (place < rest)
                shares[member] += partitions[start:end]
                start = end
        return {member: Assignment(share) for member, share in shares.items()}


def topic_order(
    partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
) -> list[str]:
    """Return the topics that exist, in Java's order of iteration.

    Java fills a hash table with the wanted topics, in its order of members, and from that one a
    hash table with the topics that exist.
    """
    in_order = (subscriptions[member] for member in hash_ordered(subscriptions))
    wanted = hash_ordered(subscribed_topics(in_order))
    return hash_ordered(topic for topic in wanted if topic in partitions_per_topic)


class RoundRobinAssignor(PartitionAssignor):
    """Partitions dealt one by one."""

    name = "roundrobin"

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        members = sorted(subscriptions, key=lambda each: member_order(each, subscriptions[each]))
        wants = [frozenset(subscriptions[member].topics) for member in members]
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        next_member = 0
        for topic in sorted(subscribed_topics(subscriptions.values())):
            for partition in partitions_of(topic, partitions_per_topic.get(topic, 0)):
                while topic not in wants[next_member]:
                    next_member = (next_member + 1) % len(members)
                shares[members[next_member]].append(partition)
                next_member = (next_member + 1) % len(members)
        return {member: Assignment(share) for member, share in shares.items()}
