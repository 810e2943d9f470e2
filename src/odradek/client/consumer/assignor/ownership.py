"""Who owns what before a sticky rebalance: the claims of the members, put right.

A member claims the partitions it had when it last knew its group. Claims are stale where the
member missed a rebalance, so they carry a generation:

- the claim of the higher generation wins;
- two claims of one generation are a contradiction: neither holds, and the partition counts as
  moved whoever gets it (`doubly_claimed`);
- of topics and partitions that no longer exist there is nothing to claim. (Java keeps claims to
  partitions above the topic's count. They appear when a topic is created anew with fewer.)

Java compares the generation inside the claim with that of the *subscription* it met before, which
for the eager assignor (whose claims travel as user data) is another field. The comparison is
kept as it is, for equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.client.consumer.assignor.hash_order import hash_ordered
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import NO_GENERATION, Subscription

Claim = tuple[list[TopicPartition], int]
"""What a member says it has, and of which generation that is."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The claims of a group. Members are in the order in which Java walks over them."""

    claims: dict[str, Claim]
    owned: dict[str, list[TopicPartition]]
    """What holds of the claims."""
    doubly_claimed: set[TopicPartition]
    max_generation: int
    same_topics: bool
    """Whether all members want the same topics."""


def ownership(
    partitions_per_topic: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    claim_of: Callable[[Subscription], Claim],
) -> Ownership:
    """Read the claims of all members and settle them."""
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
    """Whether all members want the same topics.

    (Java passes over members without topics until it meets one with some, and may then give them
    partitions. Here a member without topics wants something else than one with topics.)
    """
    wanted = {frozenset(subscription.topics) for subscription in subscriptions.values()}
    return len(wanted) == 1
