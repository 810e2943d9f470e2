"""The cooperative sticky assignor: sticky, and nobody stops consuming what it keeps (KIP-429).

No partition may have two owners, and under the cooperative protocol a member learns what to give
up only from its new assignment. So a partition that moves is withheld from its new owner: the old
one revokes it and joins again, and in that second rebalance nobody owns it and it is given out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
    encode_cooperative_sticky_user_data,
)


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
