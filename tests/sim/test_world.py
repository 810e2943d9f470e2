"""Simulation of the real broker over many seeds, and that a seed always gives the same run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing.sim import explain, run_seed, summary
from odradek.testing.world import NO_ENGINES, ONLY_ENGINES, World

STEPS = 60


@pytest.mark.parametrize("seed", range(1, 61))
def test_a_seed(seed: int) -> None:
    outcome = run_seed(World(seed, STEPS))
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
    worlds = [World(seed, STEPS) for seed in range(1, 41)]
    for world in worlds:
        world.run()
    histories = [world.history for world in worlds]
    assert sum(len(history.topic_deletions) for history in histories) > 10
    assert sum(trim.outcome == "ok" for history in histories for trim in history.trims) > 30
    assert sum(start.offset > 0 for history in histories for start in history.starts) > 30
    kinds = [fault.kind for history in histories for fault in history.faults]
    for kind in ("stopped", "unplugged", "nemesis: client crash", "nemesis: index bit flip"):
        assert kinds.count(kind) > 2, kind
    assert sum(len(history.damaged) for history in histories) > 2
    assert sum(reader.sessions for world in worlds for reader in world.plan.readers) > 5


def summary_of_subprocess(seed: int, hash_seed: str) -> str:
    return subprocess.run(
        [
            *(sys.executable, "-m", "odradek.testing.sim"),
            *("--seed", str(seed), "--steps", "40", "--engines", NO_ENGINES),
        ],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout.splitlines()[0]


@pytest.mark.parametrize("seed", [3, 8, 10, 12])
def test_the_same_seed_is_the_same_run_byte_for_byte_whatever_the_hash_seed(seed: int) -> None:
    here = summary(run_seed(World(seed, 40)))
    lines = [summary_of_subprocess(seed, hash_seed) for hash_seed in ("0", "1", "4711")]
    assert "digest" in here
    assert lines == [here] * 3


def test_two_seeds_are_two_runs() -> None:
    digests = [run_seed(World(seed, 20)).world.scheduler.digest() for seed in (1, 2)]
    assert digests[0] != digests[1]


def test_a_failed_seed_is_explained_with_the_command_that_reproduces_it() -> None:
    world = World(3, 20)
    outcome = run_seed(world)
    lines = explain(outcome)
    command = "python -m odradek.testing.sim --seed 3 --steps 20 --engines none"
    assert f"  reproduce: {command}" in lines
    assert any("broker" in line for line in lines)
