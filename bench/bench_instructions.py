"""The broker's instructions per request, this code against that of another clone.

    python -m bench instructions -- --tree DIR [--after DIR] [--rounds 3] [--only WORD]

A machine that others share gives the same code 10 to 20 % more or less processor time from minute
to minute. Instructions do not depend on that: the brokers run under Valgrind's callgrind, which
counts those of user space (system calls count as nothing; see `bench before` for their time). What
varies, by about 1 %, is how many requests one turn of the loop finds. Rows, options and trees are
as in `bench before`. Every measurement is appended to `bench/results/instructions.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

import broker_load as load
import raw_client
from odradek import leaves
from peers import ROOT, Odradek, pin_client, started

RESULTS = Path(__file__).parent / "results" / "instructions.jsonl"
REQUESTS, PINGS, FETCHES, RECORDS = 3_000, 1_500, 500, 200_000
TOTALS = re.compile(rb"^totals: (\d+)", re.MULTILINE)


class CountedOdradek(Odradek):
    """`odradek up` under callgrind, which counts nothing outside of `counting`."""

    def spawn(self) -> None:
        super().spawn()
        self._dumps = 0

    def prefix(self) -> list[str]:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        return [
            *super().prefix(),
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--trace-children=yes",
            "--instr-atstart=no",
            f"--callgrind-out-file={self._out}",
        ]

    @property
    def _out(self) -> Path:
        return self.directory.parent / f"{self.directory.name}.callgrind"

    @contextmanager
    def counting(self) -> Iterator[list[int]]:
        """Count the instructions in this block; the list has them afterwards."""
        found: list[int] = []
        self._control("--instr=on")
        yield found
        self._control("--instr=off")
        self._control("--dump")
        self._dumps += 1
        dumped = Path(f"{self._out}.{self._dumps}")
        found.append(sum(map(int, TOTALS.findall(dumped.read_bytes()))))

    def _control(self, option: str) -> None:
        command = ["callgrind_control", option, str(self.pid)]
        subprocess.run(command, check=True, capture_output=True)


class Tree(NamedTuple):
    """One of the two clones, its commit and its broker."""

    name: str
    commit: str
    broker: CountedOdradek


def single(acks: int) -> Callable[[CountedOdradek], float]:
    """One record of 100 bytes per request, one request under way."""

    def measure(broker: CountedOdradek) -> float:
        request = raw_client.produce_frame(load.new_topic(broker), 100, acks)
        with raw_client.connect(broker.port) as client:

            def send(count: int) -> None:
                for _ in range(count):
                    client.sendall(request)
                    raw_client.receive(client)

            send(REQUESTS // 10)
            with broker.counting() as found:
                send(REQUESTS)
        return found[0] / REQUESTS

    return measure


def idempotent(broker: CountedOdradek) -> float:
    """librdkafka's idempotent producer, one record in a batch, five in flight."""
    topic = load.new_topic(broker)
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 1,
        }
    )

    def send(count: int) -> None:
        for number in range(count):
            producer.produce(topic, b"x" * 100, partition=0)
            if number % 500 == 499:
                producer.flush()
        producer.flush()

    send(REQUESTS // 10)
    with broker.counting() as found:
        send(REQUESTS)
    return found[0] / REQUESTS


def ping(broker: CountedOdradek) -> float:
    """A record sent, and fetched by a request that waits."""
    topic = load.new_topic(broker)
    raw_client.pings(broker.port, topic, PINGS // 10)
    with broker.counting() as found:
        raw_client.pings(broker.port, topic, PINGS)
    return found[0] / PINGS


def produced(broker: CountedOdradek) -> float:
    """Large batches of librdkafka."""
    topic = load.new_topic(broker)
    load.produce(broker, 100, RECORDS // 10, topic)
    with broker.counting() as found:
        load.produce(broker, 100, RECORDS, topic)
    return found[0] / RECORDS


def fetched(broker: CountedOdradek) -> float:
    """A megabyte of a backlog in each request."""
    topic = load.new_topic(broker)
    load.produce(broker, 100, RECORDS // 10, topic)
    request = raw_client.fetch_frame(topic, 0, 100)
    with raw_client.connect(broker.port) as client:

        def fetch(count: int) -> None:
            for _ in range(count):
                client.sendall(request)
                raw_client.receive(client)

        fetch(FETCHES // 10)
        with broker.counting() as found:
            fetch(FETCHES)
    return found[0] / FETCHES


class Row(NamedTuple):
    """One figure of each tree."""

    name: str
    per: str
    measure: Callable[[CountedOdradek], float]


ROWS = (
    Row("one record per request, acks=1", "request", single(1)),
    Row("one record per request, acks=all", "request", single(-1)),
    Row("idempotent, one record per batch", "request", idempotent),
    Row("produced and fetched, one in flight", "record", ping),
    Row("large batches produced, 100 B", "record", produced),
    Row("a megabyte fetched", "request", fetched),
)


def tree_of(name: str, root: Path, work: Path) -> Tree:
    """Start the broker of a clone."""
    python = root / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"bench instructions: {python} is missing: run `make setup` in {root}")
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.check_output(command, text=True).strip()
    broker = CountedOdradek(work / name, {"log.durability": "os"}, str(python))
    return Tree(name, commit, started(broker))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tree", type=Path, help="the older clone, set up")
    parser.add_argument("--after", type=Path, default=ROOT, help="the newer one (default: this)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="WORD", help="rows with this in their name")
    options = parser.parse_args()
    if options.tree is None or shutil.which("valgrind") is None:
        print("bench instructions: skipped; it needs valgrind and --tree DIR", file=sys.stderr)
        return 0
    pin_client()
    rows = [row for row in ROWS if options.only in row.name]
    found: dict[tuple[str, str], list[float]] = {}
    trees: list[Tree] = []
    with tempfile.TemporaryDirectory() as directory, RESULTS.open("a") as results:
        try:
            for name, root in (("before", options.tree), ("after", options.after)):
                trees.append(tree_of(name, root.resolve(), Path(directory)))
            for number in range(options.rounds):
                for row in rows:
                    for tree in trees:
                        figure = row.measure(tree.broker)
                        found.setdefault((row.name, tree.name), []).append(figure)
                        print(number, row.name, tree.name, round(figure, 1), file=sys.stderr)
                        line = {
                            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                            "code": tree.commit,
                            "row": row.name,
                            "per": row.per,
                            "instructions": round(figure, 1),
                            "round": number,
                            "leaves": leaves.mode(),
                        }
                        results.write(json.dumps(line) + "\n")
        finally:
            for tree in trees:
                tree.broker.kill()
    title = f"instructions, {trees[0].commit} -> {trees[1].commit}, leaves {leaves.mode()}"
    table = Table(title=title)
    for column in ("row", "per", "before", "after", "ratio", "min - max"):
        table.add_column(column)
    for row in rows:
        before, after = found[row.name, "before"], found[row.name, "after"]
        ratios = [new / old for old, new in zip(before, after, strict=True)]
        table.add_row(
            row.name,
            row.per,
            f"{statistics.median(before):,.0f}",
            f"{statistics.median(after):,.0f}",
            f"{statistics.median(ratios):.3f}",
            f"{min(ratios):.3f} - {max(ratios):.3f}",
        )
    Console(width=130).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
