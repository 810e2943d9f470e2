"""How fast the simulator is, and whether its runs are exact.

    python -m bench sim [-- --seeds 20 --replays 200]

*Speed*: clusters of three brokers whose plans have six clients (the first such seeds), with their
faults and the clients of an operator: virtual time to the processor time of this process, which
runs one after the other. *Replays*: seeds of clusters with transactions, each run in two processes
with different hash seeds; the digests of all events must be the same. There is no peer. Every run
is appended to `bench/results/sim.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from odradek import leaves
from odradek.testing.sim import run_seed, summary
from odradek.testing.world import World

RESULTS = Path(__file__).parent / "results" / "sim.jsonl"
BROKERS, CLIENTS = 3, 6
AIM = 20.0
HASH_SEEDS = ("0", "4711")


def worlds() -> Iterator[World]:
    """Yield the worlds of three brokers and six clients, by seed."""
    for seed in count(1):
        world = World(seed, brokers=BROKERS)
        plan = world.plan
        if len(plan.producers) + len(plan.readers) + len(plan.trimmers) == CLIENTS:
            yield world


def speeds(seeds: int) -> list[dict[str, object]]:
    """Run so many worlds; return virtual and processor seconds of each."""
    rows: list[dict[str, object]] = []
    for world, _ in zip(worlds(), range(seeds)):
        began = time.process_time()
        outcome = run_seed(world)
        cpu_s = time.process_time() - began
        if not outcome.kept:
            raise SystemExit(f"bench: {summary(outcome)}")
        virtual_s = world.scheduler.now_ns / 1e9
        rows.append({"row": "speed", "seed": world.seed, "virtual_s": virtual_s, "cpu_s": cpu_s})
    return rows


def digests(first: int, replays: int, hash_seed: str) -> subprocess.Popen[str]:
    """Start the simulator on so many seeds; it prints a line of each."""
    command = [sys.executable, "-m", "odradek.testing.sim", "--world", "cluster", "--transactions"]
    return subprocess.Popen(
        [*command, "--seed", str(first), "--count", str(replays)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )


def same_runs(first: int, replays: int) -> int:
    """Return how many seeds were the same run in two processes at the same time."""
    outputs = [digests(first, replays, hash_seed) for hash_seed in HASH_SEEDS]
    lines = []
    for process in outputs:
        text, _ = process.communicate()
        lines.append([line for line in text.splitlines() if " digest " in line])
    return sum(one == other for one, other in zip(*lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--first", type=int, default=1, help="the first seed that is replayed")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    run = {
        "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "leaves": leaves.mode(),
        "python": platform.python_version(),
    }
    table = Table(title=f"simulator: leaves {leaves.mode()}")
    for column in ("what", "measured", "aim"):
        table.add_column(column, justify="left" if column == "what" else "right")
    rows = speeds(arguments.seeds)
    if rows:
        virtual_s = sum(float(str(row["virtual_s"])) for row in rows)
        cpu_s = sum(float(str(row["cpu_s"])) for row in rows)
        what = f"{BROKERS} brokers, {CLIENTS} clients, {len(rows)} seeds: virtual s to CPU s"
        table.add_row(what, f"{virtual_s / cpu_s:.1f}", f"{AIM:.0f}")
    if arguments.replays:
        same = same_runs(arguments.first, arguments.replays)
        rows.append({"row": "replays", "seeds": arguments.replays, "same": same})
        table.add_row("seeds replayed exactly", f"{same} of {arguments.replays}", "all")
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.writelines(json.dumps({**run, **row}) + "\n" for row in rows)
    Console().print(table)


if __name__ == "__main__":
    main()
