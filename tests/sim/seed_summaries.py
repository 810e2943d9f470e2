"""Runs seeds of the simulator and prints the summary of each: `seed_summaries.py`.

One process for all of them, because imports take longer than most of the runs.
"""

from __future__ import annotations

from odradek.testing.sim import run_seed, summary
from odradek.testing.world import BOTH, DRAWN, NO_ENGINES, ONLY_ENGINES, World

RUNS = (
    *((seed, 15, NO_ENGINES, 1) for seed in (3, 8, 10, 12, 13, 14, 15, 16, 17, 18)),
    *((seed, 8, NO_ENGINES, DRAWN) for seed in range(1, 21)),
    (9, 10, ONLY_ENGINES, 1),
    (8, 10, BOTH, 1),
)
"""Seeds, steps, clients and brokers; clusters are brief."""


def summaries() -> list[str]:
    return [
        summary(
            run_seed(World(seed, steps, engines=engines, brokers=brokers, brief=brokers == DRAWN))
        )
        for seed, steps, engines, brokers in RUNS
    ]


if __name__ == "__main__":
    print(*summaries(), sep="\n")
