"""Quorums in simulated time: the real core is sound over many seeds, and broken ones are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from odradek.model.env import Disk, Offload
from odradek.raft.core import Raft
from odradek.raft.effects import ElectionState
from odradek.raft.leader import Leader
from odradek.raft.log_state import LogState, OffsetAndEpoch
from odradek.raft.messages import VoterChangeResponse, VoteRequest
from odradek.raft.roles import Follower
from odradek.testing.machine import Wiring
from odradek.testing.quorum.quorum_plan import QuorumPlan, draw_quorum
from odradek.testing.quorum.quorum_storage import QuorumStorage
from odradek.testing.quorum.quorum_world import QuorumWorld
from odradek.testing.quorum.replica import Replica
from odradek.testing.sim import explain, run_seed, summary
from odradek.testing.sites import QUORUM_SITES, unreached

T = TypeVar("T")
SEEDS = range(1, 41)


@pytest.mark.parametrize("seed", SEEDS)
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


class LazyDisk:
    """A disk that renames the new election state into place before it is on the platter."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)

    def replace_file(self, path: str, data: bytes) -> None:
        if not path.endswith("quorum-state"):
            self.disk.replace_file(path, data)
            return
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.append([data])


class EagerOffload:
    """Reports a sync as done before it has begun."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._offload.submit(lambda: None, done, failed)  # type: ignore[misc]
        self._offload.submit(work, lambda _: None, lambda _: None)


def election_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    def save(self: QuorumStorage, state: ElectionState) -> None:
        lazy, disk = LazyDisk(self.disk), self.disk
        self.disk = lazy
        try:
            saved(self, state)
        finally:
            self.disk = disk

    saved = QuorumStorage.save_election
    load = QuorumStorage.load

    def load_or_begin(self: QuorumStorage, new_directory_id: Any) -> LogState:
        try:
            return load(self, new_directory_id)
        except ValueError:  # A torn state file: as if it had never voted.
            self.disk.remove(f"{self.directory}/quorum-state")
            return load(self, new_directory_id)

    patch.setattr(QuorumStorage, "save_election", save)
    patch.setattr(QuorumStorage, "load", load_or_begin)


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


def commits_records_of_older_epochs(patch: pytest.MonkeyPatch) -> None:
    def committed(self: Leader) -> int:
        start, self.start_offset = self.start_offset, 0
        try:
            return offset(self)
        finally:
            self.start_offset = start

    offset = Leader.committed_offset
    patch.setattr(Leader, "committed_offset", committed)


def finds_no_divergence(patch: pytest.MonkeyPatch) -> None:
    def divergence(self: LogState, offset: int, epoch: int) -> OffsetAndEpoch | None:
        return None if offset <= self.end_offset else found(self, offset, epoch)

    found = LogState.divergence
    patch.setattr(LogState, "divergence", divergence)


def truncates_only_in_memory(patch: pytest.MonkeyPatch) -> None:
    def truncate(self: QuorumStorage, offset: int) -> None:
        keep = [batch for batch in self.batches if batch.end_offset <= offset]
        del self.batches[len(keep) :], self._positions[len(keep) :]

    patch.setattr(QuorumStorage, "truncate", truncate)


def changes_voters_side_by_side(patch: pytest.MonkeyPatch) -> None:
    def refuse(self: Leader) -> VoterChangeResponse | None:
        return None

    patch.setattr(Leader, "refuse_change", refuse)


def forgets_its_election(patch: pytest.MonkeyPatch) -> None:
    def save(self: QuorumStorage, state: ElectionState) -> None:
        self.election = state

    patch.setattr(QuorumStorage, "save_election", save)


def installs_without_emptying(patch: pytest.MonkeyPatch) -> None:
    def install(self: Replica) -> None:
        self.storage.batches = []
        self.storage._positions = []
        self.applied = list(self.storage.snapshot.records)
        self._applied_to = self.storage.snapshot.end.offset

    patch.setattr(Replica, "_install", install)


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
    (votes_for_shorter_logs, 3, ("split", "kill", "flapping"), 0),
    (commits_what_one_replica_has, 3, (), 0),
    (commits_before_its_own_flush, 3, ("slow disk",), 0),
    (finds_no_divergence, 3, ("split", "flapping", "kill"), 0),
    (truncates_only_in_memory, 3, ("split", "kill", "flapping"), 0),
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


def test_flushes_that_are_told_before_they_begin_are_found() -> None:
    def eager(wiring: Wiring) -> Wiring:
        return replace(wiring, offload=EagerOffload)

    first_failure(lambda seed: QuorumWorld(seed, voters=3, wire=eager), 0)


def test_two_changes_of_the_voters_side_by_side_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    changes_voters_side_by_side(monkeypatch)

    def often(plan: QuorumPlan) -> QuorumPlan:
        return replace(plan, fates=(), wiped=None)

    first_failure(lambda seed: QuorumWorld(seed, voters=4, adjust=often), 55)
