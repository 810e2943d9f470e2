"""What an assignor is: the strategy by which a group's leader shares out partitions.

A member names the assignors it speaks, in the order of preference; the coordinator picks one that
all members speak; the leader is given everybody's subscription and calls `assign`. Users may
bring their own: derive from `PartitionAssignor` and give the class (or an instance) to the consumer
as one of its `assignors`.

    leader    assign(partitions per topic, subscriptions by member) -> assignments by member
    member    subscription_user_data(topics) -> what its subscription carries for the leader
              on_assignment(assignment, metadata): what it got, before it consumes

Rebalance protocols (KIP-429): under EAGER a member gives up everything before it joins; under
COOPERATIVE it keeps what it has and says so (`owned_partitions`), and the leader may not move a
partition from one owner to the next in one rebalance: it withholds it first, and the next
rebalance hands it out. A group speaks the highest protocol that all its assignors support.

Assignors do no I/O, look at no clock, and give the same result for the same input.
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
    """How members hand over partitions; the higher one is preferred."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """Who a consumer is in its group, at one generation (-1 and no member id: not in it)."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None


class PartitionAssignor(ABC):
    """One strategy. An instance belongs to one consumer and may remember what it was assigned."""

    name: str
    """Unique in a group; members that name the same one must mean the same strategy."""

    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    version: int = 0
    """Of the user data, for those who evolve it."""

    @abstractmethod
    def assign(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> dict[str, Assignment]:
        """An assignment for every member, empty ones too.

        `partitions_per_topic` has the subscribed topics that exist (none with 0 partitions),
        `subscriptions` every member by its id, in the order in which the coordinator listed them.
        """

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """What this member's subscription to `topics` carries for the leader's `assign`."""
        return None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """This member was assigned something; called before its partitions are consumed."""
        return


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """All partitions of a topic, in order."""
    return [TopicPartition(topic, partition) for partition in range(count)]


def subscribed_topics(subscriptions: Iterable[Subscription]) -> list[str]:
    """Every topic that some member wants, once, in the order in which they are met."""
    return list(dict.fromkeys(topic for each in subscriptions for topic in each.topics))


def member_order(member_id: str, subscription: Subscription) -> tuple[bool, bytes]:
    """A sort key: static members by instance id first, then the others by member id.

    Static members come first and keep their place over restarts, though their member id changes.
    """
    instance_id = subscription.group_instance_id
    if instance_id is not None:
        return False, utf16_order(instance_id)
    return True, utf16_order(member_id)
