"""What a seed's run is: swarm testing.

Every seed draws not only random events but which *kinds* of things occur at all: how many clients
of which sort, how the network and the disk behave, which faults from the list and how many. A run
with everything in it would bury the rare combination (a slow disk and nothing else; kills but a
perfect network) that breaks things.

Faults come one after another with quiet stretches between them; after the last one everything
heals, and what the clients still want must then come to an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.model.topics import TopicPartition
from odradek.testing.offload import Pace
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.scheduler import MS
from odradek.testing.transport import Link
from odradek.testing.workload.lanes import ProducerPlan
from odradek.testing.workload.reader import ReaderPlan
from odradek.testing.workload.topics import TopicPlan
from odradek.testing.workload.trimmer import TrimmerPlan

if TYPE_CHECKING:
    from odradek.testing.engines.plans import EnginesPlan

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
POWER = "power loss at a crash point"
HARD_FAULTS = (POWER, POWER, POWER, POWER, "power loss", "power loss", "power loss after an ack")
SIZES = (
    ((1, 40), (1 << 12, 1 << 14, 1 << 20)),
    ((100, 600), (1 << 14, 1 << 15, 1 << 20)),
    ((500, 2500), (1 << 16, 1 << 18, 1 << 20)),
)
"""Sizes of values, and of segments that hold a batch of twenty of them. In bytes."""
CODECS = (0, 0, 0, 1, 2, 3, 4)
PRODUCE_VERSIONS = (7, 9, 12, 13)
"""From the first that knows zstd."""
FETCH_VERSIONS = (10, 11, 12, 13, 17)
"""From the first that may be given zstd."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A fault: when, which kind, how long (or for how long the broker stays down), a number."""

    at_ns: int
    kind: str
    length_ns: int
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
    pace: Pace
    heal_ns: int
    mortal: Sequence[TopicPlan] = ()
    """Topics that are deleted and made again."""
    trimmers: Sequence[TrimmerPlan] = ()
    sessions: bool = False
    """Final readers use incremental fetch sessions."""
    engines: EnginesPlan | None = None
    """Applications of our own clients: see `testing.engines`."""

    def forgetful(self) -> set[str]:
        """The topics whose records may go."""
        return {topic.name for topic in self.topics if topic.retention or topic.trimmed}

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(t.name, p) for t in self.topics for p in range(t.partitions)]


def draw_schedule(seed: int, steps: int, faults: Sequence[str] = ()) -> Schedule:
    """The schedule of a seed with about `steps` batches to produce.

    `faults` restricts the kinds of faults, to look closely at something; none: those of the swarm.
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
            # Trouble seldom comes alone: what one fault left half-done meets the next.
            at_ns = plans[-1].at_ns + plans[-1].length_ns + chance.between(0, 200) * MS
        length_ns = chance.between(1, chance.pick((20, 200, 4000))) * MS
        plans.append(FaultPlan(at_ns, chance.pick(kinds), length_ns, chance.below(1 << 30)))
    return sorted(plans, key=lambda plan: (plan.at_ns, plan.number))


def draw_link(chance: SplitMix64) -> Link:
    return Link(
        latency_ns=chance.pick(((20_000, 200_000), (50_000, 2_000_000))),
        slow_rate=chance.pick((0, 20, 150)),
        slow_latency_ns=(1_000_000, chance.pick((20, 300, 1500)) * MS),
        capacity=chance.pick((1_500, 16_384, 65_536, 1 << 20)),
        chop_rate=chance.pick((0, 100, 600)),
    )


def draw_pace(chance: SplitMix64) -> Pace:
    return Pace(
        delay_ns=chance.pick(((10_000, 300_000), (100_000, 8_000_000), (5_000_000, 30_000_000))),
        slow_delay_ns=(5_000_000, chance.pick((30, 200, 900)) * MS),
        slow_rate=chance.pick((0, 50, 200)),
    )
