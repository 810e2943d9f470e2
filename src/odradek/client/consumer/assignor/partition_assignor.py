"""PartitionAssignor: the interface of a strategy by which a group's leader assigns partitions.

A member offers its assignors in the order of preference; the coordinator picks one that all members
offer; the leader gets all subscriptions and calls `assign`. Users' own assignors derive from
`PartitionAssignor`; the consumer takes the class, or an instance, as one of its `assignors`.

    leader    assign(partitions per topic, subscriptions by member) -> assignments by member
    member    subscription_user_data(topics) -> data for the leader, in its subscription
              on_assignment(assignment, metadata): its assignment, before it consumes

Rebalance protocols (KIP-429): under EAGER a member gives up all partitions before it joins. Under
COOPERATIVE it keeps them and lists them (`owned_partitions`); the leader may not move a partition
to a new owner within one rebalance. It withholds the partition first, and the next rebalance
assigns it. A group uses the highest protocol that all its assignors support.

Assignors do no I/O, read no clock, and give the same result for the same input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from odradek.client.consumer.assignor.hash_order import utf16_order
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import NO_GENERATION, Assignment, Subscription

NO_MEMBER_ID: Final = ""


class RebalanceProtocol(IntEnum):
    """The protocol by which members hand over partitions; the higher one is preferred."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """A consumer's identity in its group at one generation (-1 and no member id: not a member)."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None


class PartitionAssignor(ABC):
    """A strategy. An instance belongs to one consumer and may remember its assignments."""

    name: str
    """Unique in a group; members with the same name must have the same strategy."""

    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    version: int = 0
    """Version of the user data."""

    @abstractmethod
    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> dict[str, Assignment]:
        """Return an assignment for every member, empty ones included.

        `partitions_per_topic` has the subscribed topics that exist (none with 0 partitions),
        `subscriptions` all members by id, in the coordinator's order.
        """

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the user data of this member's subscription to `topics`, for the leader's
        `assign`.
        """
        return None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Take this member's assignment; called before its partitions are consumed."""
        return


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """Return all partitions of a topic, in order."""
    return [TopicPartition(topic, partition) for partition in range(count)]


def subscribed_topics(subscriptions: Iterable[Subscription]) -> list[str]:
    """Return every subscribed topic once, in the order of first occurrence."""
    return list(dict.fromkeys(topic for each in subscriptions for topic in each.topics))


def member_order(member_id: str, subscription: Subscription) -> tuple[bool, bytes]:
    """Return a sort key: static members by instance id first, then the others by member id.

    Static members keep their place over restarts, although their member id changes.
    """
    instance_id = subscription.group_instance_id
    if instance_id is not None:
        return False, utf16_order(instance_id)
    return True, utf16_order(member_id)
