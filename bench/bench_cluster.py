"""A cluster of three nodes, as ratios to Apache Kafka's on the same machine in the same run.

    python -m bench cluster -- [WORK ...] [--quick] [--turns 3] [--systems odradek,kafka]
    python -m bench cluster -- --table SINCE     what was measured since, such as 2026-11-23T05

    start       processes started to the first record on three replicas; a cluster in memory
    produce     big batches and single records, acks=all: CPU of all nodes, time of one in flight
    kills       kill -9 of a node, to the next ack on every partition; and SIGSTOP
    coordinator kill -9 of a transaction coordinator, to the next commit
    restart     a rolling restart under load
    partitions  1,000 partitions made, idle, led again after a kill; kills of the controller
    many        10,000 partitions, a kill of the controller
    catch-up    a node that missed 2 GB (--gigabytes) comes back

Each measurement has a new cluster; ours and Kafka's alternate. Kafka's timeouts are its defaults,
as ours are. `odradek` has `log.durability=os`, Kafka's own promise; `odradek fsync` is measured
beside it. Every measurement is appended to `bench/results/cluster.jsonl`, with its samples. A row
shows medians, or percentiles over the samples of all turns; rows that miss their aim come first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import cluster_load as load
from block_groups import spread_below
from cluster_load import Measured, percentile, progress
from clusters import ClusterProcesses, KafkaCluster, OdradekCluster, StartedTogether, jars
from odradek import leaves
from odradek.testing import Cluster
from peers import KafkaMissing

RESULTS = Path(__file__).parent / "results" / "cluster.jsonl"
SYSTEMS = ("odradek", "kafka", "odradek fsync")


class Bench:
    """The clusters of one run, and its measurements."""

    def __init__(self, work: Path, arguments: argparse.Namespace) -> None:
        self.work = work
        self.quick: bool = arguments.quick
        self.gigabytes: float = arguments.gigabytes or (0.2 if self.quick else 2.0)
        self.kills: int = arguments.kills or (2 if self.quick else 6)
        self.jars = jars() if "kafka" in arguments.systems else ""
        self._run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._directories = 0

    def directory(self) -> Path:
        self._directories += 1
        return self.work / f"cluster-{self._directories}-{self.work.name}"

    def cluster(self, system: str) -> ClusterProcesses:
        """Return a new cluster, which is not started yet."""
        if system == "kafka":
            return KafkaCluster(self.directory(), self.jars)
        return OdradekCluster(self.directory(), settings={"log.durability": durability(system)})

    def measure(self, work: str, system: str, turn: int) -> dict[str, Any]:
        """Do one measurement and keep it; one that fails is kept as that."""
        line: dict[str, Any] = {
            "run": self._run,
            "work": work,
            "system": system,
            "turn": turn,
            "quick": self.quick,
            "leaves": leaves.mode(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
        }
        print(f"  {work}: {system}, turn {turn + 1}", file=sys.stderr, flush=True)
        try:
            measured = WORK[work](self, system)
        except Exception as error:
            traceback.print_exc()
            line["failed"] = f"{type(error).__name__}: {error}"
        else:
            line["figures"] = {name: round(value, 4) for name, value in measured.figures.items()}
            line["samples"] = {
                name: [round(each, 5) for each in thinned(samples)]
                for name, samples in measured.samples.items()
            }
        with RESULTS.open("a") as out:
            out.write(json.dumps(line) + "\n")
        return line


def durability(system: str) -> str:
    return "fsync" if system.endswith("fsync") else "os"


KEPT_SAMPLES = 2000


def thinned(samples: list[float]) -> list[float]:
    """Return the samples in order of size, at most so many of them, evenly."""
    ordered = sorted(samples)
    if len(ordered) <= KEPT_SAMPLES:
        return ordered
    step = (len(ordered) - 1) / (KEPT_SAMPLES - 1)
    return [ordered[round(number * step)] for number in range(KEPT_SAMPLES)]


def start(bench: Bench, system: str) -> Measured:
    if system != "kafka":
        return start_together(bench, system)
    cluster = bench.cluster(system)
    began = time.perf_counter()
    try:
        for node_id in cluster.ports:
            cluster.spawn(node_id)
        load.first_ack(cluster.ports)
        took, cpu = time.perf_counter() - began, cluster.cpu_s()
    finally:
        cluster.close()
    progress(f"first ack {took:.2f} s, CPU {cpu:.2f} s")
    return Measured({"first_ack_s": took, "first_ack_cpu_s": cpu})


def start_together(bench: Bench, system: str) -> Measured:
    """The same with `up -n 3`; then the `Cluster` of tests, in the memory of this process."""
    settings = {"log.durability": durability(system)}
    began = time.perf_counter()
    nodes = StartedTogether(bench.directory(), settings)
    try:
        load.first_ack(nodes.await_ready())
        took, cpu = time.perf_counter() - began, nodes.cpu_s()
    finally:
        nodes.stop()
    began = time.perf_counter()
    with Cluster(3):
        in_memory = time.perf_counter() - began
    progress(f"first ack {took:.2f} s, CPU {cpu:.2f} s; in memory {in_memory:.2f} s")
    return Measured({"first_ack_s": took, "first_ack_cpu_s": cpu, "in_memory_s": in_memory})


def kills(bench: Bench, system: str) -> Measured:
    with bench.cluster(system) as cluster:
        measured = load.kills(cluster, bench.kills)
        measured.add(load.pauses(cluster, 1 if bench.quick else 3))
    return measured


def coordinator(bench: Bench, system: str) -> Measured:
    with bench.cluster(system) as cluster:
        return load.coordinator_kills(cluster, bench.kills)


def restart(bench: Bench, system: str) -> Measured:
    with bench.cluster(system) as cluster:
        return load.rolling_restart(cluster)


def produce(bench: Bench, system: str) -> Measured:
    gigabytes, seconds = (0.1, 2.0) if bench.quick else (1.0, 10.0)
    with bench.cluster(system) as cluster:
        return load.produce(cluster, gigabytes, seconds, bench.work)


def partitions(bench: Bench, system: str) -> Measured:
    with bench.cluster(system) as cluster:
        idle_s, kills = (5.0, 1) if bench.quick else (20.0, 3)
        return load.partitions(cluster, 1000, idle_s, kills)


def many(bench: Bench, system: str) -> Measured:
    with bench.cluster(system) as cluster:
        measured = load.partitions(cluster, 10_000, 0, 1)
    return Measured(
        {"many_made_s": measured.figures["made_s"]},
        {"many_controller_s": measured.samples["controller_s"]},
    )


def catch_up(bench: Bench, system: str) -> Measured:
    with bench.cluster(system) as cluster:
        return load.catch_up(cluster, bench.gigabytes)


WORK: dict[str, Callable[[Bench, str], Measured]] = {
    "start": start,
    "produce": produce,
    "kills": kills,
    "coordinator": coordinator,
    "restart": restart,
    "partitions": partitions,
    "many": many,
    "catch-up": catch_up,
}


Pick = Callable[[list[float]], float]


def at(percent: float) -> Pick:
    return lambda samples: percentile(samples, percent)


@dataclass(frozen=True)
class Row:
    """A row of the table: a figure, what is taken of its values, and its aims."""

    title: str
    unit: str
    figure: str
    pick: Pick = statistics.median
    ratio: float | None = None
    value: float | None = None
    more_is_better: bool = False
    scale: float = 1.0


ROWS = (
    Row("kill -9 of a node to the next ack of each partition, p50", "s", "kill_s", at(50), 0.25),
    Row("kill -9 to the next ack, p99", "s", "kill_s", at(99), 0.35),
    Row("kill -9 to the next ack, max", "s", "kill_s", max, 0.5),
    Row(
        "kill -9 of a transaction coordinator to the next commit, p50",
        "s",
        "coordinator_s",
        ratio=0.3,
    ),
    Row("kill -9 of a coordinator to the next commit, p99", "s", "coordinator_s", at(99), 0.4),
    Row("SIGSTOP of a node to the next ack of each partition, p50", "s", "pause_s", at(50), 1.0),
    Row("rolling restart under load: failed sends", "", "restart_failed", max, value=0),
    Row("rolling restart: longest gap between acks", "s", "restart_gap_s", ratio=0.5),
    Row("controller killed to CreateTopics, 1,000 partitions", "s", "controller_s", ratio=0.4),
    Row(
        "controller killed to CreateTopics, 10,000 partitions", "s", "many_controller_s", ratio=0.5
    ),
    Row("1,000 x RF 3 made and led", "s", "made_s", ratio=0.7, value=5),
    Row("1,000 x RF 3 made and led, all nodes", "CPU s", "made_cpu_s"),
    Row("10,000 x RF 3 made and led", "s", "many_made_s"),
    Row("1,000 x RF 3 all led again after a kill", "s", "led_again_s", ratio=0.4, value=3),
    Row("produce 1 KB, acks=all, all nodes", "CPU s/GB", "cpu_s_per_gb", ratio=0.6),
    Row("produce 1 KB, acks=all", "MB/s", "mb_per_s", more_is_better=True),
    Row("one record per request, 64 connections, all nodes", "CPU us", "cpu_us", ratio=0.8),
    Row("one record per request, 64 connections", "1/s", "per_s", more_is_better=True),
    Row("one in flight, acks=all, p50", "us", "one_s", at(50), 0.8, scale=1e6),
    Row("one in flight, acks=all, p99", "us", "one_s", at(99), 0.8, scale=1e6),
    Row("catch-up", "MB/s", "catch_up_mb_per_s", ratio=1.2, more_is_better=True),
    Row("catch-up, all nodes, with the produces meanwhile", "CPU s/GB", "catch_up_cpu_s_per_gb"),
    Row("produce during the catch-up, p99", "ms", "catching_up_produce_s", at(99), 1.0, scale=1e3),
    Row("produce before the catch-up, p99", "ms", "before_produce_s", at(99), scale=1e3),
    Row("catch-up: process start to in sync", "s", "back_s"),
    Row("idle with 1,000 x RF 3, all nodes", "% CPU", "idle_cpu_percent", ratio=0.3),
    Row("idle with 1,000 x RF 3, all nodes", "MiB Pss", "idle_pss_mib", ratio=0.15),
    Row("up -n 3 to the first ack, RF 3", "s", "first_ack_s", ratio=0.3, value=2),
    Row("Cluster(3) in memory", "s", "in_memory_s", value=0.5),
    Row("up -n 3 to the first ack, all nodes", "CPU s", "first_ack_cpu_s"),
)


class Comparison:
    """A row with what was measured of it."""

    def __init__(self, row: Row, lines: Iterable[dict[str, Any]]) -> None:
        self.row = row
        self.values: dict[str, float] = {}
        of_turns: dict[str, dict[object, float]] = {}
        pooled: dict[str, list[float]] = {}
        for line in lines:
            values = [
                value * row.scale
                for value in line.get("samples", {}).get(row.figure)
                or [line.get("figures", {}).get(row.figure)]
                if value is not None
            ]
            if values:
                pooled.setdefault(line["system"], []).extend(values)
                turn = (line["run"], line["turn"])
                of_turns.setdefault(line["system"], {})[turn] = row.pick(values)
        self.values = {system: row.pick(values) for system, values in pooled.items()}
        ours, kafka = of_turns.get("odradek", {}), of_turns.get("kafka", {})
        self.ratios = [ours[turn] / kafka[turn] for turn in ours if kafka.get(turn)]

    @property
    def ratio(self) -> float | None:
        ours, kafka = self.values.get("odradek"), self.values.get("kafka")
        return ours / kafka if ours is not None and kafka else None

    @property
    def met(self) -> bool | None:
        """True if all aims are reached; None without an aim, or without figures."""
        row, found = self.row, []
        if row.ratio is not None and self.ratio is not None:
            more = self.ratio >= row.ratio
            found.append(more if row.more_is_better else self.ratio <= row.ratio)
        if row.value is not None and "odradek" in self.values:
            found.append(self.values["odradek"] <= row.value)
        return all(found) if found else None

    def cells(self) -> list[str]:
        row = self.row
        aims = [f"{row.ratio:g} x" if row.ratio is not None else ""]
        aims.append(f"{row.value:g}" if row.value is not None else "")
        between = f"{min(self.ratios):.2f}-{max(self.ratios):.2f}" if self.ratios else ""
        return [
            row.title,
            row.unit,
            *(figure_text(self.values.get(system)) for system in SYSTEMS),
            "" if self.ratio is None else f"{self.ratio:.2f}",
            between,
            ", ".join(filter(None, aims)),
        ]


def figure_text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def show(lines: list[dict[str, Any]]) -> None:
    found = [Comparison(row, lines) for row in ROWS]
    found = [each for each in found if each.values]
    # Lost ones first, then those without an aim's figures, then those that reach it.
    order = {False: 0, None: 1, True: 2}
    table = Table(title=f"three nodes against Apache Kafka, leaves {leaves_of(lines)}")
    for column in ("row", "unit", "ours", "Kafka", "fsync", "ratio", "turns", "aim", ""):
        table.add_column(column, justify="left" if column in ("row", "unit") else "right")
    for each in sorted(found, key=lambda each: order[each.met]):
        met = {True: "reached", False: "[red]short[/red]", None: ""}[each.met]
        table.add_row(*each.cells(), met)
    Console(width=150).print(table)
    for line in lines:
        if "failed" in line:
            print(f"failed: {line['work']}, {line['system']}: {line['failed']}")


def leaves_of(lines: list[dict[str, Any]]) -> str:
    return ", ".join(sorted({line["leaves"] for line in lines}))


def kept(since: str) -> Iterator[dict[str, Any]]:
    for text in RESULTS.read_text().splitlines():
        line = json.loads(text)
        if line["run"] >= since:
            yield line


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", nargs="*", help=f"{', '.join(WORK)}; all of them by default")
    parser.add_argument("--quick", action="store_true", help="some minutes, rough figures")
    parser.add_argument("--turns", type=int, default=0, help="2 by default, 1 with --quick")
    parser.add_argument("--kills", type=int, default=0, help="of each turn of `kills`")
    parser.add_argument("--gigabytes", type=float, default=0, help="that a node misses")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--table", metavar="SINCE", help="show what was measured since a time")
    arguments = parser.parse_args()
    if arguments.table is not None:
        show(list(kept(arguments.table)))
        return 0
    unknown = [name for name in arguments.work if name not in WORK]
    systems = arguments.systems.split(",")
    unknown += [name for name in systems if name not in SYSTEMS]
    if unknown:
        parser.error(f"no {', '.join(unknown)}: there are {', '.join((*WORK, *SYSTEMS))}")
    RESULTS.parent.mkdir(exist_ok=True)
    lines = []
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as work:
        spread_below(Path(work))
        try:
            bench = Bench(Path(work), arguments)
        except KafkaMissing as missing:
            print(f"bench: {missing}", file=sys.stderr)
            return 1
        for name in arguments.work or WORK:
            for turn in range(arguments.turns or (1 if bench.quick else 2)):
                for system in systems:
                    lines.append(bench.measure(name, system, turn))
                    remove_below(bench.work)
    show(lines)
    return 1 if any("failed" in line for line in lines) else 0


def remove_below(work: Path) -> None:
    """Give the disk back after each measurement."""
    for each in work.iterdir():
        if each.is_dir():
            shutil.rmtree(each)


if __name__ == "__main__":
    sys.exit(main())
