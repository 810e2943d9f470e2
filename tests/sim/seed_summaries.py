"""Runs seeds of the simulator and prints the summary of each: `seed_summaries.py`.

One process for all of them, because imports take longer than most of the runs.
"""

from __future__ import annotations

from functools import cache

from odradek.testing.sim import run_seed, summary
from odradek.testing.world import BOTH, NO_ENGINES, ONLY_ENGINES, World

RUNS = (
    *((seed, 40, NO_ENGINES) for seed in (3, 8, 10, 12)),
    (9, 20, ONLY_ENGINES),
    (8, 20, BOTH),
)
"""Seeds, steps and clients."""


@cache
def summaries() -> list[str]:
    return [summary(run_seed(World(seed, steps, engines=engines))) for seed, steps, engines in RUNS]


if __name__ == "__main__":
    print(*summaries(), sep="\n")
