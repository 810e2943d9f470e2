"""The owner of each partition before a sticky assignment: the members' claims, reconciled.

A member claims the partitions that it last owned. The claim of a member that missed a rebalance is
stale, so claims carry a generation:

- the claim of the higher generation wins;
- two claims of one generation contradict each other: neither counts, and the partition counts as
  moved to any member (`doubly_claimed`);
- claims of topics and partitions that no longer exist do not count. (Java keeps claims of
  partitions above the topic's count; they appear when a topic is created again with fewer
  partitions.)

Java compares the generation of the claim with that of the *subscription* of the earlier claimant.
For the eager assignor, whose claims travel as user data, that is another field. This comparison is
kept, for equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.client.consumer.assignor.hash_order import hash_ordered
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import NO_GENERATION, Subscription

Claim = tuple[list[TopicPartition], int]
"""The partitions that a member claims, and the generation of the claim."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The claims of a group. Members are in Java's order of iteration."""

    claims: dict[str, Claim]
    owned: dict[str, list[TopicPartition]]
    """The partitions that each member owns after reconciliation."""
    doubly_claimed: set[TopicPartition]
    max_generation: int
    same_topics: bool
    """True if all members subscribe to the same topics."""


def ownership(
    partitions_per_topic: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    claim_of: Callable[[Subscription], Claim],
) -> Ownership:
    """Read and reconcile the claims of all members."""
    claims = {member: claim_of(subscriptions[member]) for member in hash_ordered(subscriptions)}
    owned: dict[str, list[TopicPartition]] = {}
    owner_of: dict[TopicPartition, str] = {}
    doubly_claimed: set[TopicPartition] = set()
    for member, (partitions, generation) in claims.items():
        mine = owned[member] = []
        for claimed in partitions:
            if not 0 <= claimed.partition < partitions_per_topic.get(claimed.topic, 0):
                continue
            other = owner_of.get(claimed)
            if other is None:
                mine.append(claimed)
                owner_of[claimed] = member
                continue
            others_generation = subscriptions[other].generation_id
            if generation < others_generation:
                continue
            if claimed in owned[other]:
                owned[other].remove(claimed)
            owner_of[claimed] = member
            if generation == others_generation:
                doubly_claimed.add(claimed)
            else:
                mine.append(claimed)
    return Ownership(
        claims,
        owned,
        doubly_claimed,
        max((generation for _, generation in claims.values()), default=NO_GENERATION),
        same_topics(subscriptions),
    )


def same_topics(subscriptions: Mapping[str, Subscription]) -> bool:
    """True if all members subscribe to the same topics.

    (Java skips members without topics until it meets one with topics, and may then give them
    partitions. Here a member without topics differs from one with topics.)
    """
    wanted = {frozenset(subscription.topics) for subscription in subscriptions.values()}
    return len(wanted) == 1
