"""Plans which brokers have a partition's replicas: pure, from what is to what should be.

    grow      give each partition a number of replicas, and spread the leaders over all brokers
    resize    give the partitions of a topic another number of replicas, more or fewer
    drain     move all replicas away from one broker

A plan moves no more than it must. A new replica goes to a broker in a rack that the partition is
not in, if there is one, and of those to the broker with the fewest replicas. What is being moved
already counts as moved, so a plan that was interrupted is made again and goes on. A replica that is
being copied to a broker which stopped meanwhile, or was cordoned, gets another broker if there is
one. Where there is none, a drain takes back a replica that was to be removed rather than wait for a
broker that is stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.model.topics import TopicPartition

Replicas = tuple[int, ...]
Plan = dict[TopicPartition, Replicas]
"""The new replicas of the partitions that change, the preferred leader first."""


class PlanError(ValueError):
    """There are too few brokers; the message says for what and what to do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a partition's replicas are, or will be when its move is done; the leader's broker.

    `adding`: those of `replicas` to which its records are still copied. `removing`: the brokers
    that have a replica until then.
    """

    replicas: Replicas
    leader: int
    in_sync: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def holders(self) -> Replicas:
        """The brokers that have a replica now or will have one."""
        return (*self.replicas, *self.removing)


class Planner:
    """Plans over the brokers that run and are not cordoned, given with their racks, and all
    partitions of the cluster. `cordoned`: the brokers that run, too, and get no new replicas.
    """

    def __init__(
        self,
        racks: Mapping[int, str | None],
        placements: Mapping[TopicPartition, Placement],
        cordoned: Collection[int] = (),
    ) -> None:
        self._racks = racks
        self._cordoned = frozenset(cordoned)
        self._placements = placements
        self._replicas: Counter[int] = Counter()
        self._leaders: Counter[int] = Counter()
        for placement in placements.values():
            self._replicas.update(placement.replicas)
            self._leaders[placement.replicas[0]] += 1

    def grow(self, count: int) -> Plan:
        """Raise each partition with fewer to `count` replicas, at most one on each broker, and
        spread the preferred leaders."""
        wanted = min(count, len(self._racks))
        plan = {
            key: self._with_more(self._reachable(placement, self._racks), wanted)
            for key, placement in sorted(self._placements.items())
        }
        return self._changes(self._spread_leaders(plan))

    def resize(self, partitions: Iterable[TopicPartition], count: int) -> Plan:
        """Give these partitions `count` replicas. Those that go are out of sync, or else on brokers
        that are cordoned or do not run, or else on the brokers with most replicas; the leader
        stays. Raises `PlanError`."""
        if count > len(self._racks):
            raise PlanError(
                f"{count} replicas need {count} brokers, and {len(self._racks)} are running that "
                f"are not cordoned. What to do: {self._uncordon()}start more, or ask for at most "
                f"{len(self._racks)}"
            )
        plan: Plan = {}
        for key in sorted(partitions):
            placement = self._placements[key]
            replicas = self._with_more(self._reachable(placement, self._racks), count)
            plan[key] = self._with_fewer(placement, replicas, count)
        return self._changes(plan)

    def drain(self, broker: int) -> Plan:
        """Move all replicas from this broker to others. Raises `PlanError` if a partition is on
        all of them already; a replica that is still being copied to the broker is given up then."""
        plan: Plan = {}
        others = {each for each in self._racks if each != broker}
        for key, placement in sorted(self._placements.items()):
            if broker in placement.holders:
                replicas = self._reachable(placement, others)
                if broker in replicas:
                    replicas = self._without(broker, key, placement, replicas, others)
                plan[key] = self._without_lost_copies(broker, placement, replicas)
        return self._changes(plan)

    def _without(
        self,
        broker: int,
        key: TopicPartition,
        placement: Placement,
        replicas: Replicas,
        others: Collection[int],
    ) -> Replicas:
        """Return `replicas` with one of the others in the place of this broker."""
        kept = tuple(each for each in replicas if each != broker)
        if set(others).difference(kept):
            self._replicas[broker] -= 1
            added = self._best(kept, others)
            return tuple(added if each == broker else each for each in replicas)
        if broker in placement.adding:
            return self._given_up(broker, placement, kept)
        uncordon = self._uncordon(without=(broker, *kept))
        if not others:
            which = "that is not cordoned " if uncordon else ""
            raise PlanError(
                f"there is no other broker {which}to move {key} to. What to do: {uncordon}start "
                "another one first"
            )
        raise PlanError(
            f"{key} has {len(replicas)} replicas, and without broker {broker} "
            f"there are {len(others)} brokers that run and are not cordoned. What to do: "
            f"{uncordon}start another one first, or give the topic fewer replicas (odradek topic "
            f"alter {key.topic} --replicas {len(others)})"
        )

    def _given_up(self, broker: int, placement: Placement, kept: Replicas) -> Replicas:
        """Return the replicas without the one that is being copied to this broker: those that were
        to be removed stay in its place, and in that of copies to brokers that do not run."""
        lost = {each for each in placement.adding if not self._runs(each)}
        there = tuple(each for each in kept if each not in lost)
        return (*there, *self._holding(placement, broker))[: len(placement.replicas)]

    def _without_lost_copies(
        self, broker: int, placement: Placement, replicas: Replicas
    ) -> Replicas:
        """Return the replicas, with brokers that run and have the records, and were to be removed,
        in the place of copies to brokers that do not run, as far as there are such."""
        for lost in placement.adding:
            if lost in replicas and not self._runs(lost):
                instead = [
                    each
                    for each in self._holding(placement, broker)
                    if each not in replicas and (self._runs(each) or each in placement.in_sync)
                ]
                if instead:
                    replicas = tuple(instead[0] if each == lost else each for each in replicas)
        return replicas

    def _holding(self, placement: Placement, broker: int) -> Sequence[int]:
        """Return the other brokers that are to remove the partition, those in sync first."""
        return sorted(
            (each for each in placement.removing if each != broker),
            key=lambda each: (each not in placement.in_sync, not self._runs(each)),
        )

    def _runs(self, broker: int) -> bool:
        return broker in self._racks or broker in self._cordoned

    def _uncordon(self, without: Collection[int] = ()) -> str:
        """Return the advice to uncordon one of the cordoned brokers; nothing if there is none."""
        found = [str(each) for each in sorted(self._cordoned.difference(without))]
        if not found:
            return ""
        one_of = "" if len(found) == 1 else f" (one of {', '.join(found)})"
        return f"odradek cluster uncordon {'BROKER' if one_of else found[0]}{one_of}, or "

    def _reachable(self, placement: Placement, among: Collection[int]) -> Replicas:
        """Return the replicas, with others of these brokers in the place of those that are being
        copied to a broker which is none of them, as far as there are others."""
        replicas = placement.replicas
        for lost in placement.adding:
            if lost not in among and set(among).difference(replicas):
                self._replicas[lost] -= 1
                kept = tuple(each for each in replicas if each != lost)
                instead = self._best(kept, among)
                replicas = tuple(instead if each == lost else each for each in replicas)
        return replicas

    def _best(self, replicas: Sequence[int], among: Iterable[int]) -> int:
        """Choose a broker for a further replica, and count it."""
        used = {self._racks.get(each) for each in replicas} - {None}
        chosen = min(
            (each for each in among if each not in replicas),
            key=lambda each: (self._racks.get(each) in used, self._replicas[each], each),
        )
        self._replicas[chosen] += 1
        return chosen

    def _with_more(self, replicas: Replicas, count: int) -> Replicas:
        while len(replicas) < count:
            replicas = (*replicas, self._best(replicas, self._racks))
        return replicas

    def _with_fewer(self, placement: Placement, replicas: Replicas, count: int) -> Replicas:
        while len(replicas) > count:
            goes = max(
                (each for each in replicas if each != placement.leader),
                key=lambda each: (
                    each not in placement.in_sync,
                    each not in self._racks,
                    self._replicas[each],
                    replicas.index(each),
                ),
            )
            self._replicas[goes] -= 1
            replicas = tuple(each for each in replicas if each != goes)
        return replicas

    def _least_first(self, replicas: tuple[int, ...], of_topic: Counter[int]) -> int:
        """Return the replica that leads least: partitions of its topic first, then all."""
        return min(
            replicas,
            key=lambda each: (of_topic[each], self._leaders[each], replicas.index(each)),
        )

    def _spread_leaders(self, plan: Plan) -> Plan:
        """Put another replica first where a broker is first of more than its share: of its topic's
        partitions, and then of all, as far as that leaves its topic as even.
        """
        leaders = self._leaders
        of_topic: dict[str, Counter[int]] = {}
        for key, replicas in plan.items():
            of_topic.setdefault(key.topic, Counter())[replicas[0]] += 1
        brokers = max(1, len(self._racks))
        share = -(-len(plan) // brokers)
        spread: Plan = {}
        for key, replicas in plan.items():
            topic = of_topic[key.topic]
            first = replicas[0]
            least = self._least_first(replicas, topic)
            uneven = topic[first] > topic[least] + 1
            too_many = leaders[first] > share and topic[first] > topic[least]
            if uneven or (too_many and leaders[least] < leaders[first] - 1):
                for counted in (topic, leaders):
                    counted[first] -= 1
                    counted[least] += 1
                replicas = (least, *(each for each in replicas if each != least))
            spread[key] = replicas
        return spread

    def _changes(self, plan: Plan) -> Plan:
        return {
            key: replicas
            for key, replicas in plan.items()
            if replicas != self._placements[key].replicas
        }
