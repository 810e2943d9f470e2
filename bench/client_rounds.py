"""Client libraries in turn, on our broker: what `bench_producer` and `bench_consumer` share.

The broker on one core with `log.durability=os`, each client in a process of its own on the other.
Rounds interleave the clients; a ratio is the median of the pairwise ones. Every measurement is
appended to the results.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from odradek import leaves
from peers import CLIENT_CORE, Odradek, started

HERE = Path(__file__).parent
QUICK = 10


class Client(NamedTuple):
    """A way of the load's, how many records it is given, and its settings."""

    way: str
    records: int
    settings: tuple[str, ...] = ()


class Row(NamedTuple):
    """Ours against another's. `aim` is what the ratio should reach; below 1 for less is better."""

    name: str
    measure: str
    ours: Client
    theirs: Client
    aim: float
    more_is_better: bool


class Comparison(NamedTuple):
    """`load` is the program that is each client, `results` the file of raw rows; `prepare` gets a
    broker's address and makes what the clients need there."""

    load: str
    results: str
    prepare: Callable[[str], None]
    rows: Sequence[Row]

    def main(self, description: str) -> None:
        """From the command line's arguments to the table."""
        parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--quick", action="store_true", help="a tenth of the records")
        parser.add_argument(
            "--only", default="", metavar="WORD", help="rows with this in their name"
        )
        arguments = parser.parse_args()
        rows = [row for row in self.rows if arguments.only in row.name]
        found = self.run(rows, arguments.rounds, arguments.quick)
        print(f"leaves: {leaves.mode()}; medians of {arguments.rounds} rounds")
        print(f"{'':40}{'ours':>12}{'theirs':>12}  ratio")
        for row in rows:
            print(show(row, found))

    def run(
        self, rows: Sequence[Row], rounds: int, quick: bool
    ) -> dict[Client, list[dict[str, float]]]:
        """Every client that the rows need, once in each round."""
        clients = list(dict.fromkeys(client for row in rows for client in (row.ours, row.theirs)))
        found: dict[Client, list[dict[str, float]]] = {client: [] for client in clients}
        stamp = {
            "leaves": leaves.mode(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        }
        results_file = HERE / "results" / self.results
        with tempfile.TemporaryDirectory() as directory, results_file.open("a") as results:
            broker = started(Odradek(Path(directory), {"log.durability": "os"}))
            bootstrap = f"127.0.0.1:{broker.port}"
            try:
                self.prepare(bootstrap)
                for turn in range(rounds):
                    for client in clients:
                        taken = self.measure(client, bootstrap, quick)
                        found[client].append(taken)
                        row = {
                            "client": client.way,
                            "settings": client.settings,
                            "round": turn,
                            "load": os.getloadavg()[0],
                        }
                        results.write(json.dumps(row | taken | stamp) + "\n")
                        print(client.way, *client.settings, taken, file=sys.stderr)
            finally:
                broker.kill()
        return found

    def measure(self, client: Client, bootstrap: str, quick: bool) -> dict[str, float]:
        """One run of a client."""
        count = client.records // QUICK if quick else client.records
        command = ["taskset", "-c", str(CLIENT_CORE), sys.executable, str(HERE / self.load)]
        done = subprocess.run(
            [*command, client.way, bootstrap, str(count), *client.settings],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        measured: dict[str, float] = json.loads(done.stdout)
        return measured


def show(row: Row, found: dict[Client, list[dict[str, float]]]) -> str:
    """A row of the table."""
    ours = [taken[row.measure] for taken in found[row.ours]]
    theirs = [taken[row.measure] for taken in found[row.theirs]]
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    reached = ratio >= row.aim if row.more_is_better else ratio <= row.aim
    figures = f"{statistics.median(ours):>12,.2f}{statistics.median(theirs):>12,.2f}"
    bounds = f"{ratio:.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    sign = ">=" if row.more_is_better else "<="
    return f"{row.name:40}{figures}  {bounds:20} {sign} {row.aim}  {'' if reached else 'MISSED'}"
