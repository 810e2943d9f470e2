"""Our producer as ratios to other clients, on our broker, on the same machine in the same run.

    python -m bench producer -- [--rounds 5] [--quick] [--only WORD]

Records of 100 bytes, acks=1, one partition; the broker on one core with `log.durability=os`, the
client in a process of its own on the other. Rounds interleave the clients; a ratio is the median of
the pairwise ones, with the smallest and the largest. Every measurement is appended to
`bench/results/producer.jsonl`.

`as librdkafka batches`: with its own default of a million bytes in a batch; otherwise each client
has its own defaults, and a linger of 5 ms (pings: none).
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
from pathlib import Path
from typing import NamedTuple

from odradek import Admin, leaves
from peers import CLIENT_CORE, Odradek, started

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "producer.jsonl"
COUNT, SLOW_COUNT, PINGS = 500_000, 50_000, 3_000
QUICK = 10
LARGE = ("batch.size=1000000",)
LINGER = ("linger.ms=5",)
NO_LINGER = ("linger.ms=0",)


class Client(NamedTuple):
    """A way of `produce_load`, with its settings, and how many records it is given."""

    way: str
    settings: tuple[str, ...] = ()
    count: int = COUNT


class Row(NamedTuple):
    """Ours against another's. `aim` is what the ratio should reach; below 1 for less is better."""

    name: str
    measure: str
    ours: Client
    theirs: Client
    aim: float
    more_is_better: bool


CONFLUENT = Client("confluent-kafka:plain", LINGER)
FUTURE = Client("odradek:future")
LARGE_FUTURE = Client("odradek:future", LARGE)
AIOKAFKA = Client("aiokafka:", count=SLOW_COUNT)
KAFKA_PYTHON = Client("kafka-python:", count=SLOW_COUNT)
OUR_PING = Client("odradek:ping", NO_LINGER, PINGS)
THEIR_PING = Client("confluent-kafka:ping", NO_LINGER, PINGS)

ROWS = (
    Row("per record, future / confluent-kafka", "rate", FUTURE, CONFLUENT, 0.6, True),
    Row("the same, as librdkafka batches", "rate", LARGE_FUTURE, CONFLUENT, 0.6, True),
    Row(
        "with callbacks / confluent-kafka's",
        "rate",
        Client("odradek:callback", LARGE),
        Client("confluent-kafka:callback", LINGER),
        0.6,
        True,
    ),
    Row("send_many / per record", "rate", Client("odradek:many", LARGE), CONFLUENT, 1.2, True),
    Row("send_arrow / per record", "rate", Client("odradek:arrow", LARGE), CONFLUENT, 1.2, True),
    Row("awaited / aiokafka", "rate", Client("odradek.aio:"), AIOKAFKA, 4.0, True),
    Row("future / aiokafka", "rate", FUTURE, AIOKAFKA, 4.0, True),
    Row("future / kafka-python", "rate", FUTURE, KAFKA_PYTHON, 8.0, True),
    Row("CPU, future / confluent-kafka", "cpu_us", FUTURE, CONFLUENT, 1.5, False),
    Row("CPU, future / aiokafka", "cpu_us", FUTURE, AIOKAFKA, 0.5, False),
    Row("ping p50 / confluent-kafka", "p50_us", OUR_PING, THEIR_PING, 1.5, False),
    Row("ping p99 / confluent-kafka", "p99_us", OUR_PING, THEIR_PING, 1.5, False),
)


def measure(client: Client, bootstrap: str, quick: bool) -> dict[str, float]:
    """One run of a client."""
    count = client.count // QUICK if quick else client.count
    command = ["taskset", "-c", str(CLIENT_CORE), sys.executable, str(HERE / "produce_load.py")]
    done = subprocess.run(
        [*command, client.way, bootstrap, str(count), *client.settings],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def run(rows: list[Row], rounds: int, quick: bool) -> dict[Client, list[dict[str, float]]]:
    """Every client that the rows need, once in each round."""
    clients = list(dict.fromkeys(client for row in rows for client in (row.ours, row.theirs)))
    found: dict[Client, list[dict[str, float]]] = {client: [] for client in clients}
    stamp = {"leaves": leaves.mode(), "python": platform.python_version(), "cpus": os.cpu_count()}
    with tempfile.TemporaryDirectory() as directory, RESULTS.open("a") as results:
        broker = started(Odradek(Path(directory), {"log.durability": "os"}))
        bootstrap = f"127.0.0.1:{broker.port}"
        try:
            with Admin(brokers=bootstrap) as admin:
                admin.create_topic("bench")
            for turn in range(rounds):
                for client in clients:
                    taken = measure(client, bootstrap, quick)
                    found[client].append(taken)
                    row = {"client": client.way, "settings": client.settings, "round": turn}
                    results.write(json.dumps(row | taken | stamp) + "\n")
                    print(client.way, *client.settings, taken, file=sys.stderr)
        finally:
            broker.kill()
    return found


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--only", default="", metavar="WORD", help="rows with this in their name")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if arguments.only in row.name]
    found = run(rows, arguments.rounds, arguments.quick)
    print(f"leaves: {leaves.mode()}; medians of {arguments.rounds} rounds")
    print(f"{'':40}{'ours':>12}{'theirs':>12}  ratio")
    for row in rows:
        print(show(row, found))


if __name__ == "__main__":
    main()
