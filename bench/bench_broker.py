"""The broker, as ratios to Apache Kafka on the same machine in the same run.

    python -m bench broker -- [--quick] [--only WORD]
    KAFKA_CLASSPATH=...     Kafka's jars, if they are not to be asked of Maven

Both brokers run on core 0, the client on core 1. Measurements alternate, ours and Kafka's, after
both were warmed up; a row shows the medians, and the median of the ratios of the pairs with the
least and the greatest. `log.durability=os` is Kafka's own promise (an acknowledged record is in the
page cache); rows with `fsync` have no counterpart there. Every measurement is appended to
`bench/results/broker.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

import broker_load as load
from odradek import leaves
from peers import KafkaMissing, Node, Odradek, PeerKafka, jars, pin_client, started

RESULTS = Path(__file__).parent / "results" / "broker.jsonl"
OS = {"log.durability": "os"}
FSYNC = {"log.durability": "fsync"}
WARM_UP_RECORDS = 1_000_000


@dataclass(frozen=True)
class Shown:
    """One figure of a row, and what it should be: a ratio to Kafka's, or a value of its own."""

    figure: str
    unit: str
    ratio: float | None = None
    value: float | None = None


class Bench:
    """Runs, records, compares."""

    results = RESULTS
    subject = "broker"

    def __init__(self, kafka_jars: str, work: Path, arguments: argparse.Namespace) -> None:
        self.jars, self.work = kafka_jars, work
        self.quick: bool = arguments.quick
        self.only: str = arguments.only
        self.pairs = 2 if self.quick else arguments.pairs
        self.run_id = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.mode = leaves.mode()
        self.table = Table(
            title=f"{self.subject} against Apache Kafka, leaves {self.mode}, {self.pairs} pairs"
        )
        for column in ("row", "unit", "ours", "Kafka", "ratio", "min - max", "target", ""):
            self.table.add_column(column, justify="left" if column in ("row", "unit") else "right")
        self._directories = 0

    def wanted(self, row: str) -> bool:
        return self.only in row

    def directory(self) -> Path:
        self._directories += 1
        return self.work / f"data-{self._directories}"

    @contextmanager
    def brokers(self) -> Iterator[list[Node]]:
        """Ours and Kafka's, both warmed up."""
        nodes: list[Node] = [Odradek(self.directory(), OS), PeerKafka(self.directory(), self.jars)]
        try:
            for node in nodes:
                started(node)
                self.warm_up(node)
            yield nodes
        finally:
            for node in nodes:
                node.kill()

    def warm_up(self, node: Node) -> None:
        """Every kind of work, until the JVM compiles no more of it: its requests cost three times
        as much in the first seconds, and the better half of that goes only after ten.
        """
        seconds = 2 if self.quick else 20
        part = 4 if self.quick else 1
        load.produce_big(node, 100, 4 * WARM_UP_RECORDS // part, self.work)
        load.produce_big(node, 1024, WARM_UP_RECORDS // part, self.work)
        load.single_records(node, 64, seconds)
        load.single_records(node, 1, seconds / 2)
        load.ping(node, 1000 * seconds)

    def pairs_of(
        self,
        row: str,
        shown: list[Shown],
        measure: Callable[[Node], load.Figures],
        nodes: list[Node],
        pairs: int | None = None,
    ) -> None:
        """Measure all nodes in turn, `pairs` times."""
        if not self.wanted(row):
            return
        taken: dict[str, list[load.Figures]] = {node.name: [] for node in nodes}
        for _ in range(pairs or self.pairs):
            for node in nodes:
                taken[node.name].append(self.record(row, node.name, measure(node)))
        self.show(row, shown, taken["odradek"], taken.get("kafka", []))

    def record(self, row: str, broker: str, figures: load.Figures) -> load.Figures:
        line = {
            "run": self.run_id,
            "row": row,
            "broker": broker,
            "leaves": self.mode,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            **{name: round(value, 4) for name, value in figures.items()},
        }
        with self.results.open("a") as out:
            out.write(json.dumps(line) + "\n")
        print(f"  {row}: {broker} {line_of(figures)}", file=sys.stderr)
        return figures

    def show(
        self, row: str, shown: list[Shown], ours: list[load.Figures], theirs: list[load.Figures]
    ) -> None:
        for each in shown:
            mine = [figures[each.figure] for figures in ours]
            his = [figures[each.figure] for figures in theirs]
            middle = statistics.median(mine)
            ratios = [a / b for a, b in zip(mine, his) if b]
            ratio = statistics.median(ratios) if ratios else None
            target, met = "", None
            if each.ratio is not None and ratio is not None:
                target, met = f"{each.ratio:.1f} x", ratio <= each.ratio
            elif each.value is not None:
                target, met = f"{each.value:g}", middle <= each.value
            self.table.add_row(
                row,
                each.unit,
                f"{middle:,.2f}",
                f"{statistics.median(his):,.2f}" if his else "",
                "" if ratio is None else f"{ratio:.2f}",
                f"{min(ratios):.2f} - {max(ratios):.2f}" if ratios else "",
                target,
                "" if met is None else "reached" if met else "[red]short[/red]",
            )


def line_of(figures: load.Figures) -> str:
    return "  ".join(f"{name} {value:,.2f}" for name, value in figures.items())


def small_rows(bench: Bench, nodes: list[Node]) -> None:
    """One record per request, and its way to a reader."""
    seconds = 2.0 if bench.quick else 5.0
    for connections, ratio in ((64, 1.0), (1, 0.7)):
        bench.pairs_of(
            f"one record per request, {connections} connections, os",
            [Shown("cpu_us", "CPU us/request", ratio=ratio), Shown("per_s", "requests/s")],
            partial(load.single_records, connections=connections, seconds=seconds),
            nodes,
        )
    bench.pairs_of(
        "produce -> fetch, one in flight, os",
        [Shown("p50_us", "p50 us"), Shown("p99_us", "p99 us")],
        lambda node: load.ping(node, 2000 if bench.quick else 10_000),
        nodes,
    )


def big_rows(bench: Bench, nodes: list[Node]) -> None:
    """Big batches in and out."""
    part = 4 if bench.quick else 1
    cpu, rate = "CPU s/GB", "MB/s"
    for size, records in ((100, 4_000_000 // part), (1024, 1_000_000 // part)):
        bench.pairs_of(
            f"produce {size} B, big batches, os",
            [Shown("cpu_s_per_gb", cpu, ratio=0.7), Shown("mb_per_s", rate)],
            partial(load.produce_big, size=size, records=records, directory=bench.work),
            nodes,
        )
    row = "produce, big batches: the kernel's part"
    if bench.wanted(row):
        floors = [load.floor(bench.work, 1.0 / part) for _ in range(bench.pairs)]
        for figures in floors:
            bench.record(row, "a sink", figures)
        bench.show(row, [Shown("cpu_s_per_gb", cpu)], floors, [])
    row = "consume 1024 B backlog"
    if bench.wanted(row):
        records = 1_000_000 // part
        topics = {node.name: load.new_topic(node) for node in nodes}
        for node in nodes:
            load.produce(node, 1024, records, topics[node.name])
        bench.pairs_of(
            row,
            [Shown("cpu_s_per_gb", cpu, ratio=0.8), Shown("mb_per_s", rate)],
            lambda node: load.consume(node, topics[node.name], records, 1024),
            nodes,
        )


def connection_rows(bench: Bench, nodes: list[Node]) -> None:
    bench.pairs_of(
        "2000 connections with a waiting fetch",
        [
            Shown("kib_per_connection", "KiB/connection"),
            Shown("other_ms", "ms to answer another"),
            Shown("woken_ms", "ms to answer them all"),
        ],
        lambda node: load.idle_connections(node, 2000),
        nodes,
        pairs=1,
    )


def start_rows(bench: Bench) -> None:
    """Each start in a directory of its own."""
    row = "start, then idle, os"
    if not bench.wanted(row):
        return
    idle_s = 5.0 if bench.quick else 10.0
    taken: dict[str, list[load.Figures]] = {"odradek": [], "kafka": []}
    for _ in range(bench.pairs):
        for node in (
            Odradek(bench.directory(), OS),
            PeerKafka(bench.directory(), bench.jars),
        ):
            try:
                taken[node.name].append(bench.record(row, node.name, load.start(node, idle_s)))
            finally:
                node.kill()
    shown = [
        Shown("start_s", "s to first ack", value=0.6),
        Shown("pss_mib", "MiB Pss", value=60),
        Shown("cpu_percent", "% CPU", value=0.3),
    ]
    bench.show(row, shown, taken["odradek"], taken["kafka"])


def our_rows(bench: Bench) -> None:
    """What Kafka has no counterpart of."""
    gib = 0.25 if bench.quick else 1.0
    usual = f"{gib} GiB of log, kill -9, start, os"
    for row, forget in ((usual, False), (f"{usual}, recovery points lost", True)):
        if bench.wanted(row):
            figures = load.recovery(bench.directory(), OS, gib, forget)
            bench.record(row, "odradek", figures)
            bench.show(row, [Shown("recovery_s", "s to first ack", value=2.0)], [figures], [])
    row = "one record per request, 64 connections, acks=all, fsync"
    if bench.wanted(row):
        node = started(Odradek(bench.directory(), FSYNC))
        try:
            bench.pairs_of(
                row,
                [Shown("cpu_us", "CPU us/request"), Shown("per_s", "requests/s")],
                lambda node: load.single_records(node, 64, 2.0, acks=-1),
                [node],
            )
        finally:
            node.kill()


B = TypeVar("B", bound=Bench)


def compare(kind: type[B], about: str, rows: Callable[[B], None]) -> int:
    """The program: arguments, Kafka's jars, `rows`, and the table of them; the exit code."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about two minutes, rough figures")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="rows that have this in their name")
    arguments = parser.parse_args()
    try:
        kafka_jars = jars()
    except KafkaMissing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 1
    pin_client()
    kind.results.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as work:
        bench = kind(kafka_jars, Path(work), arguments)
        rows(bench)
    Console(width=150).print(bench.table)
    return 0


def all_rows(bench: Bench) -> None:
    with bench.brokers() as nodes:
        small_rows(bench, nodes)
        big_rows(bench, nodes)
        connection_rows(bench, nodes)
    start_rows(bench)
    our_rows(bench)


if __name__ == "__main__":
    sys.exit(compare(Bench, __doc__, all_rows))
