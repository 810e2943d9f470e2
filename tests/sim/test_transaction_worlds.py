"""Seeds of transactional clients, of one broker and of clusters under faults."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from odradek.testing.sim import Outcome, explain, run_seed, summary
from odradek.testing.transactions import TransactionOutcome
from odradek.testing.world import DRAWN, World

STEPS = 40
ONE_BROKER, CLUSTERS = range(8), range(8)


def world(seed: int, brokers: int) -> World:
    brief = brokers != 1
    return World(seed, STEPS, brokers=brokers, brief=brief, transactions=True)


@cache
def run_of(seed: int, brokers: int) -> tuple[bool, str, Counter[str], Counter[TransactionOutcome]]:
    """Return whether a run kept the rules, its explanation, its sites, its outcomes."""
    outcome: Outcome[World] = run_seed(world(seed, brokers))
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


def test_a_run_with_transactions_is_the_same_again() -> None:
    first, second = (run_seed(world(2, 1)).report for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.summary() == second.summary()


def test_a_failed_run_names_the_option_that_adds_transactions() -> None:
    assert "--transactions" in world(3, 1).options()
