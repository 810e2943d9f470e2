"""The round-robin assignor: all partitions of all topics are dealt to the members in turn.

    topics t0 t1 of 3 partitions each, members C0 C1

    C0   t0-0 t0-2 t1-1
    C1   t0-1 t1-0 t1-2

A member that does not want a topic is passed over when one of its partitions is dealt, so with
different subscriptions the hands may differ by more than one.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.consumer.assignor.partition_assignor import (
    PartitionAssignor,
    member_order,
    partitions_of,
    subscribed_topics,
)
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import Assignment, Subscription


class RoundRobinAssignor(PartitionAssignor):
    """Partitions dealt in turn."""

    name = "roundrobin"

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        members = sorted(subscriptions, key=lambda each: member_order(each, subscriptions[each]))
        wants = [frozenset(subscriptions[member].topics) for member in members]
        hands: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        turn = 0
        for topic in sorted(subscribed_topics(subscriptions.values())):
            for partition in partitions_of(topic, partitions_per_topic.get(topic, 0)):
                while topic not in wants[turn]:
                    turn = (turn + 1) % len(members)
                hands[members[turn]].append(partition)
                turn = (turn + 1) % len(members)
        return {member: Assignment(hand) for member, hand in hands.items()}
