"""Clusters of the real broker in simulated time: nothing acknowledged is lost, and all recovers."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from odradek.testing.sim import Outcome, explain, run_seed, summary
from odradek.testing.sites import CLUSTER_SITES, unreached
from odradek.testing.workload.cluster_schedule import with_cluster
from odradek.testing.workload.schedule import draw_schedule
from odradek.testing.world import DRAWN, ONLY_ENGINES, World

STEPS = 15
SEEDS = range(1, 41)


@cache
def outcome_of(seed: int) -> Outcome[World]:
    return run_seed(World(seed, STEPS, brokers=DRAWN))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_of_a_cluster(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


@pytest.mark.parametrize("seed", range(300, 306))
def test_a_seed_of_a_cluster_with_our_clients(seed: int) -> None:
    outcome = run_seed(World(seed, 8, brokers=3, engines=ONLY_ENGINES))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


RARE = ("disk: full", "network: connecting times out")
"""Sites that the few seeds of a test need not reach."""


def test_the_seeds_reach_what_a_cluster_meets() -> None:
    runs: list[Counter[str]] = [outcome_of(seed).world.scheduler.sites for seed in SEEDS]
    assert set(unreached(runs, CLUSTER_SITES)) <= set(RARE)


def test_the_seeds_have_every_size_and_every_end() -> None:
    plans = [with_cluster(seed, draw_schedule(seed, STEPS)) for seed in SEEDS]
    assert {plan.machines for plan in plans} == {2, 3, 4, 5}
    assert sum(bool(plan.fates) for plan in plans) > 3
    assert sum(plan.recorded_voters for plan in plans) > 8
    assert sum(bool(plan.operations) for plan in plans) > 8
    assert {topic.replicas for plan in plans for topic in plan.topics} == {1, 2, 3}


def test_a_failed_cluster_is_explained_with_the_command_that_reproduces_it() -> None:
    lines = explain(outcome_of(2))
    options = f"--world cluster --brokers 0 --seed 2 --steps {STEPS} --engines none"
    assert f"  reproduce: python -m odradek.testing.sim {options}" in lines
