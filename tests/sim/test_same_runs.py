"""A seed is one run: byte for byte the same, in any process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from odradek.testing.sim import run_seed
from odradek.testing.world import World
from sim import seed_summaries
from sim.seed_summaries import RUNS, summaries


def summaries_of_subprocess(hash_seed: str) -> list[str]:
    return subprocess.run(
        [sys.executable, seed_summaries.__file__],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_a_seed_is_the_same_run_byte_for_byte_whatever_the_hash_seed(hash_seed: str) -> None:
    here = summaries()
    assert [line for line in here if "digest" in line] == here
    assert len(here) == len(RUNS)
    assert summaries_of_subprocess(hash_seed) == here


def test_two_seeds_are_two_runs() -> None:
    digests = [run_seed(World(seed, 20)).world.scheduler.digest() for seed in (1, 2)]
    assert digests[0] != digests[1]
