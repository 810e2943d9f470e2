"""The inputs of the golden assignor results: simulated groups over several rebalances.

A case is one call of `assign`, as JSON (runs are partitions of one topic: index, then numbers):

    {"a": assignor,
     "t": [[topic, partitions (0: it does not exist)], ...],
     "s": [[member id, instance id or null, [index of topic, ...], [run of owned, ...],
            generation of the subscription, user data in hex or null], ...],
     "r": [[run, ...] of each member],  "w": CRC-32 of all that goes over the wire}

`python tests/golden/regenerate_assignors.py` makes the cases from seeds, gets "r" and "w" from
Kafka's own classes, and writes `assignors.json.gz`, which the test reads.

Cases are left out where Java's sticky assignors may assign a partition of a topic to which the
member is not subscribed, and ours do not: older claims to topics that their member left (see
`assignor.general`), and a member without topics that comes first (see `assignor.ownership`).

Groups are driven through joins, leaves, stale members, new topics, more partitions and changed
subscriptions, so that claims are realistic; some are made up to contradict each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.client.consumer.assignor.hash_order import hash_ordered
from odradek.client.consumer.assignor.ownership import ownership
from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor
from odradek.client.consumer.assignor.registry import BUILT_IN
from odradek.client.consumer.assignor.sticky import claim_in_subscription, claim_in_user_data
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import (
    NO_GENERATION,
    Subscription,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)

Case = dict[str, Any]


def runs_of(partitions: Iterable[TopicPartition], topics: Sequence[str]) -> list[list[int]]:
    """Return partitions as runs of one topic each, in order."""
    runs: list[list[int]] = []
    last = None
    for topic, partition in partitions:
        if topic != last:
            runs.append([topics.index(topic)])
            last = topic
        runs[-1].append(partition)
    return runs


def partitions_in(runs: Iterable[Sequence[int]], topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of runs; the inverse of `runs_of`."""
    return [TopicPartition(topics[run[0]], partition) for run in runs for partition in run[1:]]


def partitions_per_topic(case: Case) -> dict[str, int]:
    """Return the existing topics of a case that a member subscribes to."""
    wanted = {index for row in case["s"] for index in row[2]}
    return {
        topic: count for index, (topic, count) in enumerate(case["t"]) if count and index in wanted
    }


def subscriptions(case: Case) -> dict[str, Subscription]:
    """Return the members of a case, in order."""
    topics = [topic for topic, _ in case["t"]]
    return {
        member: Subscription(
            topics=[topics[index] for index in wanted],
            user_data=None if user_data is None else bytes.fromhex(user_data),
            owned_partitions=partitions_in(owned, topics),
            generation_id=generation,
            group_instance_id=instance,
        )
        for member, instance, wanted, owned, generation, user_data in case["s"]
    }


@dataclass
class Member:
    """One simulated member of a group."""

    id: str
    instance_id: str | None
    topics: list[str]
    owned: list[TopicPartition] = field(default_factory=list)
    generation: int = NO_GENERATION


