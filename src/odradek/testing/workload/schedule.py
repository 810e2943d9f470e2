"""The schedule of a seed's run: swarm testing.

Every seed draws random events and also which *kinds* of things occur: how many clients of which
kind, how the network and the disk behave, which faults and how many. A run with everything in it
would hide the rare combination that breaks things (a slow disk and nothing else; kills but a
perfect network).

Faults come one after another with quiet stretches between them. After the last one everything
heals, and the work of the clients must then come to an end.

`with_extras` adds to some seeds, drawn apart from the rest: topics that are deleted and created
again, retention by age or by size, deletion of records, incremental fetch sessions, and further
faults: clean stops (and pulling the plug after one), crashes of clients, bits that flip on the
disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odradek.model.topics import TopicPartition
from odradek.testing.checker import FSYNC, RetentionRule
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.process import DelayRanges
from odradek.testing.scheduler import MS
from odradek.testing.transport import Link
from odradek.testing.workload.producer import ProducerPlan
from odradek.testing.workload.reader import ReaderPlan
from odradek.testing.workload.topics import TopicPlan
from odradek.testing.workload.transaction_clients import (
    NO_TRANSACTIONS,
    TransactionsPlan,
    draw_transactions,
)
from odradek.testing.workload.transaction_levels import draw_levels
from odradek.testing.workload.trimmer import TrimmerPlan

if TYPE_CHECKING:
    from odradek.testing.engines.plans import EnginesPlan
    from odradek.testing.engines.transaction_plans import TransactionEnginesPlan
    from odradek.testing.workload.operator import OperatorAction


FAULTS = (
    "kill",
    "power loss",
    "crash point",
    "power loss at a crash point",
    "power loss after an ack",
    "cut",
    "half open",
    "stall",
    "pause",
    "slow disk",
    "fsync error",
    "read error",
    "write error",
    "disk full",
    "clock jump",
)
MACHINE_FAULTS = (*FAULTS, "stop", "owner stall", "clock drift")
"""The faults of a machine among several."""
LINK_FAULTS = (
    "split",
    "one-way",
    "mute",
    "deaf",
    "bridge",
    "ring",
    "client cut",
    "flapping",
    "swizzle",
    "slow links",
    "breaking links",
    "half-open links",
)
"""The faults of the ways between several machines: see `testing.link_faults`."""
CLUSTER_FAULTS = (
    "rolling restart",
    "lost disk",
    "controller killed",
    "controller paused",
    "majority killed",
    "power cut",
    "swapped majorities",
)
"""The faults of a cluster of real brokers: see `testing.cluster_faults`."""
DEAD_IN_A_POWER_CUT = "dead in a power cut"
"""The fate of a machine that does not come back when all have lost their power at once."""
POWER = "power loss at a crash point"
HARD_FAULTS = (POWER, POWER, POWER, POWER, "power loss", "power loss", "power loss after an ack")
SIZES = (
    ((1, 40), (1 << 12, 1 << 14, 1 << 20)),
    ((100, 600), (1 << 14, 1 << 15, 1 << 20)),
    ((500, 2500), (1 << 16, 1 << 18, 1 << 20)),
)
"""Sizes of values, and of segments that hold a batch of twenty values, in bytes."""
CODECS = (0, 0, 0, 1, 2, 3, 4)
PRODUCE_VERSIONS = (7, 9, 12, 13)
"""Versions from the first that supports zstd."""
FETCH_VERSIONS = (10, 11, 12, 13, 17)
"""Versions from the first that can return zstd."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A fault: time, kind, length (or the time the broker stays down), and a random number."""

    at_ns: int
    kind: str
    length_ns: int
    number: int
    machine: int = 1
    """The machine that it hits; a fault of links hits what its number decides."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a machine outside the core, for ever: a kind of `testing.link_faults`, or
    `DEAD_IN_A_POWER_CUT`.
    """

    at_ns: int
    """From when on; in a cluster from when it is whole."""
    machine: int
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything a seed decides before the run begins."""

    durability: str
    settings: dict[str, str]
    topics: Sequence[TopicPlan]
    producers: Sequence[ProducerPlan]
    readers: Sequence[ReaderPlan]
    faults: Sequence[FaultPlan]
    link: Link
    pace: DelayRanges
    heal_ns: int
    recreated: Sequence[TopicPlan] = ()
    """Topics that are deleted and created again."""
    trimmers: Sequence[TrimmerPlan] = ()
    sessions: bool = False
    """Final readers use incremental fetch sessions."""
    machines: int = 1
    voters: int = 0
    """So many of the machines vote in the quorum; 0: all."""
    recorded_voters: bool = False
    """The voters are in the metadata log (KIP-853): machine 1 begins alone, the others join it."""
    operations: Sequence[OperatorAction] = ()
    """What an operator of the cluster asks for."""
    fates: Sequence[Fate] = ()
    engines: EnginesPlan | None = None
    """Applications of our own clients: see `testing.engines`."""
    transactions: TransactionsPlan = NO_TRANSACTIONS
    transaction_engines: TransactionEnginesPlan | None = None
    """Applications of our own clients in transactions: see `testing.engines.transaction_plans`."""

    def forgetful(self) -> set[str]:
        """Return the topics whose records may be deleted."""
        return {topic.name for topic in self.topics if topic.retention or topic.trimmed}

    def parts(self) -> list[str]:
        """Return the names of the optional parts: faults and clients."""
        engines = self.engines.parts() if self.engines else []
        engines += self.transaction_engines.parts() if self.transaction_engines else []
        return [
            *(f"fault{n}" for n in range(len(self.faults))),
            *(producer.name for producer in self.producers),
            *(reader.name for reader in self.readers),
            *(trimmer.name for trimmer in self.trimmers),
            *(topic.name for topic in self.recreated),
            *(f"operation{n}" for n in range(len(self.operations))),
            *(f"fate{n}" for n in range(len(self.fates))),
            *self.transactions.parts(),
            *engines,
        ]

    def keeping(self, parts: Sequence[str]) -> Schedule:
        """Return the schedule with these of its optional parts only."""
        return replace(
            self,
            faults=[fault for n, fault in enumerate(self.faults) if f"fault{n}" in parts],
            producers=[each for each in self.producers if each.name in parts],
            readers=[each for each in self.readers if each.name in parts],
            trimmers=[each for each in self.trimmers if each.name in parts],
            recreated=[each for each in self.recreated if each.name in parts],
            operations=[each for n, each in enumerate(self.operations) if f"operation{n}" in parts],
            fates=[fate for n, fate in enumerate(self.fates) if f"fate{n}" in parts],
            transactions=self.transactions.keeping(parts),
            engines=self.engines.keeping(parts) if self.engines else None,
            transaction_engines=(
                self.transaction_engines.keeping(parts) if self.transaction_engines else None
            ),
        )

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(t.name, p) for t in self.topics for p in range(t.partitions)]


def draw_schedule(seed: int, steps: int, faults: Sequence[str] = ()) -> Schedule:
    """Draw the schedule of a seed with about `steps` batches to produce.

    `faults` restricts the kinds of faults; empty: those of the swarm.
    """
    chance = stream(seed, "schedule")
    durability = chance.pick(("fsync", "fsync", "fsync", "os"))
    values, segments = chance.pick(SIZES)
    count = chance.between(1, 3)
    topics = [draw_topic(chance, f"topic{number}", segments) for number in range(count)]
    partitions = [TopicPartition(t.name, p) for t in topics for p in range(t.partitions)]
    horizon_ns = 1_000 * MS + steps * 60 * MS
    producers = draw_producers(chance, partitions, steps, horizon_ns // MS, values)
    plans = draw_faults(chance, horizon_ns, faults)
    return Schedule(
        durability=durability,
        settings={"log.durability": durability},
        topics=topics,
        producers=producers,
        readers=[draw_reader(chance, f"reader{n}", partitions) for n in range(chance.below(3))],
        faults=plans,
        link=draw_link(chance),
        pace=draw_pace(chance),
        heal_ns=max([horizon_ns, *(fault.at_ns + fault.length_ns for fault in plans)]) + 100 * MS,
    )


def draw_topic(chance: SplitMix64, name: str, segments: Sequence[int]) -> TopicPlan:
    settings = (
        ("internal.segment.bytes", str(chance.pick(segments))),
        ("index.interval.bytes", str(chance.pick((0, 512, 4096)))),
    )
    return TopicPlan(name, chance.between(1, 3), settings)


def draw_producers(
    chance: SplitMix64,
    partitions: list[TopicPartition],
    steps: int,
    horizon_ms: int,
    values: tuple[int, int],
) -> list[ProducerPlan]:
    count = chance.between(1, 4)
    batches = -(-steps // count)
    plans = []
    for number in range(count):
        idempotent = chance.chance(600)
        burst_rate = chance.pick((0, 500, 900))
        mine = [tp for tp in partitions if chance.chance(600)] or partitions
        plans.append(
            ProducerPlan(
                name=f"producer{number}",
                partitions=mine,
                batches=batches,
                acks=-1 if idempotent else chance.pick((-1, -1, 1, 0)),
                idempotent=idempotent,
                max_in_flight=chance.between(1, 5) if idempotent else chance.pick((1, 1, 3)),
                max_attempts=chance.pick((1, 3, 50)),
                max_records=chance.pick((1, 5, 20)),
                value_bytes=values,
                codec=chance.pick(CODECS),
                version=chance.pick(PRODUCE_VERSIONS),
                pause_ms=(1, max(2, 2 * horizon_ms * 1000 // (batches * (1000 - burst_rate)))),
                burst_rate=burst_rate,
            )
        )
    return plans


def draw_reader(
    chance: SplitMix64, name: str, partitions: list[TopicPartition], *, final: bool = False
) -> ReaderPlan:
    return ReaderPlan(
        name=name,
        partitions=partitions if final else [tp for tp in partitions if chance.chance(700)],
        version=chance.pick(FETCH_VERSIONS),
        max_wait_ms=chance.pick((0, 100, 500)),
        min_bytes=chance.pick((0, 1, 1, 1000)),
        max_bytes=chance.pick((1, 16_384, 1 << 20)),
        partition_max_bytes=chance.pick((1, 4096, 1 << 20)),
        pause_ms=chance.pick(((0, 30), (1, 200))),
        final=final,
    )


def draw_faults(chance: SplitMix64, horizon_ns: int, only: Sequence[str] = ()) -> list[FaultPlan]:
    if chance.chance(60):
        return []
    kinds = [chance.pick(FAULTS + HARD_FAULTS) for _ in range(chance.between(1, 4))]
    kinds = list(only) or kinds
    plans: list[FaultPlan] = []
    for _ in range(chance.between(1, 10)):
        at_ns = chance.between(50 * MS, horizon_ns)
        if plans and chance.chance(400):
            # Close together: the next fault meets the half-done work of the one before.
            at_ns = plans[-1].at_ns + plans[-1].length_ns + chance.between(0, 200) * MS
        length_ns = chance.between(1, chance.pick((20, 200, 4000))) * MS
        plans.append(FaultPlan(at_ns, chance.pick(kinds), length_ns, chance.below(1 << 30)))
    return sorted(plans, key=lambda plan: (plan.at_ns, plan.number))


def draw_machine_faults(
    chance: SplitMix64, horizon_ns: int, machines: int, only: Sequence[str] = ()
) -> list[FaultPlan]:
    """Draw the faults of several machines and of the links between them.

    A seed draws a few kinds. Now and then all machines are hit at once, as by a power failure.
    """
    if chance.chance(60):
        return []
    known = MACHINE_FAULTS + LINK_FAULTS
    if only and not any(kind in known for kind in only):
        return []
    several = LINK_FAULTS if machines > 1 else ("cut",)
    kinds = [chance.pick(MACHINE_FAULTS + HARD_FAULTS) for _ in range(chance.between(1, 3))]
    kinds += [chance.pick(several) for _ in range(chance.between(0, 3))]
    kinds = [kind for kind in only if kind in known] or kinds
    plans: list[FaultPlan] = []
    for _ in range(chance.between(1, 14)):
        at_ns = chance.between(50 * MS, horizon_ns)
        if plans and chance.chance(400):
            at_ns = plans[-1].at_ns + chance.between(0, 500) * MS
        length_ns = chance.between(1, chance.pick((200, 2_000, 6_000))) * MS
        kind, number = chance.pick(kinds), chance.below(1 << 30)
        hit = [chance.between(1, machines)]
        if kind not in LINK_FAULTS and chance.chance(100):
            hit = list(range(1, machines + 1))
        plans += [FaultPlan(at_ns, kind, length_ns, number + one, one) for one in hit]
    return sorted(plans, key=lambda plan: (plan.at_ns, plan.number))


def with_machines(seed: int, base: Schedule, machines: int, only: Sequence[str] = ()) -> Schedule:
    """Put the schedule's brokers on several machines, with the faults of these."""
    chance = stream(seed, "schedule/machines")
    faults = draw_machine_faults(chance, base.heal_ns, machines, only)
    ends = [fault.at_ns + fault.length_ns for fault in faults]
    replicas = min(3, machines)
    return replace(
        base,
        machines=machines,
        topics=[replace(topic, replicas=replicas) for topic in base.topics],
        recreated=[replace(topic, replicas=replicas) for topic in base.recreated],
        faults=faults,
        heal_ns=max([base.heal_ns, *ends]) + 100 * MS,
    )


