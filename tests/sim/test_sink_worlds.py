"""Seeds of queries that write exactly once, to one broker and to clusters under faults.

The rows of the table are those of docs/spark/exactly-once.md: what may be lost, and when.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from odradek.testing.sim import explain, run_seed, summary
from odradek.testing.world import DRAWN, World
from sim.broken_parts import BrokenPart, find
from sim.broken_sinks import SINK_PARTS
from sim.sink_world import sink_world

ROOT = Path(__file__).parents[2]
ONE_BROKER, CLUSTERS = range(20), range(4)
MOST_SEEDS = 25
TABLE = {
    "an attempt is killed, retried, speculative, or denied": (
        "an attempt is killed",
        "an attempt is retried",
        "an attempt is speculative",
        "an attempt is denied",
        "a loser is Ongoing",
        "a loser is Empty",
    ),
    "an executor is lost after its message": (
        "an executor is lost after its message",
        "a driver ends what a lost executor wrote",
    ),
    "the driver is lost before the decision": (
        "a driver is killed in tasks",
        "a driver is killed in ShutOutOlderDrivers",
        "a driver is killed in ReadLedger",
        "a driver is killed in WriteDecision",
    ),
    "the driver is lost while it ends transactions, or before Spark's commit log": (
        "a driver is killed in EndTransactions",
        "a driver is killed in FenceLosers",
        "a driver is killed in commit log",
        "a replay writes nothing",
    ),
    "two drivers use one checkpoint": (
        "two drivers",
        "stopped by the commit log",
    ),
    "the driver is away for longer than transactions may be open, after the decision": (
        "a driver is paused in EndTransactions",
        "an end is ambiguous",
        "rows are copied",
    ),
}


@cache
def run_of(seed: int, brokers: int) -> tuple[bool, str, str, Counter[str]]:
    """Return whether a run kept the rules, its summary, its explanation, its sites."""
    world = sink_world(seed, brokers)
    outcome = run_seed(world)
    explanation = "" if outcome.kept else "\n".join([summary(outcome), *explain(outcome)])
    return outcome.kept, summary(outcome), explanation, world.scheduler.sites


@pytest.mark.parametrize("seed", ONE_BROKER)
def test_a_seed_of_queries_at_one_broker(seed: int) -> None:
    kept, _, explanation, _ = run_of(seed, 1)
    assert kept, explanation


@pytest.mark.parametrize("seed", CLUSTERS)
def test_a_seed_of_queries_in_a_cluster(seed: int) -> None:
    kept, _, explanation, _ = run_of(seed, DRAWN)
    assert kept, explanation


@pytest.mark.parametrize("row", TABLE)
def test_the_seeds_reach_each_row_of_the_table(row: str) -> None:
    runs = [run_of(seed, 1) for seed in ONE_BROKER] + [run_of(seed, DRAWN) for seed in CLUSTERS]
    sites = sum((run[3] for run in runs), Counter[str]())
    assert [what for what in TABLE[row] if not sites[f"sink: {what}"]] == []


def test_a_run_of_queries_is_the_same_again() -> None:
    _, first, _, _ = run_of(0, 1)
    assert summary(run_seed(sink_world(0, 1))) == first


@pytest.mark.parametrize("part", SINK_PARTS, ids=lambda part: part.name)
def test_a_sink_with_a_broken_part_is_found(part: BrokenPart) -> None:
    assert find(part, part.seed, MOST_SEEDS) is not None


@pytest.mark.parametrize("keeps_a_part", [False, True], ids=["whole", "shrunk"])
def test_the_command_that_a_failed_world_prints_makes_it_again(keeps_a_part: bool) -> None:
    world = sink_world(2, 1)
    if keeps_a_part:
        world = world.keeping(world.parts()[:1])
    outcome = run_seed(world)
    (reproduce,) = [line for line in explain(outcome) if "reproduce: " in line]
    command = reproduce.partition("reproduce: PYTHONPATH=tests python ")[2]
    done = subprocess.run(
        [sys.executable, *shlex.split(command)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[0] == summary(outcome), done.stderr


def test_a_world_that_a_test_has_changed_says_that_only_its_test_makes_it() -> None:
    world = sink_world(1, 1, adjust=lambda schedule: replace(schedule, faults=[]))
    assert "only its test, which changes adjust, brings of" in world.reproduction()


def test_a_world_that_is_shrunk_keeps_its_queries() -> None:
    world = sink_world(1, 1)
    smaller = world.keeping(world.parts()[:1])
    assert isinstance(smaller, World)
    assert type(smaller.further) is type(world.further)
