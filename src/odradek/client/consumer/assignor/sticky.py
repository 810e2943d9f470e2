"""The sticky assignors: as balanced as possible, then as few moves as possible.

If all members subscribe to the same topics, `constrained` assigns, else `general`. The two
assignors differ in how a member reports the partitions it owned:

    sticky               eager: a member gives everything up before it joins, so its partitions and
                         their generation travel as user data of its subscription
    cooperative-sticky   a member keeps its partitions, and its subscription lists them (KIP-429)

Under the cooperative protocol only its new assignment shows a member which partitions to give up,
and no partition may have two owners. So the assignor withholds a partition that moves from its new
owner. The old owner revokes it and rejoins; in this second rebalance it has no owner, and the new
owner gets it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from odradek.client.consumer.assignor.constrained import ConstrainedAssignment
from odradek.client.consumer.assignor.general import GeneralAssignment
from odradek.client.consumer.assignor.ownership import Claim, ownership
from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
    RebalanceProtocol,
)
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import (
    NO_GENERATION,
    Assignment,
    Subscription,
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)


class StickyAssignor(PartitionAssignor):
    """Sticky, with eager rebalances."""

    name = "sticky"

    def __init__(self) -> None:
        self._mine: Sequence[TopicPartition] | None = None
        self._generation = NO_GENERATION

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        before = ownership(partitions_per_topic, subscriptions, claim_in_user_data)
        if before.same_topics:
            shares = ConstrainedAssignment(partitions_per_topic, before).run()
        else:
            shares = GeneralAssignment(partitions_per_topic, subscriptions, before).run()
        return {member: Assignment(share) for member, share in shares.items()}

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        if self._mine is None:
            return None
        return encode_sticky_user_data(self._mine, self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self._mine = assignment.partitions
        self._generation = metadata.generation_id


def claim_in_user_data(subscription: Subscription) -> Claim:
    """Return the partitions that the member owned before it gave them up."""
    if not subscription.user_data:
        return [], NO_GENERATION
    return decode_sticky_user_data(subscription.user_data)


class CooperativeStickyAssignor(PartitionAssignor):
    """Sticky, with cooperative rebalances; with eager ones while a group changes its assignors."""

    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        before = ownership(partitions_per_topic, subscriptions, claim_in_subscription)
        if before.same_topics:
            constrained = ConstrainedAssignment(partitions_per_topic, before)
            shares, moving = constrained.run(), constrained.moving
        else:
            shares = GeneralAssignment(partitions_per_topic, subscriptions, before).run()
            moving = moving_between(shares, subscriptions)
        return {
            member: Assignment([each for each in share if moving.get(each) != member])
            for member, share in shares.items()
        }

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return encode_cooperative_sticky_user_data(self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self._generation = metadata.generation_id


def claim_in_subscription(subscription: Subscription) -> Claim:
    """Return the owned partitions. Old subscriptions have the generation in their user data."""
    generation = subscription.generation_id
    if generation == NO_GENERATION and subscription.user_data is not None:
        generation = decode_cooperative_sticky_user_data(subscription.user_data)
    return list(subscription.owned_partitions), generation


def moving_between(
    shares: Mapping[str, Collection[TopicPartition]], subscriptions: Mapping[str, Subscription]
) -> dict[TopicPartition, str]:
    """Return the partitions that one member loses and another gets, with the member that
    gets them.
    """
    added: dict[TopicPartition, str] = {}
    lost: set[TopicPartition] = set()
    for member, share in shares.items():
        owned = set(subscriptions[member].owned_partitions)
        added.update((partition, member) for partition in share if partition not in owned)
        lost |= owned.difference(share)
    return {partition: member for partition, member in added.items() if partition in lost}
