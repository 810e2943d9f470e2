"""This code against that of another clone, an older one: what the changes in between cost.

    python -m bench before -- --tree DIR [--after DIR] [--rounds 8] [--only WORD]

`--tree` is a clone with the older commit in which `make setup` has run, with compiled leaves if
this one has them; `--after` one with the newer commit, if that is not this one. Both brokers run on
one core with `log.durability=os`, the load on the other. Clients are each tree's own, in processes
of their own, and all use the broker of the newer tree. Both trees take turns, in another order each
round; a ratio is the median of the pairwise ones, new to old, and all figures are processor time.
Every measurement is appended to `bench/results/before.jsonl`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

import broker_load as load
from bench_consumer import fill_plain
from odradek import leaves
from peers import CLIENT_CORE, Odradek, cpu_s, pin_client, started
from two_trees import Found, commit_of, compared, parser, python_of

RESULTS = Path(__file__).parent / "results" / "before.jsonl"
SINGLE_S, IDEMPOTENT, PINGS, BIG = 1.0, 60_000, 10_000, 3_000_000
Measure = Callable[["Tree", str], float]


class Tree(NamedTuple):
    """One of the two clones, its commit and its broker."""

    name: str
    root: Path
    commit: str
    broker: Odradek


class Row(NamedTuple):
    """One figure of each tree."""

    name: str
    unit: str
    measure: Measure


def single(connections: int) -> Measure:
    return lambda tree, _: load.single_records(tree.broker, connections, SINGLE_S)["cpu_us"]


def idempotent(tree: Tree, _: str) -> float:
    """librdkafka's idempotent producer, one record in a batch, five in flight."""
    send = load.idempotent_sender(tree.broker)
    send(IDEMPOTENT // 10)
    cpu = cpu_s(tree.broker.pid)
    send(IDEMPOTENT)
    return (cpu_s(tree.broker.pid) - cpu) / IDEMPOTENT * 1e6


def ping(tree: Tree, _: str) -> float:
    cpu = cpu_s(tree.broker.pid)
    load.ping(tree.broker, PINGS)
    return (cpu_s(tree.broker.pid) - cpu) / (PINGS * 1.1) * 1e6


def produced(tree: Tree, _: str) -> float:
    """Large batches of librdkafka, to a topic whose pages the next one gets."""
    directory = tree.broker.directory.parent
    return load.produce_big(tree.broker, 100, BIG, directory)["cpu_us_per_record"] * 1e3


def consumed(tree: Tree, bootstrap: str) -> float:
    """A backlog, read by librdkafka."""
    topic = load.new_topic(tree.broker)
    load.produce(tree.broker, 100, BIG // 3, topic)
    cpu = cpu_s(tree.broker.pid)
    for _ in range(3):
        load.consume(tree.broker, topic, BIG // 3, 100)
    return (cpu_s(tree.broker.pid) - cpu) / BIG * 1e9


def client(program: str, way: str, count: int, figure: str, *settings: str) -> Measure:
    """A client of the tree, as its own benchmark drives it."""

    def measure(tree: Tree, bootstrap: str) -> float:
        command = [tree.broker.python, str(tree.root / "bench" / program), way, bootstrap]
        done = subprocess.run(
            ["taskset", "-c", str(CLIENT_CORE), *command, str(count), *settings],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        found: dict[str, float] = json.loads(done.stdout)
        return found[figure]

    return measure


ROWS = (
    Row("broker: one record per request, one connection", "us", single(1)),
    Row("broker: the same, 16 connections", "us", single(16)),
    Row("broker: idempotent, one record per batch", "us", idempotent),
    Row("broker: produced and fetched, one in flight", "us", ping),
    Row("broker: large batches produced, 100 B", "ns/record", produced),
    Row("broker: 100 B consumed", "ns/record", consumed),
    Row(
        "producer, futures",
        "us/record",
        client("produce_load.py", "odradek:future", 300_000, "cpu_us"),
    ),
    Row(
        "producer, Arrow",
        "us/record",
        client("produce_load.py", "odradek:arrow", 2_000_000, "cpu_us"),
    ),
    Row(
        "producer, ping",
        "us",
        client("produce_load.py", "odradek:ping", 3_000, "p50_us", "linger.ms=0"),
    ),
    Row(
        "consumer, poll",
        "us/record",
        client("consume_load.py", "odradek:poll", 1_000_000, "cpu_us"),
    ),
    Row(
        "consumer, batches",
        "us/record",
        client("consume_load.py", "odradek:consume", 1_000_000, "cpu_us"),
    ),
    Row(
        "consumer, Arrow",
        "us/record",
        client("consume_load.py", "odradek:arrow", 1_000_000, "cpu_us"),
    ),
    Row(
        "consumer, awaited",
        "us/record",
        client("consume_load.py", "odradek.aio:iterate", 1_000_000, "cpu_us"),
    ),
)


def trees(old: Path, new: Path, work: Path) -> Iterator[Tree]:
    """Start the broker of each tree."""
    for name, root in (("before", old), ("after", new)):
        settings = {"log.durability": "os"}
        broker = started(Odradek(work / name, settings, python_of(root)))
        yield Tree(name, root, commit_of(root), broker)


def run(both: Sequence[Tree], rows: Sequence[Row], rounds: int) -> Found:
    """Measure each row with both trees in turn, after a warm-up of all."""
    found: Found = {}
    bootstrap = f"127.0.0.1:{both[1].broker.port}"
    fill_plain(bootstrap)
    with RESULTS.open("a") as results:
        for turn in range(-1, rounds):
            for row in rows:
                for tree in both if turn % 2 else both[::-1]:
                    figure = row.measure(tree, bootstrap)
                    print(turn, row.name, tree.name, round(figure, 3), file=sys.stderr)
                    if turn < 0:
                        continue
                    found.setdefault((row.name, tree.name), []).append(figure)
                    line = {
                        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                        "code": tree.commit,
                        "row": row.name,
                        "unit": row.unit,
                        "figure": figure,
                        "round": turn,
                        "load": os.getloadavg()[0],
                        "leaves": leaves.mode(),
                    }
                    results.write(json.dumps(line) + "\n")
    return found


def main() -> int:
    options = parser(__doc__.split("\n\n")[0], rounds=8).parse_args()
    if options.tree is None:
        print("bench before: skipped; it needs an older clone: --tree DIR", file=sys.stderr)
        return 0
    rows = [row for row in ROWS if options.only in row.name]
    pin_client()
    both: list[Tree] = []
    with tempfile.TemporaryDirectory() as directory:
        try:
            both.extend(trees(options.tree.resolve(), options.after.resolve(), Path(directory)))
            found = run(both, rows, options.rounds)
        finally:
            for tree in both:
                tree.broker.kill()
    title = f"{both[0].commit} -> {both[1].commit}, leaves {leaves.mode()}"
    shown = compared(title, [(row.name, row.unit) for row in rows], found, 2, 2)
    Console(width=130).print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
