"""The schedule of a cluster of real brokers, on top of that of their clients and machines.

A seed decides how many nodes there are, which of them vote, whether the voters are configured or
recorded in the metadata log, how many replicas topics have and how many of them an acknowledgement
needs, how soon a silent broker is fenced; what an operator does meanwhile; and how it ends:

    healed    every fault ends. Then all partitions must be led, all replicas in sync, all work done
    lasting   the same, and then one machine (of five perhaps two) is disturbed for ever, or does
              not come back after the power of all has failed at once. The others must go on: new
              topics, acknowledgements of all in-sync replicas, and reads

What is destroyed is never more than was promised to survive: a disk is lost for good only while all
replicas are in sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odradek.testing.checker import FSYNC
from odradek.testing.link_faults import FATES
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.scheduler import MS
from odradek.testing.workload.operator import OperatorAction
from odradek.testing.workload.schedule import (
    CLUSTER_FAULTS,
    DEAD_IN_A_POWER_CUT,
    Fate,
    FaultPlan,
    Schedule,
    with_machines,
)
from odradek.testing.workload.topics import TopicPlan

MACHINES = (3, 3, 3, 3, 2, 4, 5)
OPERATIONS = ("reassign", "reassign", "elect", "voter")
CLIENT_CRASH = "client crash"
MIN_ISR = "min.insync.replicas"


def with_cluster(
    seed: int, base: Schedule, machines: int = 0, only: Sequence[str] = ()
) -> Schedule:
    """Put the schedule's brokers into a cluster; `machines` 0: as many as the seed decides.
    `only`: these kinds of faults only.
    """
    chance = stream(seed, "schedule/cluster")
    count = chance.pick(MACHINES)
    count = machines or count
    lasting = count > 2 and chance.chance(300)
    base = with_machines(seed, base, count, only)
    horizon_ns = base.heal_ns
    recorded = chance.chance(400)
    topics = [with_replicas(chance, topic, count, lasting=lasting) for topic in base.topics]
    faults = [*base.faults, *draw_cluster_faults(chance, horizon_ns, count, recorded, only)]
    ends = [fault.at_ns + fault.length_ns for fault in faults]
    settings = draw_settings(chance, count)
    return replace(
        base,
        settings=base.settings | settings,
        topics=topics,
        recreated=[with_replicas(chance, each, count, lasting=lasting) for each in base.recreated],
        faults=sorted(faults, key=lambda plan: (plan.at_ns, plan.number)),
        heal_ns=max([horizon_ns, *ends]) + 100 * MS,
        # A core must have a majority of the voters.
        voters=count if count <= 3 or lasting else chance.pick((3, count)),
        recorded_voters=recorded,
        operations=draw_operations(chance, horizon_ns, voters=recorded and not lasting),
        fates=with_power_cut(
            seed, base.durability, settings, draw_fates(chance, count, int(settings[MIN_ISR]))
        )
        if lasting
        else (),
    )


BRIEF_NS = 2_500 * MS
BRIEF_PAUSE_MS = 600
BRIEF_SETTINGS = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 400,
    "controller.quorum.fetch.timeout.ms": 600,
    "controller.quorum.election.timeout.ms": 300,
    "controller.quorum.election.backoff.max.ms": 200,
}


def in_brief(seed: int, plan: Schedule) -> Schedule:
    """Return the schedule with its faults and operations compressed to the first seconds, with
    clients that pause briefly, and settings by which a cluster notices faults of such lengths.
    """
    chance = stream(seed, "schedule/brief")
    ends = [fault.at_ns + fault.length_ns for fault in plan.faults]
    span_ns = max([BRIEF_NS, *ends, *(each.at_ns for each in plan.operations)])

    def scaled(time_ns: int) -> int:
        return time_ns * BRIEF_NS // span_ns

    levels = plan.transactions.levels
    settings = BRIEF_SETTINGS | {"replica.lag.time.max.ms": chance.pick((700, 1_500, 5_000))}
    return replace(
        plan,
        settings=plan.settings | {name: str(value) for name, value in settings.items()},
        producers=[
            replace(each, pause_ms=(1, min(each.pause_ms[1], BRIEF_PAUSE_MS)))
            for each in plan.producers
        ],
        recreated=plan.recreated if chance.chance(300) else (),
        faults=[
            replace(each, at_ns=scaled(each.at_ns), length_ns=scaled(each.length_ns))
            for each in plan.faults
        ],
        operations=[replace(each, at_ns=scaled(each.at_ns)) for each in plan.operations],
        transactions=replace(
            plan.transactions,
            levels=replace(
                levels,
                changes=[replace(each, after_ns=scaled(each.after_ns)) for each in levels.changes],
            ),
        ),
        heal_ns=BRIEF_NS + 100 * MS,
    )


def with_replicas(
    chance: SplitMix64, topic: TopicPlan, machines: int, *, lasting: bool
) -> TopicPlan:
    """Draw how many replicas a topic has; three if one machine may be lost for ever."""
    drawn = chance.pick((3, 3, 3, 3, 2, 1))
    return replace(topic, replicas=min(machines, 3 if lasting else drawn))


def draw_settings(chance: SplitMix64, machines: int) -> dict[str, str]:
    """Draw the settings that all nodes have."""
    session_ms = chance.pick((1_500, 4_000, 9_000))
    fetch_ms = chance.pick((600, 2_000))
    settings = {
        MIN_ISR: str(min(machines, chance.pick((1, 2, 2)))),
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": str(min(3, machines)),
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // chance.pick((3, 5))),
        "controller.quorum.fetch.timeout.ms": str(fetch_ms),
        "controller.quorum.election.timeout.ms": str(chance.pick((300, 1_000))),
        "controller.quorum.election.backoff.max.ms": str(chance.pick((200, 1_000))),
    }
    if chance.chance(400):
        between = chance.pick((1_000, 5_000))
        settings["metadata.log.max.record.bytes.between.snapshots"] = str(between)
    return settings


def draw_cluster_faults(
    chance: SplitMix64, horizon_ns: int, machines: int, recorded: bool, only: Sequence[str]
) -> list[FaultPlan]:
    """Draw faults of the whole cluster, and crashes of clients."""
    kinds = [kind for kind in (*CLUSTER_FAULTS, CLIENT_CRASH) if not only or kind in only]
    plans = []
    for kind in kinds:
        rate = 1000 if only else 100
        for _ in range(chance.between(1, 2) if chance.chance(rate) else 0):
            at_ns = chance.between(50 * MS, horizon_ns)
            # Machine 1 of a cluster that it began would begin another one with an empty disk.
            first = 2 if kind == "lost disk" and recorded else 1
            if kind == "lost disk" and machines < 3:
                continue
            plans.append(
                FaultPlan(
                    at_ns,
                    kind,
                    chance.between(100, 3_000) * MS,
                    chance.below(1 << 30),
                    chance.between(first, machines),
                )
            )
    return plans


def draw_operations(chance: SplitMix64, horizon_ns: int, *, voters: bool) -> list[OperatorAction]:
    """Draw what the operator does; `voters`: they may change."""
    count = chance.pick((0, 0, 1, 3, 6))
    drawn = [
        OperatorAction(
            chance.between(200 * MS, horizon_ns), chance.pick(OPERATIONS), chance.below(1 << 30)
        )
        for _ in range(count)
    ]
    usable = [each for each in drawn if voters or each.kind != "voter"]
    return sorted(usable, key=lambda each: each.at_ns)


def draw_fates(chance: SplitMix64, machines: int, min_isr: int) -> list[Fate]:
    """Draw the machines outside the core, and what becomes of them: two only if one of the three
    replicas is enough.
    """
    numbers = list(range(1, machines + 1))
    chance.shuffle(numbers)
    count = chance.between(1, 2) if machines == 5 and min_isr == 1 else 1
    return [
        Fate(0, number, chance.pick(FATES), chance.below(1 << 30)) for number in numbers[:count]
    ]


def with_power_cut(
    seed: int, durability: str, settings: dict[str, str], fates: list[Fate]
) -> list[Fate]:
    """Draw if the machine outside the core is lost in a power cut. Not if one replica in sync is
    enough for an acknowledgement: then it may be the one that is lost.
    """
    chance = stream(seed, "schedule/power cut")
    if durability == FSYNC and int(settings[MIN_ISR]) > 1 and chance.chance(400):
        return [replace(fate, kind=DEAD_IN_A_POWER_CUT) for fate in fates]
    return fates
