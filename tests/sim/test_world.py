"""Simulation of the real broker over many seeds."""

from functools import cache
from pathlib import Path

import pytest

from odradek.testing.sim import RunOutcome, explain, run_seed, summary
from odradek.testing.world import NO_ENGINES, ONLY_ENGINES, World

STEPS = 60


@cache
def outcome_of(seed: int) -> RunOutcome:
    return run_seed(World(seed, STEPS))


@pytest.mark.parametrize("seed", range(1, 61))
def test_a_seed_of_a_broker_keeps_every_rule(seed: int) -> None:
    outcome = outcome_of(seed)
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_seed_that_only_produces_and_reads(seed: int) -> None:
    outcome = run_seed(World(seed, STEPS, extras=False))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


def regressions() -> list[tuple[int, int, str]]:
    lines = (Path(__file__).parent / "regressions.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return [(int(seed), int(steps), kind) for seed, steps, kind, *_ in rows]


@pytest.mark.parametrize(("seed", "steps", "kind"), regressions())
def test_a_seed_that_once_failed(seed: int, steps: int, kind: str) -> None:
    engines = ONLY_ENGINES if kind == "engines" else NO_ENGINES
    outcome = run_seed(World(seed, steps, extras=kind != "plain", engines=engines))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


def test_the_seeds_have_everything_in_them() -> None:
    """Every rare kind of event occurs in these seeds."""
    worlds = [outcome_of(seed).world for seed in range(1, 41)]
    histories = [world.history for world in worlds]
    assert sum(len(history.topic_deletions) for history in histories) > 10
    assert sum(trim.outcome == "ok" for history in histories for trim in history.trims) > 30
    assert sum(start.offset > 0 for history in histories for start in history.starts) > 30
    kinds = [fault.kind for history in histories for fault in history.faults]
    for kind in ("stopped", "unplugged", "nemesis: client crash", "nemesis: index bit flip"):
        assert kinds.count(kind) > 2, kind
    assert sum(len(history.damaged) for history in histories) > 2
    assert sum(reader.sessions for world in worlds for reader in world.plan.readers) > 5


def test_a_failed_seed_is_explained_with_the_command_that_reproduces_it() -> None:
    world = World(3, 20)
    outcome = run_seed(world)
    lines = explain(outcome)
    command = "python -m odradek.testing.sim --world broker --seed 3 --steps 20 --engines none"
    assert f"  reproduce: {command}" in lines
    assert any("broker" in line for line in lines)
