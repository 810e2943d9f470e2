"""Simulation of this project's clients with its broker, over many seeds.

The checks are in `odradek.testing.engines`; `broken_clients` shows that they find violations.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from odradek.testing.sim import RunOutcome, explain, run_seed, summary
from odradek.testing.world import BOTH, ONLY_ENGINES, World
from sim.broken_clients import BREAKS

STEPS = 40
SEEDS = range(1, 14)


@functools.cache
def outcome_of(seed: int) -> RunOutcome[World]:
    return run_seed(World(seed, STEPS, engines=ONLY_ENGINES))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_of_engines(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


@pytest.mark.parametrize("seed", [7, 8])
def test_a_seed_of_engines_and_scripted_clients(seed: int) -> None:
    outcome = run_seed(World(seed, STEPS, engines=BOTH))
    assert outcome.world.plan.engines is not None and outcome.world.plan.producers
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


def test_the_seeds_have_everything_in_them() -> None:
    """Every kind of event occurs in at least one of the seeds."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        count(outcome_of(seed).world, seen)
    assert [what for what in EXPECTED_EVENTS if not seen[what]] == [], seen


EXPECTED_EVENTS = (
    "ok",
    "info",
    "fail",
    "failed, and there",
    "sent again",
    "split",
    "epochs",
    "crash of sender",
    "crash of assigned",
    "crash of group",
    "leave of group",
    "pause of group",
    "busy of group",
    "generations beyond the first",
    "auto",
    "sync",
    "async",
    "static members",
)


def count(world: World, seen: Counter[str]) -> None:
    engines = world.engine_clients
    log = {
        content.value for read in world.history.reads if read.final for _, content in read.records
    }
    for sender in engines.senders:
        manager = sender.core.accumulator.transaction_manager
        assert manager is not None
        seen["epochs"] += manager.epoch_bumps
        seen["split"] += sender.core.metrics.batch_split.count
        seen["sent again"] += sender.core.metrics.all_topics.record_retry.total
        for sent in sender.sent:
            seen[sent.send.outcome] += 1
            there = sent.send.contents[0].value in log
            seen["failed, and there"] += there and sent.send.outcome == "info"
    for group in engines.groups:
        seen[group.plan.commits] += 1
        seen["generations beyond the first"] += len({k[0] for k in group.journal.owners}) - 1
        seen["static members"] += sum(m.plan.instance_id is not None for m in group.members)
    for fault in world.history.faults:
        seen[fault.kind.rstrip("0123456789-~")] += 1


def search(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).parent / "broken_clients.py"
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env=os.environ | {"ODRADEK_INTERPRETED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", [name for name in BREAKS if name != "INTACT"])
def test_a_broken_client_is_found(name: str) -> None:
    run = search(name)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_correct_client_has_no_violation() -> None:
    run = search("INTACT", "2")
    assert "no violation in 2 seeds" in run.stdout, run.stdout + run.stderr
