"""Broken parts of brokers, and how many seeds of the simulator it takes to find each.

    PYTHONPATH=tests python -m sim.broken_parts [NAME ...]

prints the table. Each part is put in by the wiring: a function patches the real code, and worlds of
one seed after the other run until one has a violation. If a part is not found, the simulator misses
violations: check workload, faults and rules first. A compiled method cannot be replaced, so the
parts of leaves need `ODRADEK_INTERPRETED=1`, which the command sets.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

if __name__ == "__main__":
    os.environ["ODRADEK_INTERPRETED"] = "1"

from odradek.log import recovery, scan
from odradek.model.env import File
from odradek.replication import produce
from odradek.replication.leadership import IsrProposal, Leadership, Replica
from odradek.replication.partition import Partition
from odradek.replication.produce import ProduceStatus
from odradek.testing.machine import real_broker
from odradek.testing.quorum.quorum_world import QuorumWorld
from odradek.testing.sim import run_seed
from odradek.testing.world import World
from sim.test_broken_parts import NoProducerEntries, acks_before_fsync
from sim.test_quorum_worlds import BROKEN as BROKEN_QUORUMS

Patch = Callable[[pytest.MonkeyPatch], None]
Make = Callable[[int], Any]
STEPS = 20
MOST_SEEDS = 150


@dataclass(frozen=True, slots=True)
class BrokenPart:
    """A patch, and the worlds that expose it."""

    name: str
    patch: Patch
    world: Make
    first: int = 0
    """The first seed: some parts need a rare sequence of events."""


@dataclass(frozen=True, slots=True)
class Found:
    """What found a broken part."""

    seeds: int
    violation: str
    seconds: float


def find(part: BrokenPart, most_seeds: int = MOST_SEEDS) -> Found | None:
    """Run worlds with this part until one has a violation; None if none has."""
    began = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        part.patch(patch)
        for seed in range(part.first, part.first + most_seeds):
            outcome = run_seed(part.world(seed))
            if not outcome.kept:
                report = outcome.report
                text = report.violations[0] if report else str(outcome.error)
                return Found(seed - part.first + 1, text, time.process_time() - began)
    return None


# The replicas of a partition.


def counts_the_log_end_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the leader's end, whatever its followers have."""
    patch.setattr(Leadership, "committed_end", lambda self, leader_end: leader_end)


def counts_what_followers_have_not_flushed(patch: pytest.MonkeyPatch) -> None:
    told = Replica.update

    def update(self: Replica, fetch_offset: int, durable_end: int, *rest: int) -> None:
        told(self, fetch_offset, fetch_offset, *rest)

    patch.setattr(Replica, "update", update)


def counts_what_the_leader_has_not_flushed(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Partition) -> bool:
        end = self.log.log_end_offset
        if self.leadership is not None:
            end = self.leadership.committed_end(end)
        if end <= self.high_watermark:
            return False
        self.high_watermark = self.log.high_watermark = end
        return True

    patch.setattr(Partition, "advance_high_watermark", advance)


def answers_before_the_followers(patch: pytest.MonkeyPatch) -> None:
    def update(status: ProduceStatus) -> None:
        status.pending = False
        status.response.error_code = status.partition.availability()

    patch.setattr(produce, "update_produce_status", update)


def joins_the_isr_behind(patch: pytest.MonkeyPatch) -> None:
    """A replica is proposed for the ISR at its first fetch."""
    propose = Leadership.propose_expansion

    def expand(
        self: Leadership, replica: Replica, high_watermark: int, log_start: int
    ) -> IsrProposal | None:
        return propose(self, replica, NO_OFFSET, NO_OFFSET)

    patch.setattr(Leadership, "propose_expansion", expand)
    patch.setattr(Leadership, "committed_end", lambda self, end: min_of_isr(self, end))


NO_OFFSET = -1


def min_of_isr(leadership: Leadership, end: int) -> int:
    """The least end of the members that were in the ISR at first."""
    ends = [
        leadership.replicas[each].durable_end
        for each in leadership.isr[:2]
        if each in leadership.replicas
    ]
    return min([end, *ends])


# One node.


def checks_no_checksums(patch: pytest.MonkeyPatch) -> None:
    def stored_crc(file: File, position: int, chunk: bytes, at: int, size: int) -> int:
        return int.from_bytes(chunk[at + 17 : at + 21], "big")

    patch.setattr(scan, "_crc", stored_crc)


def forgets_producers_when_it_starts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "ProducerState", NoProducerEntries)


def nothing(patch: pytest.MonkeyPatch) -> None:
    """The wiring has the break."""


def cluster(*faults: str, brokers: int = 3, steps: int = STEPS) -> Make:
    return lambda seed: World(seed, steps, faults=faults, brokers=brokers)


def alone(*faults: str) -> Make:
    return lambda seed: World(seed, 60, real_broker, faults, extras=False)


def flushes_early(seed: int) -> World:
    return World(seed, 60, acks_before_fsync, ("clock jump",), extras=False)


CRASHES = ("kill", "power loss", "controller killed")
POWER = ("power loss", "power loss at a crash point")


def of(patch: Patch, world: Make, first: int = 0) -> BrokenPart:
    return BrokenPart(patch.__name__, patch, world, first)


def of_quorum(patch: Patch, voters: int, faults: tuple[str, ...], first: int) -> BrokenPart:
    return of(patch, lambda seed: QuorumWorld(seed, voters=voters, faults=faults), first)


PARTS: tuple[BrokenPart, ...] = (
    of(counts_the_log_end_alone, cluster()),
    of(counts_what_followers_have_not_flushed, cluster()),
    of(counts_what_the_leader_has_not_flushed, cluster()),
    of(answers_before_the_followers, cluster()),
    of(joins_the_isr_behind, cluster(*CRASHES)),
    *(of_quorum(*row) for row in BROKEN_QUORUMS),
    of(checks_no_checksums, alone(*POWER[1:])),
    of(forgets_producers_when_it_starts, alone("cut", "half open")),
    BrokenPart("flushes_are_told_before_they_begin", nothing, flushes_early),
)


def main(names: list[str]) -> int:
    """Print the table; return the number of parts that were not found."""
    import logging

    logging.disable(logging.CRITICAL)
    missed = 0
    for part in PARTS:
        if names and part.name not in names:
            continue
        found = find(part)
        missed += found is None
        shown = (
            f"{found.seeds:>4}  {found.seconds:6.1f} s  {found.violation[:90]}"
            if found
            else " not found"
        )
        print(f"{part.name:<42} {shown}", flush=True)
    print(f"{len(PARTS)} broken parts, {missed} not found")
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
