"""A seed is one run: byte for byte the same, in any process."""

from __future__ import annotations

import os
import subprocess
import sys

from odradek.testing.sim import run_seed
from odradek.testing.world import World
from sim import seed_summaries
from sim.seed_summaries import RUNS


def summaries_of_subprocess(hash_seed: str) -> list[str]:
    return subprocess.run(
        [sys.executable, seed_summaries.__file__],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()


def test_a_seed_is_the_same_run_byte_for_byte_whatever_the_hash_seed() -> None:
    one, other = (summaries_of_subprocess(hash_seed) for hash_seed in ("0", "4711"))
    assert [line for line in one if "digest" in line] == one
    assert len(one) == len(RUNS)
    assert one == other


def test_two_seeds_are_two_runs() -> None:
    digests = [run_seed(World(seed, 20)).world.scheduler.digest() for seed in (1, 2)]
    assert digests[0] != digests[1]
