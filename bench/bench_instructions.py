"""The broker's instructions per request, this code against that of another clone.

    python -m bench instructions -- --tree DIR [--after DIR] [--rounds 3] [--only WORD]

A machine that others share gives the same code 10 to 20 % more or less processor time from minute
to minute. Instructions do not depend on that: the brokers run under Valgrind's callgrind, which
counts those of user space (system calls count as nothing; see `bench before` for their time). What
varies, by about 1 %, is how many requests one turn of the loop finds; a single round of fetches had
8 % more, which the median leaves out. Options and trees are as in `bench before`. Every measurement
is appended to `bench/results/instructions.jsonl`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

import broker_load as load
import raw_client
from odradek import leaves
from peers import Odradek, pin_client, started
from two_trees import Found, commit_of, compared, parser, python_of

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


def counted(broker: CountedOdradek, run: Callable[[int], object], count: int) -> float:
    """Return the instructions of one of `count` units of `run`, after a tenth of them uncounted."""
    run(count // 10)
    with broker.counting() as found:
        run(count)
    return found[0] / count


def answered(broker: CountedOdradek, request: raw_client.Frame, count: int) -> float:
    """Return the instructions of a request, one under way."""
    with raw_client.connect(broker.port) as client:

        def send(count: int) -> None:
            for _ in range(count):
                client.sendall(request)
                raw_client.receive(client)

        return counted(broker, send, count)


def single(acks: int) -> Callable[[CountedOdradek], float]:
    """One record of 100 bytes per request."""

    def measure(broker: CountedOdradek) -> float:
        request = raw_client.produce_frame(load.new_topic(broker), 100, acks)
        return answered(broker, request, REQUESTS)

    return measure


def idempotent(broker: CountedOdradek) -> float:
    """librdkafka's idempotent producer, one record in a batch, five in flight."""
    return counted(broker, load.idempotent_sender(broker), REQUESTS)


def ping(broker: CountedOdradek) -> float:
    """A record sent, and fetched by a request that waits."""
    topic = load.new_topic(broker)
    return counted(broker, lambda count: raw_client.pings(broker.port, topic, count), PINGS)


def produced(broker: CountedOdradek) -> float:
    """Large batches of librdkafka."""
    topic = load.new_topic(broker)
    return counted(broker, lambda count: load.produce(broker, 100, count, topic), RECORDS)


def fetched(broker: CountedOdradek) -> float:
    """A megabyte of a backlog in each request."""
    topic = load.new_topic(broker)
    load.produce(broker, 100, RECORDS // 10, topic)
    return answered(broker, raw_client.fetch_frame(topic, 0, 100), FETCHES)


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
    broker = CountedOdradek(work / name, {"log.durability": "os"}, python_of(root))
    return Tree(name, commit_of(root), started(broker))


def main() -> int:
    options = parser(__doc__.split("\n\n")[0], rounds=3).parse_args()
    if options.tree is None or shutil.which("valgrind") is None:
        print("bench instructions: skipped; it needs valgrind and --tree DIR", file=sys.stderr)
        return 0
    pin_client()
    rows = [row for row in ROWS if options.only in row.name]
    found: Found = {}
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
    table = compared(title, [(row.name, row.per) for row in rows], found, 0, 3)
    Console(width=130).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
