"""Clusters of the real broker in simulated time: nothing acknowledged is lost, and all recovers.

The worlds are brief: a few seconds of faults, then whatever it takes to recover. `make sim` runs
longer ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

import pytest

from odradek.testing.sim import RunOutcome, explain, run_seed, summary
from odradek.testing.sites import CLUSTER_SITES, unreached
from odradek.testing.workload.schedule import CLUSTER_FAULTS, LINK_FAULTS, MACHINE_FAULTS, Schedule
from odradek.testing.world import DRAWN, ONLY_ENGINES, World

STEPS = 8
SEEDS = range(1, 201)


@dataclass(frozen=True)
class WorldRun:
    """What is kept of a run: 200 whole ones would take much memory."""

    kept: bool
    explanation: str
    plan: Schedule
    sites: Counter[str]


def outcome_of(seed: int) -> RunOutcome[World]:
    return run_seed(World(seed, STEPS, brokers=DRAWN, brief=True))


@cache
def run_of(seed: int) -> WorldRun:
    outcome = outcome_of(seed)
    text = "" if outcome.kept else "\n".join([summary(outcome), *explain(outcome)])
    return WorldRun(outcome.kept, text, outcome.world.plan, outcome.world.scheduler.sites)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_of_a_cluster_keeps_every_rule(seed: int) -> None:
    run = run_of(seed)
    assert run.kept, run.explanation


@pytest.mark.parametrize("seed", range(300, 306))
def test_a_seed_of_a_cluster_with_our_clients_keeps_every_rule(seed: int) -> None:
    outcome = run_seed(World(seed, STEPS, brokers=3, engines=ONLY_ENGINES, brief=True))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


RARE = "network: connecting times out"
"""Takes longer than a brief world lasts; the fault matrix and longer worlds reach it."""


def test_the_seeds_reach_every_site_of_a_cluster() -> None:
    faults = (*MACHINE_FAULTS, *LINK_FAULTS, *CLUSTER_FAULTS)
    sites = (*CLUSTER_SITES, *(f"fault: {kind}" for kind in faults))
    assert set(unreached([run_of(seed).sites for seed in SEEDS], sites)) <= {RARE}


def test_the_seeds_have_clusters_of_every_size_and_with_every_kind_of_plan() -> None:
    plans = [run_of(seed).plan for seed in SEEDS]
    assert {plan.machines for plan in plans} == {2, 3, 4, 5}
    assert sum(bool(plan.fates) for plan in plans) > 20
    assert sum(plan.recorded_voters for plan in plans) > 40
    assert sum(bool(plan.operations) for plan in plans) > 40
    assert {topic.replicas for plan in plans for topic in plan.topics} == {1, 2, 3}


def test_a_failed_cluster_is_explained_with_the_command_that_reproduces_it() -> None:
    lines = explain(outcome_of(2))
    options = f"--world cluster --brokers 0 --seed 2 --steps {STEPS} --brief --engines none"
    assert f"  reproduce: python -m odradek.testing.sim {options}" in lines
