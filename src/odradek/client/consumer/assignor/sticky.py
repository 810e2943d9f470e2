"""The sticky assignors: balanced first, and then as few partitions as possible change their owner.

Where all members want the same topics `constrained` assigns, else `general`. What each member
owned is told in two ways, and that is the difference between the two assignors:

    sticky               eager: a member gives everything up before it joins, so what it had, and
                         in which generation, travels as user data of its subscription
    cooperative-sticky   (its module) a member keeps what it has and its subscription says so
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from odradek.client.consumer.assignor.constrained import ConstrainedAssignment
from odradek.client.consumer.assignor.general import GeneralAssignment
from odradek.client.consumer.assignor.ownership import Claim, ownership
from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
)
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import (
    NO_GENERATION,
    Assignment,
    Subscription,
    decode_sticky_user_data,
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
