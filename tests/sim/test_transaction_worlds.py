"""Seeds of transactional clients, of one broker and of clusters under faults."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from odradek.testing.scheduler import MS
from odradek.testing.sim import RunOutcome, explain, run_seed, summary
from odradek.testing.transactions import TransactionOutcome
from odradek.testing.workload.transaction_levels import LevelChange, LevelsPlan
from odradek.testing.world import DRAWN, World
from sim.broken_parts import KILLS, transactional

STEPS = 40
ONE_BROKER, CLUSTERS = range(8), range(8)


def world(seed: int, brokers: int) -> World:
    brief = brokers != 1
    return World(seed, STEPS, brokers=brokers, brief=brief, transactions=True)


@cache
def run_of(seed: int, brokers: int) -> tuple[bool, str, Counter[str], Counter[TransactionOutcome]]:
    """Return whether a run kept the rules, its explanation, its sites, its outcomes."""
    outcome: RunOutcome[World] = run_seed(world(seed, brokers))
    ended = outcome.world.clients.transactions.observed.transactions
    return (
        outcome.kept,
        "" if outcome.kept else "\n".join([summary(outcome), *explain(outcome)]),
        outcome.world.scheduler.sites,
        Counter(each.outcome for each in ended),
    )


@pytest.mark.parametrize("seed", ONE_BROKER)
def test_a_seed_of_transactions_at_one_broker(seed: int) -> None:
    kept, explanation, _, _ = run_of(seed, 1)
    assert kept, explanation


@pytest.mark.parametrize("seed", CLUSTERS)
def test_a_seed_of_transactions_in_a_cluster(seed: int) -> None:
    kept, explanation, _, _ = run_of(seed, DRAWN)
    assert kept, explanation


def test_the_seeds_have_every_outcome_in_both_versions() -> None:
    runs = [run_of(seed, 1) for seed in ONE_BROKER] + [run_of(seed, DRAWN) for seed in CLUSTERS]
    outcomes = sum((run[3] for run in runs), Counter[TransactionOutcome]())
    assert set(outcomes) == set(TransactionOutcome)
    sites = sum((run[2] for run in runs), Counter[str]())
    for outcome in ("committed", "aborted"):
        for version in (1, 2):
            assert sites[f"transaction: {outcome} in version {version}"] > 0
    assert sites["transaction: lingers near its timeout"] > 0
    assert any("PRODUCER_FENCED" in site for site in sites)


@pytest.mark.parametrize("first", [0, 1])
def test_producers_follow_the_level_that_is_raised_while_they_transact(first: int) -> None:
    sites = Counter[str]()
    for seed in range(4):
        world = transactional(
            *KILLS,
            version=2,
            steps=100,
            levels=LevelsPlan(first, [LevelChange(1_500 * MS, 2)]),
        )(seed)
        outcome = run_seed(world)
        assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
        sites += world.scheduler.sites
    assert sites["transaction: committed in version 1"] > 0
    assert sites["transaction: takes a new epoch for version 2"] > 0
    assert sites["transaction: committed in version 2"] > 0


def test_producers_follow_a_level_that_is_lowered_while_they_transact() -> None:
    world = transactional(version=2, steps=100, levels=LevelsPlan(2, [LevelChange(500 * MS, 1)]))(0)
    outcome = run_seed(world)
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
    assert world.scheduler.sites["transaction: committed in version 1"] > 0
    assert world.scheduler.sites["transaction: committed in version 2"] > 0


def test_the_seeds_have_clusters_of_every_level() -> None:
    plans = [world(seed, DRAWN).plan.transactions.levels for seed in range(40)]
    assert {plan.first for plan in plans} == {0, 1, 2}
    assert any(plan.is_newest for plan in plans)
    assert any(change.level == 2 for plan in plans for change in plan.changes)


def test_a_run_with_transactions_is_the_same_again() -> None:
    first, second = (run_seed(world(2, 1)).report for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.summary() == second.summary()


def test_a_failed_run_names_the_option_that_adds_transactions() -> None:
    assert "--transactions" in world(3, 1).options()
