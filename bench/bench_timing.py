"""Timers and purgatory, as ratios to asyncio and to Apache Kafka's purgatory in the same run.

    python bench/bench_timing.py [--pairs 5] [--requests 1000000]
    KAFKA_CLASSPATH=... python bench/bench_timing.py     # with the row against Kafka (needs a JDK)

The purgatory load is that of "Purgatory and Hierarchical Timing Wheels" (Confluent, 2015):
requests that watch 3 of 100 keys for at most 200 ms, and complete after a log-normal time of p50
20 and p75 60 ms, or 200 and 400 ms. See `timing_load` for the contenders, `timing_timers` for the
timers, `PurgatoryDriver.java` for Kafka.

Every measurement runs in a process of its own; ours and the peer's alternate. Shown is the median
of the ratios of the pairs, with the least and the greatest; below 1 ours is cheaper. "Less the
load" is the ratio after what the load alone costs (creating the requests, deciding when they
complete) is taken off both; for Kafka it is not known. Every measurement is appended to
`bench/results/timing.jsonl`. The garbage collectors have their default settings.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from odradek import leaves

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "timing.jsonl"
MIXES = {"p50 20 ms": (20, 60), "p50 200 ms": (200, 400)}
RATE = 500_000
Measured = dict[str, float]


class Bench:
    """Runs, records and compares. `run_id` ties the lines of one run together."""

    def __init__(self, pairs: int, requests: int) -> None:
        self.pairs, self.requests = pairs, requests
        self.run_id = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.table = Table(title=f"timing: leaves {leaves.mode()}, {pairs} pairs")
        for column in ("row", "peer", "ours", "peer's", "ratio", "min - max", "less the load"):
            self.table.add_column(column, justify="left" if column in ("row", "peer") else "right")

    def python(self, script: str, *arguments: object) -> Measured:
        command = [sys.executable, str(HERE / script), *map(str, arguments)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return self.record([script, *map(str, arguments)], json.loads(printed))

    def record(self, what: list[str], measured: Measured) -> Measured:
        line = {
            "run": self.run_id,
            "what": what,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            **measured,
        }
        with RESULTS.open("a") as out:
            out.write(json.dumps(line) + "\n")
        return measured

    def compare(
        self,
        row: str,
        peer: str,
        unit: str,
        ours: Callable[[], Measured],
        theirs: Callable[[], Measured],
        load: float | None = None,
    ) -> None:
        """Alternate the two, show `unit` of both and its ratio. `load` is what to take off both."""
        mine, his = [], []
        for _ in range(self.pairs):
            mine.append(ours()[unit])
            his.append(theirs()[unit])
        ratios = [a / b for a, b in zip(mine, his, strict=True)]
        net = ""
        if load is not None:
            nets = [(a - load) / (b - load) for a, b in zip(mine, his, strict=True)]
            net = f"{statistics.median(nets):.3f}"
        self.table.add_row(
            f"{row}, {unit}",
            peer,
            f"{statistics.median(mine):.2f}",
            f"{statistics.median(his):.2f}",
            f"{statistics.median(ratios):.3f}",
            f"{min(ratios):.3f} - {max(ratios):.3f}",
            net,
        )

    def purgatory(self, mix: str, peer: str, rate: int) -> None:
        p50, p75 = MIXES[mix]

        def run(contender: str) -> Measured:
            return self.python("timing_load.py", contender, self.requests, p50, p75, rate)

        load = statistics.median(run("nothing")["cpu_us"] for _ in range(3))
        how = f"{rate:,}/s simulated" if rate else "flat out"
        self.compare(
            f"purgatory, {mix}, {how}", peer, "cpu_us", lambda: run("ours"), lambda: run(peer), load
        )

    def kafka(self, mix: str, classpath: str, classes: str) -> None:
        p50, p75 = MIXES[mix]
        command = ["java", "-Xms1G", "-Xmx1G", "-cp", f"{classpath}{os.pathsep}{classes}"]
        command += ["PurgatoryDriver", str(self.requests), str(p50), str(p75), "4"]

        def theirs() -> Measured:
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            repetitions = [json.loads(line) for line in printed.splitlines()]
            warm = repetitions[1:]  # the first one warms up the machine's compiler
            best = min(warm, key=lambda measured: measured["cpu_us"])
            return self.record(["PurgatoryDriver.java", *command[-4:]], best)

        def ours() -> Measured:
            return self.python("timing_load.py", "ours", self.requests, p50, p75, 0)

        self.compare(f"purgatory, {mix}, flat out", "Apache Kafka", "cpu_us", ours, theirs)

    def timers(self, pending: int) -> None:
        for unit in ("start_cancel_ns", "longest_stall_ms"):
            self.compare(
                f"timers, {pending:,} pending",
                "asyncio",
                unit,
                lambda: self.python("timing_timers.py", "ours", pending),
                lambda: self.python("timing_timers.py", "asyncio", pending),
            )

    def growth(self) -> None:
        """Our own cost at a million pending over that at a thousand."""
        few, many = [], []
        for _ in range(self.pairs):
            few.append(self.python("timing_timers.py", "ours", 1_000)["start_cancel_ns"])
            many.append(self.python("timing_timers.py", "ours", 1_000_000)["start_cancel_ns"])
        ratios = [b / a for a, b in zip(few, many, strict=True)]
        self.table.add_row(
            "timers, 1e6 over 1e3 pending, start_cancel_ns",
            "ours at 1e3",
            f"{statistics.median(many):.2f}",
            f"{statistics.median(few):.2f}",
            f"{statistics.median(ratios):.3f}",
            f"{min(ratios):.3f} - {max(ratios):.3f}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1_000_000)
    options = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    bench = Bench(options.pairs, options.requests)
    bench.timers(100_000)
    bench.growth()
    for mix in MIXES:
        bench.purgatory(mix, "asyncio", 0)
        bench.purgatory(mix, "asyncio", RATE)
        bench.purgatory(mix, "wait_for", 0)
    classpath = os.environ.get("KAFKA_CLASSPATH")
    if classpath:
        with tempfile.TemporaryDirectory() as classes:
            driver = str(HERE / "PurgatoryDriver.java")
            subprocess.run(["javac", "-cp", classpath, "-d", classes, driver], check=True)
            for mix in MIXES:
                bench.kafka(mix, classpath, classes)
    else:
        bench.table.caption = "KAFKA_CLASSPATH is not set: no row against Apache Kafka"
    Console(width=None if sys.stdout.isatty() else 140).print(bench.table)


if __name__ == "__main__":
    main()