def draw_link(chance: SplitMix64) -> Link:
    return Link(
        latency_ns=chance.pick(((20_000, 200_000), (50_000, 2_000_000))),
        slow_rate=chance.pick((0, 20, 150)),
        slow_latency_ns=(1_000_000, chance.pick((20, 300, 1500)) * MS),
        capacity=chance.pick((1_500, 16_384, 65_536, 1 << 20)),
        chop_rate=chance.pick((0, 100, 600)),
    )


def draw_pace(chance: SplitMix64) -> DelayRanges:
    return DelayRanges(
        delay_ns=chance.pick(((10_000, 300_000), (100_000, 8_000_000), (5_000_000, 30_000_000))),
        slow_delay_ns=(5_000_000, chance.pick((30, 200, 900)) * MS),
        slow_rate=chance.pick((0, 50, 200)),
    )


def with_transactions(seed: int, base: Schedule, steps: int) -> Schedule:
    """Add transactional clients to the schedule, with topics of their own.

    What they rely on must not be lost: so acknowledgements are on disk, and no bit flips there.
    """
    chance = stream(seed, "schedule/transactions")
    apart = stream(seed, "schedule/transactions/levels")
    settings = {
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(min(3, base.machines)),
        "transaction.state.log.min.isr": base.settings.get("min.insync.replicas", "1"),
    }
    return replace(
        base,
        durability=FSYNC,
        settings=base.settings | settings | {"log.durability": FSYNC},
        faults=[fault for fault in base.faults if fault.kind != "bit flip"],
        transactions=replace(
            draw_transactions(chance, base.topics, steps),
            levels=draw_levels(apart, base.heal_ns),
            watches_offsets=apart.chance(400),
        ),
    )


