"""Several brokers in one world: clients find leaders that move, under faults of links and machines.

The brokers are toys that share their storage (`sim.toy_cluster`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from odradek.testing.engines.plans import NO_PLAN
from odradek.testing.sim import explain, run_seed, shrunk, summary
from odradek.testing.sites import LINK_SITES, unreached
from odradek.testing.workload.schedule import Schedule
from odradek.testing.world import ONLY_ENGINES, World
from sim.toy_cluster import DividedToy, ForgetfulToy, toy_cluster

STEPS = 40
SEEDS = range(1, 31)
CLIENT_SITES = (
    "client: another coordinator after NOT_COORDINATOR",
    "client: another leader after FENCED_LEADER_EPOCH",
    "client: another leader after NOT_LEADER_OR_FOLLOWER",
    "client: asks for leaders",
)


def world_of(seed: int, brokers: int = 3) -> World:
    return World(seed, STEPS, toy_cluster(), extras=False, brokers=brokers, is_toy=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_find_leaders_that_move(seed: int) -> None:
    outcome = run_seed(world_of(seed))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
    assert any(read.records for read in outcome.world.history.reads)


@pytest.mark.parametrize("brokers", [2, 4, 5])
def test_clusters_of_any_size_run(brokers: int) -> None:
    outcome = run_seed(world_of(99, brokers))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
    assert len({fault.where for fault in outcome.world.history.faults if fault.kind == "boot"}) == (
        brokers
    )


def test_the_seeds_reach_what_clients_of_several_brokers_meet() -> None:
    runs: list[Counter[str]] = []
    for seed in SEEDS:
        world = world_of(seed)
        world.run()
        runs.append(world.scheduler.sites)
    assert unreached(runs, [*CLIENT_SITES, *LINK_SITES[1:]]) == []


def test_two_leaders_of_one_epoch_are_found_and_the_run_is_shrunk() -> None:
    for seed in range(4, 60):
        world = World(seed, STEPS, toy_cluster(DividedToy), extras=False, brokers=3, is_toy=True)
        outcome = run_seed(world)
        if outcome.report and any("two leaders" in line for line in outcome.report.violations):
            break
    else:
        raise AssertionError("no seed found it")
    smallest = shrunk(outcome, 25)
    assert not smallest.kept
    assert smallest.failure == outcome.failure
    assert len(smallest.world.parts()) < len(world.parts())
    assert "--keep" in explain(smallest)[-1]


def test_lost_commits_are_found() -> None:
    for seed in range(1, 20):
        broken = toy_cluster(ForgetfulToy)
        report = run_seed(World(seed, STEPS, broken, extras=False, brokers=3, is_toy=True)).report
        if report and any("was acknowledged before" in line for line in report.violations):
            return
    raise AssertionError("no seed found it")


def test_engines_pass_over_bootstrap_addresses_where_nobody_answers() -> None:
    def with_dead_addresses(plan: Schedule) -> Schedule:
        engines = replace(plan.engines or NO_PLAN, bootstrap="nowhere:9092,broker:9092")
        return replace(plan, engines=engines)

    outcome = run_seed(World(3, 20, adjust=with_dead_addresses, engines=ONLY_ENGINES))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
