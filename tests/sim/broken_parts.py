"""Broken parts of brokers, and how many seeds of the simulator it takes to find each.

    PYTHONPATH=tests python -m sim.broken_parts [--seeds 50] [NAME ...]

prints the table: the seeds that were needed, counted from seed 0, the processor time, and the rule
that found the part. Each part is put in by the wiring: a function patches the real code, and worlds
of one seed after the other run until one has a violation. An exception in a broker does not count:
the rules have to see what is wrong. If a part is not found, the simulator misses violations: check
workload, faults and rules first.

The faults of a part's worlds are a plan that gives it an opportunity; the seed decides all else.
`seed` is one that finds it, with which the tests begin. A change of the code may move it: the
command shows the new one. Parts of transactions have worlds with transactional clients alone.

A compiled method cannot be replaced, so most parts need `ODRADEK_INTERPRETED=1`, which the command
sets.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest

if __name__ == "__main__":
    os.environ["ODRADEK_INTERPRETED"] = "1"

from odradek import leaves
from odradek.log import recovery, scan
from odradek.model.env import File
from odradek.testing.machine import Wiring, real_broker
from odradek.testing.process import DelayRanges
from odradek.testing.quorum.quorum_world import QuorumWorld
from odradek.testing.scheduler import MS
from odradek.testing.sim import run_seed
from odradek.testing.workload.cluster_schedule import MIN_ISR
from odradek.testing.workload.operator import OperatorAction
from odradek.testing.workload.schedule import Fate, FaultPlan, Schedule
from odradek.testing.workload.transaction_levels import NEWEST_LEVEL, LevelsPlan
from odradek.testing.world import World
from sim import (
    broken_controllers,
    broken_leaves,
    broken_replicas,
    broken_transaction_logs,
    broken_transactions,
)
from sim.test_broken_parts import EagerOffload, NoProducerEntries, acks_before_fsync
from sim.test_quorum_worlds import BROKEN as BROKEN_QUORUMS

Patch = Callable[[pytest.MonkeyPatch], None]
Make = Callable[[int], Any]
STEPS = 30
PATCHES_LEAVES = pytest.mark.skipif(
    leaves.mode() == "compiled",
    reason="compiled code cannot be replaced: `scripts.all_tests` runs this interpreted",
)
"""Marks tests of parts whose patches replace functions or methods of leaves."""
MOST_SEEDS = 50


@dataclass(frozen=True, slots=True)
class BrokenPart:
    """A patch, the worlds that expose it, and a seed of one that does."""

    name: str
    patch: Patch
    world: Make
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Detection:
    """What found a broken part."""

    seed: int
    seeds: int
    violation: str
    seconds: float


def find(part: BrokenPart, first: int = 0, most_seeds: int = MOST_SEEDS) -> Detection | None:
    """Run worlds with this part until one has a violation; None if none has."""
    began = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        part.patch(patch)
        for seed in range(first, first + most_seeds):
            report = run_seed(part.world(seed)).report
            if report is not None and report.violations:
                took = time.process_time() - began
                return Detection(seed, seed - first + 1, report.violations[0], took)
    return None


# Plans.


def at(ms: int, kind: str, length_ms: int, machine: int = 1) -> FaultPlan:
    return FaultPlan(ms * MS, kind, length_ms * MS, ms, machine)


def in_turn(kind: str, length_ms: int, every_ms: int, count: int = 3) -> list[FaultPlan]:
    """Return faults that hit one machine after the other, once the clients work."""
    return [at(1_500 + every_ms * n, kind, length_ms, n % 3 + 1) for n in range(count)]


def again(
    kind: str, length_ms: int, every_ms: int, count: int, first_ms: int = 1_500
) -> list[FaultPlan]:
    """Return faults of one machine. Their numbers let client crashes hit transactional producers,
    which nobody replaces.
    """
    return [
        replace(at(first_ms + every_ms * n, kind, length_ms), number=1 + 10 * n)
        for n in range(count)
    ]


CRASHES = in_turn("kill", 500, 1_200)
MUTES = in_turn("mute", 2_200, 2_600)
"""Longer than a session: what a mute leader appends, nobody has when another one is elected."""
LAGS = in_turn("pause", 1_300, 1_800)
"""Longer than a follower may lag, shorter than a session."""
ONE_AFTER_THE_OTHER = (at(1_500, "kill", 1_500, 1), at(2_700, "kill", 2_500, 2))
"""The last one in sync dies before the other one is back."""
LOST_DISKS = (
    *(at(1_500, "lost disk", 300, 2), at(1_600, "kill", 700, 1)),
    *(at(6_000, "lost disk", 300, 3), at(6_100, "kill", 700, 1)),
)
"""The one that could elect another leader dies before the empty one is back."""
SLOW_DISKS = DelayRanges(
    delay_ns=(10 * MS, 60 * MS), slow_delay_ns=(100 * MS, 300 * MS), slow_rate=100
)

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
CLUSTER_OF_THREE = {
    "replica.lag.time.max.ms": "700",
    MIN_ISR: "2",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
}
NO_VERIFICATION = {"transaction.partition.verification.enable": "false"}
KILLS = again("kill", 300, 700, 4)
STOPS = again("stop", 300, 700, 4)
STALLS = again("stall", 2_600, 1_500, 8, first_ms=500)
"""Most clients lose patience with a stalled connection, and what they sent arrives later."""
POWER_AFTER_COMMITS = again("power loss after an ack", 300, 700, 4)
LOST_CLIENTS = again("client crash", 1, 300, 4)


def cluster(
    *faults: FaultPlan,
    replicas: int = 3,
    min_isr: int = 2,
    pace: DelayRanges | None = None,
    operations: Sequence[str] = (),
    dies: bool = False,
    recorded_voters: bool = False,
    wire: Callable[[Schedule], Wiring] = real_broker,
) -> Make:
    """Return what makes clusters of three whose producers work on all partitions throughout the
    faults, with `acks=all`. `dies`: a machine is lost for ever.
    """

    def adjust(plan: Schedule) -> Schedule:
        ends = [fault.at_ns + fault.length_ns for fault in faults]
        partitions = [each for producer in plan.producers for each in producer.partitions]
        return replace(
            plan,
            durability="fsync",
            settings={
                **plan.settings,
                "log.durability": "fsync",
                "replica.lag.time.max.ms": "700",
                MIN_ISR: str(min_isr),
            },
            topics=[replace(each, replicas=replicas) for each in plan.topics],
            producers=[
                replace(each, partitions=list(dict.fromkeys(partitions)), acks=-1)
                for each in plan.producers
            ],
            recreated=(),
            voters=3 if recorded_voters else 0,
            recorded_voters=recorded_voters,
            faults=faults,
            operations=[
                OperatorAction((1_500 + 300 * n) * MS, kind, 7 * n + 1)
                for n, kind in enumerate(operations)
            ],
            pace=pace or plan.pace,
            fates=[Fate(0, 3, "dead", 1)] if dies else (),
            heal_ns=max([2_500 * MS, *ends]) + 100 * MS,
        )

    return lambda seed: World(seed, STEPS, wire, brokers=3, brief=True, extras=False, adjust=adjust)


def eager(plan: Schedule) -> Wiring:
    return replace(real_broker(plan), offload=EagerOffload)


def transactional(
    *faults: FaultPlan,
    brokers: int = 1,
    steps: int = 60,
    version: int = 0,
    pause_ms: tuple[int, int] = (0, 30),
    abort_rate: int = 200,
    linger_rate: int = 50,
    give_up_rate: int = 300,
    timeout_ms: int = 1_500,
    pace: DelayRanges | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
    levels: LevelsPlan = NEWEST_LEVEL,
    watches_offsets: bool = False,
) -> Make:
    """Return what makes one broker, or a cluster of three, whose clients are transactional
    producers, and two readers of what they commit. Rates: as of `TransactionalProducerPlan`.
    `version`: of all producers; 0: as drawn. `levels`: of the cluster.
    """

    def adjust(plan: Schedule) -> Schedule:
        ends = [fault.at_ns + fault.length_ns for fault in faults]
        clients = plan.transactions
        producers = [
            replace(
                each,
                version=version or each.version,
                pause_ms=pause_ms,
                abort_rate=abort_rate,
                linger_rate=linger_rate,
                give_up_rate=give_up_rate,
                timeout_ms=timeout_ms,
            )
            for each in clients.producers
        ]
        topics = [replace(each, replicas=min(3, brokers)) for each in clients.topics]
        of_cluster = CLUSTER_OF_THREE if brokers > 1 else {}
        return replace(
            plan,
            settings={**plan.settings, **of_cluster, **settings},
            producers=(),
            readers=(),
            trimmers=(),
            recreated=(),
            voters=0,
            recorded_voters=False,
            operations=(),
            fates=(),
            faults=faults,
            pace=pace or plan.pace,
            transactions=replace(
                clients,
                topics=topics,
                producers=producers,
                readers=2,
                levels=levels,
                watches_offsets=watches_offsets,
            ),
            heal_ns=max([2_500 * MS, *ends]) + 100 * MS,
        )

    return lambda seed: World(
        seed,
        steps,
        extras=False,
        brokers=brokers,
        brief=brokers > 1,
        transactions=True,
        adjust=adjust,
    )


def stalled(*, give_up_rate: int, settings: Mapping[str, str] = NO_SETTINGS) -> Make:
    """Return what makes brokers that get requests of version 1 long after their clients went on."""
    return transactional(
        *STALLS,
        steps=200,
        version=1,
        pause_ms=(0, 100),
        give_up_rate=give_up_rate,
        timeout_ms=8_000,
        settings=settings,
    )


def alone(*faults: str) -> Make:
    return lambda seed: World(seed, 60, real_broker, faults, extras=False)


def flushes_early(seed: int) -> World:
    return World(seed, 60, acks_before_fsync, ("clock jump",), extras=False)


# Parts of a broker alone.


def checks_no_checksums(patch: pytest.MonkeyPatch) -> None:
    def stored_crc(file: File, position: int, chunk: bytes, at: int, size: int) -> int:
        return int.from_bytes(chunk[at + 17 : at + 21], "big")

    patch.setattr(scan, "_crc", stored_crc)


def forgets_producers_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "ProducerState", NoProducerEntries)


def nothing(patch: pytest.MonkeyPatch) -> None:
    """The wiring has the break."""


def of(patch: Patch, world: Make, seed: int = 0) -> BrokenPart:
    return BrokenPart(patch.__name__, patch, world, seed)


def of_quorum(patch: Patch, voters: int, faults: tuple[str, ...], first: int) -> BrokenPart:
    return of(patch, lambda seed: QuorumWorld(seed, voters=voters, faults=faults), first)


L, R, C = broken_leaves, broken_replicas, broken_controllers
CLUSTER_PARTS: tuple[BrokenPart, ...] = (
    of(L.counts_the_log_end_alone, cluster()),
    of(L.counts_the_fastest_follower, cluster(pace=SLOW_DISKS)),
    of(L.counts_what_followers_have_not_flushed, cluster()),
    of(L.counts_what_the_leader_has_not_flushed, cluster(), 1),
    of(R.tells_its_end_before_the_flush, cluster()),
    BrokenPart("flushes_are_told_before_they_begin", nothing, cluster(wire=eager), 1),
    of(L.serves_what_is_not_committed, cluster(pace=SLOW_DISKS)),
    of(L.answers_before_the_followers, cluster()),
    of(L.takes_lost_leadership_for_success, cluster(*MUTES), 5),
    of(L.ignores_the_minimum, cluster(*CRASHES, replicas=2), 1),
    of(L.shrinks_the_isr_alone, cluster(*LAGS, pace=SLOW_DISKS)),
    of(L.looks_at_no_isr, cluster(*CRASHES)),
    of(L.joins_the_isr_behind, cluster(*CRASHES), 1),
    of(R.proposes_nothing, cluster(*CRASHES[:1])),
    of(R.opens_no_log_of_a_follower, cluster()),
    of(L.goes_on_as_the_leader, cluster(*MUTES)),
    of(R.truncates_to_the_high_watermark, cluster(*CRASHES), 1),
    of(R.tells_no_epoch, cluster(*MUTES), 5),
    of(L.sees_no_divergence, cluster(*MUTES), 5),
    of(L.forgets_producers_when_it_leads, cluster(*CRASHES, pace=SLOW_DISKS), 1),
    of(L.forgets_producers_as_a_follower, cluster(*CRASHES, pace=SLOW_DISKS), 1),
    of(C.elects_anyone, cluster(*ONE_AFTER_THE_OTHER, replicas=2, min_isr=1), 2),
    of(C.elects_the_dead, cluster(dies=True), 1),
    of(C.elects_whom_it_prefers, cluster(*LAGS, operations=["elect"] * 8), 1),
    of(C.takes_any_isr, cluster(*MUTES), 25),
    of(C.leaves_epochs_as_they_are, cluster(*CRASHES)),
    of(C.completes_reassignments_at_once, cluster(operations=["reassign"] * 6)),
    of(
        C.keeps_the_isr_of_a_lost_disk,
        cluster(*LOST_DISKS, recorded_voters=True),
    ),
    of(C.fences_nobody, cluster(dies=True), 1),
    of(C.repairs_nothing, cluster(dies=True), 1),
)
T, G = broken_transactions, broken_transaction_logs
TRANSACTION_PARTS: tuple[BrokenPart, ...] = (
    of(
        T.answers_an_end_before_it_is_on_disk,
        transactional(*POWER_AFTER_COMMITS, pace=SLOW_DISKS),
        6,
    ),
    of(T.answers_a_commit_without_a_record, transactional()),
    of(T.commits_what_it_has_aborted, transactional(version=2, linger_rate=500, timeout_ms=700)),
    of(T.takes_late_ends, stalled(give_up_rate=0), 15),
    of(T.adds_partitions_in_memory, transactional(*KILLS)),
    of(T.resumes_no_end_after_loading, transactional(*KILLS, pace=SLOW_DISKS), 1),
    of(T.times_nothing_out, transactional(*LOST_CLIENTS)),
    of(T.forgets_timeouts_when_it_loads, transactional(*LOST_CLIENTS, *KILLS)),
    of(T.gives_the_epoch_of_the_last_producer, transactional(), 7),
    of(
        T.fences_nobody_before_version_2,
        transactional(linger_rate=500, timeout_ms=700, levels=LevelsPlan(1)),
    ),
    of(
        T.aborts_without_fencing,
        transactional(version=1, linger_rate=500, timeout_ms=700, pause_ms=(0, 100)),
    ),
    of(T.takes_requests_of_zombies, transactional(), 5),
    of(T.ends_without_a_new_epoch, transactional()),
    of(T.rotates_no_ids, transactional(), 3),
    BrokenPart(
        "verifies_nothing", nothing, stalled(give_up_rate=800, settings=NO_VERIFICATION), 27
    ),
    of(T.drops_the_marker_of_a_partition, transactional()),
    of(T.writes_an_abort_first, transactional()),
    of(
        T.takes_errors_for_written_markers,
        transactional(*in_turn("kill", 500, 1_300, 6), brokers=3, version=2, abort_rate=500),
        2,
    ),
    of(T.commits_offsets_before_their_marker, transactional(), 2),
    of(T.drops_pending_offsets_at_a_commit, transactional()),
    of(G.takes_the_high_watermark_for_stable, transactional()),
    of(G.lists_nothing_as_aborted, transactional()),
    of(G.writes_no_index_of_aborted_transactions, transactional(*KILLS), 2),
    of(
        G.counts_markers_before_they_are_replicated,
        transactional(*in_turn("mute", 2_200, 3_600, 4), brokers=3, steps=150),
        7,
    ),
    of(G.forgets_open_transactions_when_it_starts, transactional(*STOPS), 2),
    of(G.forgets_open_transactions_when_it_leads, transactional(*CRASHES, brokers=3), 2),
)
PARTS: tuple[BrokenPart, ...] = (
    *CLUSTER_PARTS,
    *TRANSACTION_PARTS,
    *(of_quorum(*row) for row in BROKEN_QUORUMS),
    of(checks_no_checksums, alone("power loss at a crash point")),
    of(forgets_producers_when_it_starts, alone("cut", "half open")),
    BrokenPart("flushes_of_one_broker_are_told_before_they_begin", nothing, flushes_early),
)


def search(
    parts: Sequence[BrokenPart],
    module: str,
    description: str | None,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the command of a module: print the table of its parts; return the number of those that
    were not found."""
    import logging

    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="tried for each part")
    parser.add_argument("names", nargs="*", help="of the parts; without any: all")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    wanted = [part for part in parts if not options.names or part.name in options.names]
    missed = 0
    for part in wanted:
        found = find(part, 0, options.seeds)
        missed += found is None
        shown = "not found"
        if found is not None:
            shown = f"{found.seeds:>4} seeds {found.seconds:6.1f} s  {found.violation[:100]}"
        print(f"{part.name:<42} {shown}", flush=True)
    print(f"{len(wanted)} broken parts, {missed} not found")
    return missed


if __name__ == "__main__":
    sys.exit(search(PARTS, "sim.broken_parts", __doc__))
