"""Sticky assignment if members want different topics: as balanced as possible, then sticky.

    1. keep     every member keeps what it owns of the topics it still wants
    2. give     every other partition goes to the member with the fewest among those that want it
    3. balance  move partitions, one at a time, to a member that has at least two fewer, until no
                such move is left: first only those given in step 2, then all of them
    4. revert   undo step 3 if it improved nothing: no partition moves without need

Topics that only one member wants, and members that have everything they can have of such topics,
cannot be balanced and are left out.

A partition that an older claim shows at a previous owner goes back there if that owner has two
fewer. (Java sends it back even if that owner no longer wants the topic; here it must.)

`PartitionMovements` remembers the moves. If a partition of a topic is about to move from A to B,
and another one of that topic moved from B to A before, that one goes back instead: the counts end
up the same, and two partitions fewer change their owner.

Cost: before each partition, Java checks whether all is balanced and looks at every partition of
every member. Here the check is per topic - the largest owner against the smallest member that could
take one more - and only after a move, beginning with the topic that was unbalanced last.

In Kafka: AbstractStickyAssignor's GeneralAssignmentBuilder.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from odradek.client.consumer.assignor.hash_order import PartitionHashSet, utf16_order
from odradek.client.consumer.assignor.ownership import Ownership
from odradek.client.consumer.assignor.partition_assignor import partitions_of
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import Subscription

Pair = tuple[str, str]
"""The old and the new owner."""


class PartitionMovements:
    """The moves of one assignment, each from the partition's first owner."""

    def __init__(self) -> None:
        self._pair_of: dict[TopicPartition, Pair] = {}
        self._moved: dict[tuple[str, Pair], PartitionHashSet] = {}
        """By topic and pair."""

    def to_move(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move instead of this one; itself if no move can be undone."""
        moved = self._pair_of.get(partition)
        origin = source if moved is None else moved[0]
        back = self._moved.get((partition.topic, (target, origin)))
        return partition if back is None else back.first()

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record a move. A move back to the first owner is none."""
        before = self._pair_of.pop(partition, None)
        origin = source
        if before is not None:
            origin = before[0]
            self._forget(partition, before)
        if origin == target:
            return
        self._pair_of[partition] = (origin, target)
        key = (partition.topic, (origin, target))
        self._moved.setdefault(key, PartitionHashSet()).add(partition)

    def _forget(self, partition: TopicPartition, pair: Pair) -> None:
        key = (partition.topic, pair)
        self._moved[key].remove(partition)
        if not self._moved[key]:
            del self._moved[key]


class GeneralAssignment:
    """Computes one assignment. `shares` is the result, by member."""

    def __init__(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        ownership: Ownership,
    ) -> None:
        self.shares = {member: list(owned) for member, owned in ownership.owned.items()}
        self.owner_of: dict[TopicPartition, str] = {}
        self.topics_of = {
            member: {each for each in subscriptions[member].topics if each in partitions_per_topic}
            for member in self.shares
        }
        self.subscribers_of: dict[str, list[str]] = {topic: [] for topic in partitions_per_topic}
        """The members that want a topic."""
        for member, topics in self.topics_of.items():
            for topic in topics:
                self.subscribers_of[topic].append(member)
        self.capacity = {
            member: sum(partitions_per_topic[topic] for topic in topics)
            for member, topics in self.topics_of.items()
        }
        order = sorted(
            partitions_per_topic, key=lambda topic: (len(self.subscribers_of[topic]), topic)
        )
        self.partitions = [
            each for topic in order for each in partitions_of(topic, partitions_per_topic[topic])
        ]
        """All partitions; those that the fewest members want come first."""
        self.previous_owner = previous_owners(ownership)
        self.movements = PartitionMovements()
        self.by_load = LoadOrder()
        self.unwanted_owned = False

    def run(self) -> dict[str, list[TopicPartition]]:
        """Assign all partitions; return the shares."""
        self.keep()
        self.by_load.fill(self.shares)
        had_nothing = self.by_load.largest == 0
        given = [each for each in self.partitions if each not in self.owner_of]
        for partition in given:
            self.give(partition)
        moving = {
            topic for topic, subscribers in self.subscribers_of.items() if len(subscribers) > 1
        }
        before = {m: list(share) for m, share in self.shares.items() if self.may_move(m, moving)}
        for member in self.shares.keys() - before.keys():
            self.by_load.remove(member)
        balance = BalanceStep(self, moving)
        if not self.unwanted_owned:
            balance.run([each for each in given if each.topic in moving])
        moved = balance.run([each for each in self.partitions if each.topic in moving])
        after = {member: self.shares[member] for member in before}
        if moved and not had_nothing and score(after) >= score(before):
            self.shares |= before
        return self.shares

    def keep(self) -> None:
        """Let the members keep what they own, except of topics that they no longer want."""
        for member, share in self.shares.items():
            kept = [each for each in share if each.topic in self.topics_of[member]]
            if len(kept) < len(share):
                self.unwanted_owned = True
                share[:] = kept
            for partition in kept:
                self.owner_of[partition] = member

    def give(self, partition: TopicPartition) -> None:
        """Assign a partition to the least loaded member that subscribes to its topic, if any."""
        if self.subscribers_of[partition.topic]:
            member = self.by_load.first_of(self.topics_of, partition.topic)
            self.owner_of[partition] = member
            self.shares[member].append(partition)
            self.by_load.change(member, 1)

    def may_move(self, member: str, moving: set[str]) -> bool:
        """True if balancing can change the member's share."""
        share = self.shares[member]
        return len(share) < self.capacity[member] or any(each.topic in moving for each in share)


class BalanceStep:
    """Step 3. `topics` are the topics that more than one member subscribes to."""

    def __init__(self, assignment: GeneralAssignment, topics: set[str]) -> None:
        self.shares = assignment.shares
        self.owner_of = assignment.owner_of
        self.topics_of = assignment.topics_of
        self.subscribers_of = assignment.subscribers_of
        self.capacity = assignment.capacity
        self.previous_owner = assignment.previous_owner
        self.movements = assignment.movements
        self.by_load = assignment.by_load
        self.load = assignment.by_load.load
        self.topics = sorted(topics)
        self.count_of: dict[str, dict[str, int]] = {topic: {} for topic in topics}
        """The number of partitions that each owner has, by topic."""
        for partition, owner in self.owner_of.items():
            counts = self.count_of.get(partition.topic)
            if counts is not None:
                counts[owner] = counts.get(owner, 0) + 1
        self.balanced: bool | None = None
        """None: unknown since the last move."""
        self.witness = 0
        """Index of the topic that was last found unbalanced."""
        self.smallest_of: dict[str, int] = {}
        """The load of the least loaded member that wants a topic, since the last move."""

    def run(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until no move improves the balance; True if any was moved."""
        moved = False
        while self.sweep(partitions):
            moved = True
        return moved

    def sweep(self, partitions: Sequence[TopicPartition]) -> bool:
        """Check each partition once, or until all is balanced; True if any was moved."""
        moved = False
        for partition in partitions:
            if self.is_balanced():
                break
            topic = partition.topic
            load = self.load[self.owner_of[partition]]
            target = self.previous_owner.get(partition)
            if target is not None and self.wants(target, topic) and load > self.load[target] + 1:
                self.move(partition, target)
            elif load > self.smallest(topic) + 1:
                self.move(partition, self.by_load.first_of(self.topics_of, topic))
            else:
                continue
            moved = True
        return moved

    def wants(self, member: str, topic: str) -> bool:
        """True if a member could own partitions of a topic."""
        return topic in self.topics_of[member]

    def smallest(self, topic: str) -> int:
        """Return the load of the least loaded member that subscribes to the topic."""
        found = self.smallest_of.get(topic)
        if found is None:
            found = self.smallest_of[topic] = min(
                self.load[each] for each in self.subscribers_of[topic]
            )
        return found

    def move(self, wanted: TopicPartition, target: str) -> None:
        """Move this partition, or another one whose earlier move that undoes."""
        partition = self.movements.to_move(wanted, self.owner_of[wanted], target)
        source = self.owner_of[partition]
        self.movements.move(partition, source, target)
        self.shares[source].remove(partition)
        self.shares[target].append(partition)
        self.owner_of[partition] = target
        counts = self.count_of[partition.topic]
        counts[source] -= 1
        if not counts[source]:
            del counts[source]
        counts[target] = counts.get(target, 0) + 1
        self.by_load.change(source, -1)
        self.by_load.change(target, 1)
        self.balanced = None
        self.smallest_of.clear()

    def is_balanced(self) -> bool:
        """True if no partition has an owner with two more partitions than another member that could
        take it.
        """
        if self.balanced is None:
            self.balanced = self.by_load.smallest >= self.by_load.largest - 1 or not any(
                self.shows_imbalance(at) for at in self.order()
            )
        return self.balanced

    def order(self) -> list[int]:
        """Return the indices of the topics, beginning with the last unbalanced one."""
        return [*range(self.witness, len(self.topics)), *range(self.witness)]

    def shows_imbalance(self, at: int) -> bool:
        """True if a partition of this topic could move to a member with two fewer."""
        topic, load, capacity = self.topics[at], self.load, self.capacity
        largest = max(load[owner] for owner in self.count_of[topic])
        for subscriber in self.subscribers_of[topic]:
            if load[subscriber] + 1 < largest and load[subscriber] != capacity[subscriber]:
                self.witness = at
                return True
        return False


class LoadOrder:
    """Members by number of partitions; equal ones by id, as Java compares strings."""

    def __init__(self) -> None:
        self.load: dict[str, int] = {}
        """The number of partitions of all members, also of those removed from the order."""
        self._order: list[tuple[int, bytes, str]] = []

    def fill(self, shares: Mapping[str, Sequence[TopicPartition]]) -> None:
        self.load = {member: len(share) for member, share in shares.items()}
        self._order = sorted(self._row(member) for member in self.load)

    @property
    def smallest(self) -> int:
        return self._order[0][0]

    @property
    def largest(self) -> int:
        return self._order[-1][0]

    def first_of(self, topics_of: Mapping[str, set[str]], topic: str) -> str:
        """Return the least loaded member that subscribes to a topic; there must be one."""
        return next(member for _, _, member in self._order if topic in topics_of[member])

    def change(self, member: str, by: int) -> None:
        """Change a member's number of partitions."""
        self.remove(member)
        self.load[member] += by
        insort(self._order, self._row(member))

    def remove(self, member: str) -> None:
        """Remove a member from the order."""
        del self._order[bisect_left(self._order, self._row(member))]

    def _row(self, member: str) -> tuple[int, bytes, str]:
        return self.load[member], utf16_order(member), member


def previous_owners(ownership: Ownership) -> dict[TopicPartition, str]:
    """Return who claims a partition with the highest generation before the current one, by
    partition.
    """
    latest: dict[TopicPartition, tuple[int, str]] = {}
    for member, (partitions, generation) in ownership.claims.items():
        if generation < ownership.max_generation:
            for partition in partitions:
                if partition not in latest or generation > latest[partition][0]:
                    latest[partition] = generation, member
    return {partition: member for partition, (_, member) in latest.items()}


def score(shares: Mapping[str, Sequence[TopicPartition]]) -> int:
    """Return the sum of the differences between any two members' counts; 0 is perfect."""
    total = 0
    for place, count in enumerate(sorted(len(share) for share in shares.values())):
        total += count * (2 * place - len(shares) + 1)
    return total
