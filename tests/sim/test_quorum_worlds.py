"""Quorums in simulated time: the real core is sound over many seeds, and broken ones are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from odradek.model.env import Disk
from odradek.raft import quorum_state
from odradek.raft.core import Raft
from odradek.raft.effects import ElectionState
from odradek.raft.leader import Leader
from odradek.raft.log_state import LogState, OffsetAndEpoch
from odradek.raft.messages import VoteRequest
from odradek.raft.replicas import VoterSet
from odradek.raft.roles import Follower
from odradek.testing.machine import Wiring
from odradek.testing.quorum.quorum_plan import draw_quorum
from odradek.testing.quorum.quorum_world import QuorumWorld
from odradek.testing.sim import explain, run_seed, summary
from odradek.testing.sites import QUORUM_SITES, unreached
from sim.test_broken_parts import EagerOffload

SEEDS = range(1, 41)
REGRESSIONS = (161, 184, 287, 537, 400004)
"""A replica that could not read committed records raised out of its loop. 537: a voter that the
settings name lost its disk, and voted for one that lacked what it had acknowledged. 400004:
a leader that had removed itself forgot by a restart that it might still be a voter."""


@pytest.mark.parametrize("seed", [*SEEDS, *REGRESSIONS])
def test_a_seed_of_a_quorum(seed: int) -> None:
    outcome = run_seed(QuorumWorld(seed))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(200, 204))
def test_a_quorum_of_any_size(voters: int, seed: int) -> None:
    outcome = run_seed(QuorumWorld(seed, voters=voters))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
    assert outcome.report is not None and outcome.world.plan.voters == voters


def test_every_site_is_reached_by_some_seed() -> None:
    runs = []
    for seed in range(1, 121):
        world = QuorumWorld(seed)
        world.run()
        runs.append(world.scheduler.sites)
        if not unreached(runs, QUORUM_SITES):
            return
    assert unreached(runs, QUORUM_SITES) == []


def test_the_seeds_have_every_end() -> None:
    plans = [draw_quorum(seed, 60) for seed in SEEDS]
    assert sum(bool(plan.fates) for plan in plans) > 5
    assert sum(bool(plan.changes) for plan in plans) > 3
    assert any(plan.wiped for plan in plans)
    assert any(plan.wiped and plan.configured for plan in plans)
    assert {plan.voters for plan in plans} == {1, 2, 3, 4, 5}


def summary_of_subprocess(seed: int, hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "odradek.testing.sim", "--world", "quorum", "--seed", str(seed)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout.splitlines()[0]


@pytest.mark.parametrize("seed", [3, 8])
def test_a_seed_of_a_quorum_is_the_same_run_whatever_the_hash_seed(seed: int) -> None:
    here = summary(run_seed(QuorumWorld(seed)))
    assert [summary_of_subprocess(seed, each) for each in ("0", "4711")] == [here] * 2


# Broken parts.


def election_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The election state is replaced as usual, but it is not on the platter when that returns."""

    def save(disk: Disk, directory: str, state: ElectionState) -> None:
        path = f"{directory}/{quorum_state.QUORUM_STATE_FILE}"
        file = disk.open(path + ".tmp", create=True)
        file.truncate(0)
        file.append([quorum_state.encode(state)])
        file.sync()
        disk.rename(path + ".tmp", path)

    patch.setattr(quorum_state, "save", save)


def votes_twice(patch: pytest.MonkeyPatch) -> None:
    def may_vote(self: Raft, request: VoteRequest) -> bool:
        return not self.is_leader

    patch.setattr(Raft, "_may_vote", may_vote)


def votes_for_shorter_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogState, "is_up_to_date", lambda self, other: True)


def commits_what_one_replica_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "committed_offset", lambda self: self.log.flushed_offset)


def commits_before_its_own_flush(patch: pytest.MonkeyPatch) -> None:
    def committed(self: Leader) -> int:
        flushed, self.log.flushed_offset = self.log.flushed_offset, self.log.end_offset
        try:
            return offset(self)
        finally:
            self.log.flushed_offset = flushed

    offset = Leader.committed_offset
    patch.setattr(Leader, "committed_offset", committed)


def counts_new_voters_like_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VoterSet, "decide", lambda self, ids, new=(): self.has_majority(ids))


def finds_no_divergence(patch: pytest.MonkeyPatch) -> None:
    def divergence(self: LogState, offset: int, epoch: int) -> OffsetAndEpoch | None:
        return None if offset <= self.end_offset else found(self, offset, epoch)

    found = LogState.divergence
    patch.setattr(LogState, "divergence", divergence)


def starts_with_all_committed(patch: pytest.MonkeyPatch) -> None:
    """After a start everything in the log counts as committed, as it does for one voter."""
    opened = Raft.__init__

    def begin(self: Raft, *arguments: Any, **named: Any) -> None:
        opened(self, *arguments, **named)
        self.log.high_watermark = self.log.end_offset

    patch.setattr(Raft, "__init__", begin)


def forgets_its_election(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quorum_state, "save", lambda disk, directory, state: None)


def waits_for_its_leader_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A follower never stands for election."""

    def tick(self: Raft, role: Follower) -> None:
        role.fetch_timeout_ms = self._now + self.config.fetch_timeout_ms
        if role.retry_ms is not None and role.retry_ms <= self._now:
            self._fetch()

    patch.setattr(Raft, "_tick_follower", tick)
    patch.setattr(Raft, "_disconnected", lambda self, replica_id: None)


POWER = ("power loss", "power loss at a crash point", "crash point", "kill")
Patch = Callable[[pytest.MonkeyPatch], None]
BROKEN: tuple[tuple[Patch, int, tuple[str, ...], int], ...] = (
    (election_is_not_synced, 3, POWER, 0),
    (forgets_its_election, 3, ("kill",), 0),
    (votes_twice, 5, (), 0),
    (votes_for_shorter_logs, 3, ("split", "kill", "flapping"), 8),
    (commits_what_one_replica_has, 3, (), 0),
    (commits_before_its_own_flush, 3, ("slow disk",), 0),
    (finds_no_divergence, 3, ("split", "flapping", "kill"), 19),
    (starts_with_all_committed, 3, ("split", "kill", "flapping"), 0),
    (counts_new_voters_like_others, 0, (), 537),
    (waits_for_its_leader_for_ever, 3, ("split", "pause"), 6),
)
"""The break, the voters, the faults that expose it, and the first seed."""


def first_failure(make: Callable[[int], QuorumWorld], first: int, seeds: int = 150) -> int:
    for seed in range(first, first + seeds):
        if not run_seed(make(seed)).kept:
            return seed - first + 1
    raise AssertionError(f"no violation in {seeds} seeds")


@pytest.mark.parametrize(("broken", "voters", "faults", "first"), BROKEN)
def test_a_broken_quorum_is_found(
    broken: Patch,
    voters: int,
    faults: tuple[str, ...],
    first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    first_failure(lambda seed: QuorumWorld(seed, voters=voters, faults=faults), first)


def eager(wiring: Wiring) -> Wiring:
    return replace(wiring, offload=EagerOffload)


def test_flushes_that_are_told_before_they_begin_are_found() -> None:
    first_failure(lambda seed: QuorumWorld(seed, voters=3, wire=eager), 0)


def test_a_quorum_with_a_broken_part_says_that_only_its_test_makes_it() -> None:
    assert QuorumWorld(1).reproduction() == (
        "python -m odradek.testing.sim --world quorum --seed 1"
    )
    assert "only its test, which changes wire of" in QuorumWorld(1, wire=eager).reproduction()