STOPS = ("stop", "stop and unplug")
FLIPS = ("bit flip", "index bit flip")
EXTRA_FAULTS = (*STOPS, *STOPS, "client crash", *FLIPS, "bit flip", "bit flip")
"""Bit flips are frequent because only bytes that recovery reads are flipped."""
SEGMENTS = (1 << 12, 1 << 14, 1 << 16)
RETENTION_CHECK_MS = 300
LIFE_FETCH_VERSIONS = (13, 17)
"""Versions with topic ids, so that a request cannot reach another life."""


def with_extras(seed: int, base: Schedule, only: Sequence[str] = ()) -> Schedule:
    """Add the seed's extras to the schedule. `only`: these kinds of faults only."""
    chance = stream(seed, "schedule/extras")
    horizon_ns = base.heal_ns
    topics = list(base.topics)
    if chance.chance(400):
        topics[0] = with_retention(chance, topics[0])
    if chance.chance(400):
        topics[-1] = replace(topics[-1], trimmed=True)
    faults = list(base.faults)
    if chance.chance(600):
        faults += draw_faults(chance, horizon_ns, only or EXTRA_FAULTS)[:4]
    forgetful = sorted(replace(base, topics=topics).forgetful())
    readers = [
        replace(reader, forgetful=bool(forgetful), sessions=chance.chance(500))
        for reader in base.readers
    ]
    ends = [fault.at_ns + fault.length_ns for fault in faults]
    return replace(
        base,
        settings=base.settings | {"log.retention.check.interval.ms": str(RETENTION_CHECK_MS)},
        topics=topics,
        producers=[replace(producer, forgetful=forgetful) for producer in base.producers],
        readers=readers,
        trimmers=[
            TrimmerPlan(f"trimmer-{topic.name}", partitions_of(topic))
            for topic in topics
            if topic.trimmed
        ],
        recreated=[draw_recreated(chance, horizon_ns // MS)] if chance.chance(400) else [],
        faults=sorted(faults, key=lambda plan: (plan.at_ns, plan.number)),
        sessions=chance.chance(500),
        heal_ns=max([base.heal_ns, *ends]) + 100 * MS,
    )


def partitions_of(topic: TopicPlan) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(topic.partitions)]


def with_retention(chance: SplitMix64, topic: TopicPlan) -> TopicPlan:
    """Add retention and small segments to a topic."""
    segment_bytes = chance.pick(SEGMENTS)
    settings = dict(topic.settings) | {
        "internal.segment.bytes": str(max(segment_bytes, int(dict(topic.settings)[SEGMENT_BYTES]))),
        "file.delete.delay.ms": str(chance.pick((0, 50, 2000))),
    }
    rule = RetentionRule(segment_bytes=int(settings[SEGMENT_BYTES]))
    if chance.chance(600):
        rule = replace(rule, ms=chance.pick((500, 1500, 4000)))
        settings["retention.ms"] = str(rule.ms)
    else:
        rule = replace(rule, bytes=chance.pick((0, 1, 3)) * rule.segment_bytes)
        settings["retention.bytes"] = str(rule.bytes)
        settings["retention.ms"] = "-1"
    return replace(topic, settings=tuple(settings.items()), retention=rule)


SEGMENT_BYTES = "internal.segment.bytes"


def draw_recreated(chance: SplitMix64, horizon_ms: int) -> TopicPlan:
    topic = draw_topic(chance, "mortal", SEGMENTS)
    count = chance.between(1, 3)
    spans = tuple(chance.between(50, horizon_ms // count) for _ in range(count))
    return replace(topic, spans_ms=spans)


def draw_life(
    chance: SplitMix64, label: str, partitions: Sequence[TopicPartition]
) -> tuple[ProducerPlan, ReaderPlan]:
    """Draw the clients of one life of a topic."""
    idempotent = chance.chance(600)
    producer = ProducerPlan(
        name=f"producer-{label}",
        partitions=partitions,
        batches=chance.between(5, 30),
        acks=-1 if idempotent else chance.pick((-1, 1)),
        idempotent=idempotent,
        max_in_flight=chance.between(1, 5) if idempotent else 1,
        codec=chance.pick(CODECS),
        version=13,
    )
    reader = ReaderPlan(
        name=f"reader-{label}",
        partitions=partitions,
        version=chance.pick(LIFE_FETCH_VERSIONS),
        sessions=chance.chance(500),
    )
    return producer, reader