class Group:
    """A simulated group that rebalances repeatedly with one assignor."""

    def __init__(self, seed: int, assignor: type[PartitionAssignor], members: int) -> None:
        self.chance = random.Random(f"{assignor.name} {seed}")
        self.assignor = assignor()
        self.made = 0
        self.generation = self.chance.choice([0, 1, 7, 300])
        self.long_ids = self.chance.random() < 0.3
        self.equal_topics = self.chance.random() < 0.55
        names = self.chance.sample(TOPIC_NAMES, self.chance.randint(1, 8))
        self.topics = {name: self.chance.choice(PARTITION_COUNTS) for name in names}
        self.members = [self.new_member() for _ in range(members)]

    def new_member(self) -> Member:
        """Add a member that has just joined."""
        self.made += 1
        member_id = f"c{self.made}"
        if self.long_ids:
            member_id = f"consumer-{self.made}-{self.chance.getrandbits(64):016x}"
        elif self.chance.random() < 0.3:
            member_id = self.chance.choice("éαЖ語aZ_") + f"{self.chance.getrandbits(20):x}"
        instance_id = f"i{self.chance.randint(0, 99)}-{self.made}"
        static = self.chance.random() < 0.2
        return Member(member_id, instance_id if static else None, self.some_topics())

    def some_topics(self) -> list[str]:
        """Return topics to subscribe to; sometimes a topic that does not exist, or none."""
        names = list(self.topics)
        if self.equal_topics:
            return names
        if self.chance.random() < 0.04:
            return []
        wanted = self.chance.sample(names, self.chance.randint(1, len(names)))
        return [*wanted, "missing"] if self.chance.random() < 0.05 else wanted

    def case(self) -> Case:
        """Return the input of the next rebalance; `rebalance` applies its result."""
        topics = [*self.topics, "missing"]
        return {
            "a": self.assignor.name,
            "t": [*([name, count] for name, count in self.topics.items()), ["missing", 0]],
            "s": [self.row(member, topics) for member in self.members],
        }

    def row(self, member: Member, topics: list[str]) -> list[Any]:
        """Return one member's subscription, with the user data of its assignor."""
        owned, generation, user_data = member.owned, member.generation, None
        if self.assignor.name == "sticky":
            if member.generation != NO_GENERATION or self.chance.random() < 0.5:
                user_data = encode_sticky_user_data(owned, generation).hex()
            owned = []
            generation = self.chance.choice([generation, generation, generation, NO_GENERATION])
        elif self.assignor.name == "cooperative-sticky":
            if self.chance.random() < 0.9:
                user_data = encode_cooperative_sticky_user_data(generation).hex()
            generation = self.chance.choice([generation, generation, generation, NO_GENERATION])
        elif self.chance.random() < 0.9:
            owned = []
        wanted = [topics.index(topic) for topic in member.topics]
        owned_runs = runs_of(owned, topics)
        return [member.id, member.instance_id, wanted, owned_runs, generation, user_data]

    def rebalance(self, case: Case) -> None:
        """Give the members their assignments (some miss them), then change the group at random."""
        shares = self.assignor.assign(partitions_per_topic(case), subscriptions(case))
        self.generation += 1
        for member in self.members:
            if self.chance.random() < 0.93:
                member.owned = list(shares[member.id].partitions)
                member.generation = self.generation
        for happen in self.chance.choices(
            [self.join, self.leave, self.change_topics, self.grow, self.steal, self.forget],
            weights=[5, 4, 3, 2, 1, 1],
            k=self.chance.randint(0, 3),
        ):
            happen()

    def join(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.members.insert(self.chance.randint(0, len(self.members)), self.new_member())

    def leave(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            if len(self.members) > 1:
                del self.members[self.chance.randrange(len(self.members))]

    def change_topics(self) -> None:
        if self.equal_topics:
            names = list(self.topics)
            kept = self.chance.sample(names, self.chance.randint(1, len(names)))
            for member in self.members:
                member.topics = list(kept)
        else:
            for member in self.chance.sample(self.members, min(len(self.members), 2)):
                member.topics = self.some_topics()

    def grow(self) -> None:
        """Add partitions to a topic, or add a topic."""
        if self.chance.random() < 0.5:
            self.topics[self.chance.choice(list(self.topics))] += self.chance.randint(1, 6)
        else:
            self.topics[self.chance.choice(TOPIC_NAMES)] = self.chance.choice(PARTITION_COUNTS)
        # A topic that was created again has at least as many partitions as members owned of it.
        for member in self.members:
            member.owned = [
                each for each in member.owned if each.partition < self.topics[each.topic]
            ]

    def steal(self) -> None:
        """Make a member claim the partitions of another one."""
        thief, victim = self.chance.choice(self.members), self.chance.choice(self.members)
        if victim.owned and thief is not victim:
            taken = self.chance.choice(victim.owned)
            if taken not in thief.owned:
                thief.owned.append(taken)

    def forget(self) -> None:
        """Make a member start anew."""
        member = self.chance.choice(self.members)
        member.owned, member.generation = [], NO_GENERATION


TOPIC_NAMES = ["orders", "users", "a", "b", "page.views", "t-1", "t-10", "t-2", "Z_9", "clicks"]
LATEST = 5
"""The latest generation of the made-up groups."""
PARTITION_COUNTS = [1, 1, 2, 3, 4, 5, 6, 8, 12]


def lopsided(seed: int, assignor: type[PartitionAssignor]) -> Case:
    """Return a made-up group in which few members own nearly all, with contradicting old claims."""
    group = Group(seed, assignor, 3 + seed % 6)
    group.equal_topics = False
    group.topics = {name: group.chance.randint(5, 30) for name in TOPIC_NAMES[: 2 + seed % 4]}
    greedy = group.members[: 1 + seed % 2]
    for member in group.members:
        member.generation = group.chance.choice([LATEST, LATEST, LATEST, 4, 3])
        member.topics = list(group.topics) if member in greedy else group.some_topics()
    for topic, count in group.topics.items():
        for partition in range(count):
            owners = [group.chance.choice(greedy)] if group.chance.random() < 0.8 else []
            owners += group.chance.sample(group.members, group.chance.choice([0, 0, 1, 2]))
            for owner in dict.fromkeys(owner.id for owner in owners):
                member = next(each for each in group.members if each.id == owner)
                if topic in member.topics or member.generation == LATEST:
                    member.owned.append(TopicPartition(topic, partition))
    return group.case()


def java_errs(case: Case) -> bool:
    """True if the case is one of those left out."""
    members = subscriptions(case)
    if not members[hash_ordered(members)[0]].topics:
        return True
    claim_of = claim_in_user_data if case["a"] == "sticky" else claim_in_subscription
    found = ownership(partitions_per_topic(case), members, claim_of)
    return any(
        partition.topic not in members[member].topics
        for member, (partitions, generation) in found.claims.items()
        if generation < found.max_generation
        for partition in partitions
    )


def cases(groups: int, rounds: int) -> Iterator[Case]:
    """Yield cases of every assignor: many small groups, some medium ones, some made up."""
    for name, assignor in BUILT_IN.items():
        sticky = "sticky" in name
        for seed in range(groups if sticky else groups // 4):
            members = 1 + seed % 7 if seed % 10 else 20 + seed % 17
            group = Group(seed, assignor, members)
            for _ in range(rounds):
                case = group.case()
                if not java_errs(case):
                    yield case
                group.rebalance(case)
        for seed in range(groups * 2 if sticky else 0):
            case = lopsided(seed, assignor)
            if not java_errs(case):
                yield case
