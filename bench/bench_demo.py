"""The demo's seconds: the whole command, its pipeline in a new Spark, and once more in a warm one.

    python -m bench demo [-- --rounds 3]

A round is `odradek demo` as a process of its own, from the command to its end, whose stages it
prints; and a session as the demo's in which the pipeline runs twice over the same topic of all
flights, each time with new checkpoints and a new table. The medians are shown, and every round is
appended to `bench/results/demo.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
from rich.console import Console
from rich.table import Table

from odradek import leaves
from odradek.demo import flights, replay
from odradek.demo.broker_process import BrokerProcess
from odradek.demo.pipeline import FLIGHTS_TOPIC, Locations
from odradek.demo.run import MASTER, SPARK_SETTINGS, TOPICS, DemoRun, DemoSettings, Stages
from odradek.spark import local_session

RESULTS = Path(__file__).parent / "results" / "demo.jsonl"
COMMAND, COLD, WARM = "the command", "pipeline, cold", "pipeline, again in the warm Spark"
AIMS_S = {COMMAND: 25, COLD: 15, WARM: 8}
STAGE = re.compile(r"(\D+) (\d+\.\d) s(?:, )?")


def command() -> dict[str, float]:
    """Run the demo as a user does; return its stages' seconds, and those until it has ended."""
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as output:
        began = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-m", "odradek", "demo", "--output", f"{output}/demo"],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "400"},
            check=True,
        )
        seconds = time.perf_counter() - began
    stages = next(line for line in ended.stdout.splitlines() if " s in all: " in line)
    spent = {name: float(value) for name, value in STAGE.findall(stages.partition(": ")[2])}
    return {COMMAND: seconds, COLD: spent["pipeline"], **spent}


def warm() -> dict[str, float]:
    """Run the pipeline twice in one session; return the seconds of both."""
    with (
        tempfile.TemporaryDirectory(prefix="odradek-bench-") as work,
        BrokerProcess(Path(work) / "broker", Path(work) / "broker.log") as broker,
        ThreadPoolExecutor(1) as workers,
    ):
        replay.create_topics(broker.bootstrap, TOPICS)
        replay.replay(broker.bootstrap, FLIGHTS_TOPIC, flights.events(), progress=lambda sent: None)
        spark = local_session(
            "bench demo",
            master=MASTER,
            quick_start=True,
            log_file=Path(work) / "spark.log",
            config=SPARK_SETTINGS,
        )
        try:
            return {
                row: pipeline_seconds(spark, broker.bootstrap, Path(work) / str(number), workers)
                for number, row in enumerate(("first pipeline of a session", WARM))
            }
        finally:
            spark.stop()


def pipeline_seconds(
    spark: pyspark.sql.SparkSession,
    bootstrap: str,
    directory: Path,
    workers: ThreadPoolExecutor,
) -> float:
    """Run both queries over all flights, with new checkpoints in the directory."""
    silent = Console(quiet=True)
    work = DemoRun(
        DemoSettings(directory),
        Locations(bootstrap, directory),
        silent,
        Stages(),
        threading.Event(),
        workers,
    )
    began = time.perf_counter()
    for query in work.start(spark, live=False).values():
        query.awaitTermination()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    taken: list[dict[str, float]] = []
    run_id = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for number in range(arguments.rounds):
        load = os.getloadavg()[0]
        figures = {**command(), **warm()}
        taken.append(figures)
        with RESULTS.open("a") as out:
            line = {
                "run": run_id,
                "leaves": leaves.mode(),
                "spark": pyspark.__version__,
                "python": platform.python_version(),
                "cores": os.cpu_count(),
                "load": load,
                **{name: round(value, 2) for name, value in figures.items()},
            }
            out.write(json.dumps(line) + "\n")
        print(f"  round {number}: {figures}", file=sys.stderr)
    table = Table(title=f"All flights, leaves {leaves.mode()}, {arguments.rounds} rounds")
    for column in ("work", "s", "min - max", "aim"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for row in taken[0]:
        values = [each[row] for each in taken]
        table.add_row(
            row,
            f"{statistics.median(values):.1f}",
            f"{min(values):.1f} - {max(values):.1f}",
            str(AIMS_S.get(row, "")),
        )
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
