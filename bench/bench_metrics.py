"""What metrics cost: counting a request, and a scrape of a broker with many partitions.

    python bench/bench_metrics.py [--partitions 1000] [--scrapes 20]

*Counting*: the time of one value added to a histogram and of all that is counted of a request that
waits (five values, one reading of the clock), beside a histogram of prometheus_client with a label.

*Scrapes*: `odradek up --http` in a process of its own, over HTTP. The CPU time is that of the whole
process (/proc/<pid>/task/*/schedstat), less what it used in as long a time without scrapes. Of the
turns of the loop meanwhile, which `turn_probe` measures, the longest by the CPU time of the loop's
thread is shown, and the longest by wall time. Beside it: prometheus_client renders as many samples
in this process.

Medians are shown; every measurement is appended to `bench/results/metrics.jsonl`.
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
import urllib.request
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client import Histogram as ClientHistogram
from rich.console import Console
from rich.table import Table

from odradek import Admin, Producer, leaves
from odradek.broker.request_metrics import ApiMetrics
from odradek.model.histogram import Histogram
from odradek.model.stopwatch import Stopwatch
from peers import BROKER_CORE, CLIENT_CORE
from turn_probe import PROBE, turns

RESULTS = Path(__file__).parent / "results" / "metrics.jsonl"
CALLS = 200_000
PAGES = ("/metrics", "/metrics/partitions")


def nanoseconds(call: Callable[[int], object]) -> float:
    """The time of one call, the least of five rounds."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter_ns()
        for value in range(CALLS):
            call(value)
        best = min(best, (time.perf_counter_ns() - began) / CALLS)
    return best


def counting() -> dict[str, float]:
    histogram, metrics = Histogram(), ApiMetrics("Produce")
    stopwatch = Stopwatch(time.monotonic_ns)

    def request(value: int) -> None:
        began_ns = stopwatch.last_ns
        metrics.request_bytes.observe(value)
        ended_ns = stopwatch.read()
        metrics.before_wait.observe(ended_ns - began_ns)
        metrics.delayed.observe(ended_ns - began_ns)
        metrics.waited.observe(ended_ns - began_ns)
        metrics.response_bytes.observe(value)

    peer = ClientHistogram("peer", "A peer.", ["api"], registry=CollectorRegistry())
    peers_child = peer.labels("Produce")
    return {
        "a call alone": nanoseconds(lambda value: None),
        "a value": nanoseconds(histogram.observe),
        "a request": nanoseconds(request),
        "a value, prometheus_client": nanoseconds(peers_child.observe),
    }


def cpu_ns(pid: int) -> int:
    """The CPU time of all threads of a process so far."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def scrapes(partitions: int, count: int, directory: str) -> list[dict[str, float | str]]:
    turns_file = Path(directory) / "turns"
    command = [sys.executable, str(PROBE), str(turns_file), "up", "--json"]
    command += ["--port", "0", "--http", "127.0.0.1:0", "--data-dir", f"{directory}/data"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        os.sched_setaffinity(broker.pid, {BROKER_CORE})
        os.sched_setaffinity(0, {CLIENT_CORE})
        try:
            assert broker.stdout is not None
            ready = json.loads(broker.stdout.readline())
            return scrapes_of(broker.pid, turns_file, ready, partitions, count)
        finally:
            broker.terminate()


def scrapes_of(
    pid: int, turns_file: Path, ready: dict[str, str], partitions: int, count: int
) -> list[dict[str, float | str]]:
    """Scrape each page of a broker `count` times, with a topic of so many partitions."""
    with Admin(brokers=ready["bootstrap"]) as admin:
        admin.create_topic("bench", partitions=partitions)
    with Producer(brokers=ready["bootstrap"]) as producer:
        for number in range(partitions):
            producer.send("bench", value=b"x" * 100, partition=number)
    url = ready["http"]
    measured: list[dict[str, float | str]] = []
    for page in PAGES:
        samples = sum(not line.startswith("#") for line in get(url + page).splitlines())
        time.sleep(1)
        since = time.monotonic()
        for _ in range(count):
            began, began_s = cpu_ns(pid), time.monotonic()
            get(url + page)
            used, took = cpu_ns(pid) - began, time.monotonic() - began_s
            began = cpu_ns(pid)
            time.sleep(took)
            idle = cpu_ns(pid) - began
            measured.append(
                {"page": page, "samples": samples, "cpu_ms": (used - idle) / 1e6, "s": took}
            )
        cpu_ms, wall_ms = (max(column) for column in zip((0.0, 0.0), *turns(turns_file, since)))
        measured[-1] |= {"longest_turn_cpu_ms": cpu_ms, "longest_turn_wall_ms": wall_ms}
    return measured


def peer_ms(samples: int) -> float:
    """The CPU time for rendering as many gauges of prometheus_client, the least of three."""
    registry = CollectorRegistry()
    gauge = Gauge("peer", "A peer.", ["topic", "partition"], registry=registry)
    for number in range(samples):
        gauge.labels("bench", str(number)).set(number)
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        generate_latest(registry)
        best = min(best, time.process_time() - began)
    return best * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--scrapes", type=int, default=20)
    arguments = parser.parse_args()
    run = {
        "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "leaves": leaves.mode(),
        "python": platform.python_version(),
    }
    lines: list[dict[str, object]] = []
    table = Table(title=f"metrics: leaves {leaves.mode()}, {arguments.partitions} partitions")
    for column in ("what", "ours", "prometheus_client"):
        table.add_column(column, justify="left" if column == "what" else "right")
    counted = counting()
    lines.append({**run, "row": "counting", **counted})
    peer = counted["a value, prometheus_client"]
    table.add_row("a value, ns", f"{counted['a value']:.0f}", f"{peer:.0f}")
    table.add_row("a request, ns", f"{counted['a request']:.0f}", "")
    with tempfile.TemporaryDirectory() as directory:
        measured = scrapes(arguments.partitions, arguments.scrapes, directory)
    lines += [{**run, "row": "scrape", **each} for each in measured]
    for page in PAGES:
        of_page = [each for each in measured if each["page"] == page]
        samples = int(of_page[0]["samples"])
        peers = peer_ms(samples)
        lines.append({**run, "row": "peer", "samples": samples, "cpu_ms": peers})
        cpu = statistics.median(float(each["cpu_ms"]) for each in of_page)
        table.add_row(f"{page}, {samples:,} samples: CPU ms", f"{cpu:.1f}", f"{peers:.1f}")
        longest = [float(of_page[-1][f"longest_turn_{kind}_ms"]) for kind in ("cpu", "wall")]
        shown = " / ".join(f"{each:.2f}" for each in longest)
        table.add_row(f"{page}: longest turn, CPU / wall ms", shown, "")
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    Console().print(table)


if __name__ == "__main__":
    main()
