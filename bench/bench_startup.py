"""How long a start takes: an import, the help, a broker until it is ready; beside other clients.

    python bench/bench_startup.py [--rounds 20]

Each start is a process of its own, with compiled bytecode (there is a round before those that
count) and files in the page cache. Wall time is what a user waits; CPU time (of all threads, from
the kernel) says more on a busy machine. The broker's data directory is new, and it is ready when
its line is there. Rounds are interleaved; the median and the least are shown, every round is
appended to `bench/results/startup.jsonl`.
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
from pathlib import Path

import odradek

RESULTS = Path(__file__).parent / "results" / "startup.jsonl"
AIMS_MS = {"import odradek": 120, "odradek --help": 150, "odradek up": 300}
COMMANDS = {
    "python alone": ["-c", "pass"],
    "import odradek": ["-c", "import odradek"],
    "import odradek, a producer's class": ["-c", "from odradek import Producer"],
    "import confluent_kafka": ["-c", "import confluent_kafka"],
    "import kafka (kafka-python)": ["-c", "import kafka"],
    "import aiokafka": ["-c", "import aiokafka"],
    "odradek --help": ["-m", "odradek", "--help"],
    "odradek up": ["-m", "odradek", "up", "--port", "0", "--json", "--data-dir"],
}
BROKER = "odradek up"


def start(work: str) -> dict[str, float]:
    """The milliseconds of one start: until the process ends, or the broker is ready."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *COMMANDS[work]]
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as data:
        if work == BROKER:
            command.append(data)
        began = time.perf_counter()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            assert process.stdout is not None
            if work == BROKER:
                ready = process.stdout.readline()
                wall_ms = (time.perf_counter() - began) * 1000
                assert ready, "the broker did not start"
                cpu_ms = cpu_ms_so_far(process.pid)
                process.terminate()
                process.wait()
            else:
                process.stdout.read()
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                wall_ms = (time.perf_counter() - began) * 1000
                assert process.returncode == 0, work
                cpu_ms = (used.ru_utime + used.ru_stime) * 1000
    return {"wall_ms": round(wall_ms, 1), "cpu_ms": round(cpu_ms, 1)}


def cpu_ms_so_far(pid: int) -> float:
    """The CPU time of all threads that a process has."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    about = {
        "python": platform.python_version(),
        "leaves": odradek.leaves.mode(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "at": int(time.time()),
    }
    for work in COMMANDS:
        start(work)  # Writes the bytecode.
    rows: dict[str, list[dict[str, float]]] = {work: [] for work in COMMANDS}
    for number in range(arguments.rounds):
        for work, mine in rows.items():
            mine.append(start(work))
            keep({"work": work, "round": number, **mine[-1], **about})
    print(f"leaves {about['leaves']}, load {about['load']}")
    print(f"{'work':36s} {'wall ms':>8s} {'least':>7s} {'CPU ms':>8s} {'least':>7s} {'aim':>5s}")
    for work, mine in rows.items():
        wall, cpu = [row["wall_ms"] for row in mine], [row["cpu_ms"] for row in mine]
        print(
            f"{work:36s} {statistics.median(wall):8.0f} {min(wall):7.0f} "
            f"{statistics.median(cpu):8.0f} {min(cpu):7.0f} {AIMS_MS.get(work, ''):>5}"
        )


def keep(row: dict[str, object]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as results:
        results.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
