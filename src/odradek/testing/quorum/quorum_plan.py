"""What a seed decides for a run of a quorum.

Half of the seeds end by healing everything: then all replicas must agree. The others leave some
machines disturbed for ever: then the healthy core, a majority of the voters, must go on alone.
Runs with changes of the voters heal; one run in some loses the disk of a voter for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.raft.core import RaftConfig
from odradek.testing.link_faults import FATES
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.process import DelayRanges
from odradek.testing.scheduler import MS
from odradek.testing.transport import Link
from odradek.testing.workload.schedule import (
    Fate,
    FaultPlan,
    draw_link,
    draw_machine_faults,
    draw_pace,
)


@dataclass(frozen=True, slots=True)
class QuorumPlan:
    """Everything that a seed decides before the run begins. Machines are numbered from 1."""

    voters: int
    configured: bool
    """True if settings name the voters, without their directories."""
    observers: int
    config: RaftConfig
    snapshot_every: int
    proposals: Sequence[int]
    """When records are proposed, in ns."""
    changes: Sequence[FaultPlan]
    """When a voter is removed, or added again: `machine` is the one."""
    wiped: FaultPlan | None
    """When a voter loses its disk for good."""
    faults: Sequence[FaultPlan]
    fates: Sequence[Fate]
    link: Link
    pace: DelayRanges
    heal_ns: int

    @property
    def machines(self) -> int:
        return self.voters + self.observers

    @property
    def core(self) -> list[int]:
        """The machines that are well in the end."""
        lost = [fate.machine for fate in self.fates]
        return [number for number in range(1, self.machines + 1) if number not in lost]

    def parts(self) -> list[str]:
        """Return the names of the optional parts."""
        return [
            *(f"fault{n}" for n in range(len(self.faults))),
            *(f"change{n}" for n in range(len(self.changes))),
            *(f"fate{n}" for n in range(len(self.fates))),
            *(["wipe"] if self.wiped else []),
        ]

    def keeping(self, parts: Sequence[str]) -> QuorumPlan:
        """Return the plan with these of its optional parts only."""
        return replace(
            self,
            faults=[fault for n, fault in enumerate(self.faults) if f"fault{n}" in parts],
            changes=[change for n, change in enumerate(self.changes) if f"change{n}" in parts],
            fates=[fate for n, fate in enumerate(self.fates) if f"fate{n}" in parts],
            wiped=self.wiped if "wipe" in parts else None,
        )

    def describe(self) -> list[str]:
        """Return the plan as lines."""
        return [
            f"voters {self.voters}{' of the settings' if self.configured else ''},"
            f" observers {self.observers}, {self.config}",
            f"a snapshot every {self.snapshot_every} records, {len(self.proposals)} proposals",
            f"{self.link}",
            f"{self.pace}",
            *(f"{fate}" for fate in self.fates),
            *(f"{change}" for change in self.changes),
            *([f"{self.wiped}"] if self.wiped else []),
            "faults:",
        ]


def draw_quorum(
    seed: int, steps: int, voters: int = 0, faults: Sequence[str] = (), machines_at_most: int = 5
) -> QuorumPlan:
    """Draw the plan of a seed with `steps` proposals; `voters` 0: 1 to 5, as the seed decides."""
    chance = stream(seed, "quorum")
    drawn = chance.pick((1, 2, 3, 3, 3, 3, 5, 5, 4))
    voters = voters or drawn
    observers = chance.pick((0, 0, 1)) if voters < machines_at_most else 0
    machines = voters + observers
    horizon_ns = 1_500 * MS + steps * 100 * MS
    changing = machines > 1 and chance.chance(250)
    wiping = not changing and voters >= 3 and chance.chance(150)
    lasting = not changing and not wiping and voters >= 3 and chance.chance(500)
    # The first election of configured voters needs all of them, so none is lost for ever.
    other = stream(seed, "quorum/configured")
    configured = not changing and not lasting and other.chance(500)
    others_wipe = configured and voters >= 3 and not wiping and other.chance(500)
    plans = draw_machine_faults(chance, horizon_ns, machines, faults)
    ends = [fault.at_ns + fault.length_ns for fault in plans]
    return QuorumPlan(
        voters=voters,
        configured=configured,
        observers=observers,
        config=draw_config(chance),
        snapshot_every=chance.pick((10, 40, 1 << 30)),
        proposals=sorted(chance.between(0, horizon_ns) for _ in range(steps)),
        changes=draw_changes(chance, machines, horizon_ns) if changing else (),
        wiped=draw_wipe(chance if wiping else other, voters, horizon_ns)
        if wiping or others_wipe
        else None,
        faults=plans,
        fates=draw_fates(chance, voters, horizon_ns) if lasting else (),
        link=draw_link(chance),
        pace=draw_pace(chance),
        heal_ns=max([horizon_ns, *ends]) + 100 * MS,
    )


def draw_config(chance: SplitMix64) -> RaftConfig:
    election_ms = chance.pick((1000, 1000, 300))
    return RaftConfig(
        election_timeout_ms=election_ms,
        election_backoff_max_ms=election_ms,
        fetch_timeout_ms=2 * election_ms,
        fetch_max_wait_ms=election_ms // 2,
    )


def draw_changes(chance: SplitMix64, machines: int, horizon_ns: int) -> list[FaultPlan]:
    return sorted(
        (
            FaultPlan(
                chance.between(500 * MS, horizon_ns),
                "change of voters",
                0,
                chance.below(1 << 30),
                chance.between(1, machines),
            )
            for _ in range(chance.between(2, 12))
        ),
        key=lambda plan: (plan.at_ns, plan.number),
    )


def draw_wipe(chance: SplitMix64, voters: int, horizon_ns: int) -> FaultPlan:
    at_ns = chance.between(horizon_ns // 4, horizon_ns)
    return FaultPlan(
        at_ns, "disk lost", chance.between(1, 3_000) * MS, 0, chance.between(1, voters)
    )


def draw_fates(chance: SplitMix64, voters: int, horizon_ns: int) -> list[Fate]:
    """Draw fates for a minority of the voters."""
    numbers = list(range(1, voters + 1))
    chance.shuffle(numbers)
    lost = numbers[: chance.between(1, (voters - 1) // 2)]
    return [
        Fate(
            chance.between(200 * MS, horizon_ns), number, chance.pick(FATES), chance.below(1 << 30)
        )
        for number in lost
    ]
