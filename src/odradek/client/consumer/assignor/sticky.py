"""The sticky assignors: balanced first, and then as few partitions as possible change their owner.

Where all members want the same topics `constrained` assigns, else `general`. What each member
owned is told in two ways, and that is the difference between the two assignors:

    sticky               eager: a member gives everything up before it joins, so what it had, and
                         in which generation, travels as user data of its subscription
    cooperative-sticky   (its module) a member keeps what it has and its subscription says so

The cooperative sticky assignor: sticky, and nobody stops consuming what it keeps (KIP-429).

No partition may have two owners, and under the cooperative protocol a member learns what to give
up only from its new assignment. So a partition that moves is withheld from its new owner: the old
one revokes it and joins again, and in that second rebalance nobody owns it and it is given out.
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
    """What the member had before it gave it up."""
    if not subscription.user_data:
        return [], NO_GENERATION
    return decode_sticky_user_data(subscription.user_data)


class CooperativeStickyAssignor(PartitionAssignor):
    """Sticky, with cooperative rebalances; eager ones while a group changes over."""

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
    """What the member has; its generation is in the user data where the subscription lacks it."""
    generation = subscription.generation_id
    if generation == NO_GENERATION and subscription.user_data is not None:
        generation = decode_cooperative_sticky_user_data(subscription.user_data)
    return list(subscription.owned_partitions), generation


def moving_between(
    shares: Mapping[str, Collection[TopicPartition]], subscriptions: Mapping[str, Subscription]
) -> dict[TopicPartition, str]:
    """The partitions that one member loses and another gets, by the one that gets them."""
    added: dict[TopicPartition, str] = {}
    lost: set[TopicPartition] = set()
    for member, share in shares.items():
        owned = set(subscriptions[member].owned_partitions)
        added.update((partition, member) for partition in share if partition not in owned)
        lost |= owned.difference(share)
    return {partition: member for partition, member in added.items() if partition in lost}
