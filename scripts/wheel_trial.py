"""What `scripts/wheels.py` runs where a wheel was installed: `python wheel_trial.py LEAVES`.

Checks the form of the leaves, runs the README's first session with the `odradek` command, and
produces and consumes records over an `odradek.testing.Broker`. `python wheel_trial.py rates` does
the last alone, and prints the rates as JSON.

`python wheel_trial.py first-record` ends when the first record is acknowledged: by a broker and a
producer that are started as a user starts them, with the `odradek` command.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import odradek
from odradek.testing import Broker

COMMAND = str(Path(sys.executable).parent / "odradek")
RECORDS = 100_000
VALUE = b"v" * 100


def check_version(leaves: str) -> None:
    version = subprocess.run([COMMAND, "--version"], check=True, capture_output=True, text=True)
    wanted = f"leaves {leaves}"
    if wanted not in version.stdout:
        raise SystemExit(f"odradek --version says {version.stdout.strip()!r}, not {wanted!r}")


def check_boards() -> None:
    """Check that the board and the alerts were installed."""
    for name in ("odradek-board.json", "odradek-alerts.yml"):
        if not (Path(sys.prefix) / "share" / "odradek" / name).exists():
            raise SystemExit(f"the wheel has not installed share/odradek/{name}")


@contextmanager
def started_broker() -> Iterator[Callable[..., str]]:
    """Start a broker by the command line; yield `call`, which runs a command against it."""
    with tempfile.TemporaryDirectory(prefix="odradek-trial-") as data:
        up = [COMMAND, "up", "--port", "0", "--http", "none", "--json", "--data-dir", data]
        with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as broker:
            assert broker.stdout is not None
            bootstrap = json.loads(broker.stdout.readline())["bootstrap"]

            def call(*arguments: str) -> str:
                command = [COMMAND, *arguments, "-b", bootstrap]
                return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

            try:
                yield call
            finally:
                broker.terminate()
        if broker.returncode != 0:
            raise SystemExit(f"the broker ended with {broker.returncode}")


def first_session() -> None:
    """Start a broker by the command line, make a topic, produce into it, consume it."""
    with started_broker() as call:
        call("topic", "create", "greetings", "-p", "3")
        call("produce", "greetings", "hello", "-k", "en")
        consumed = call("consume", "greetings", "-e")
    if consumed != "hello\n":
        raise SystemExit(f"the first session consumed {consumed!r}")


def first_record() -> float:
    """Start a broker and produce a record; the time when it was acknowledged, as seconds since
    1970."""
    with started_broker() as call:
        call("produce", "greetings", "hello")
        return time.time()


def rates() -> dict[str, float]:
    """Records per second, produced and consumed, over an embedded broker."""
    with Broker() as broker:
        with odradek.Admin(brokers=broker.bootstrap) as admin:
            admin.create_topic("trial", partitions=1)
        start = time.perf_counter()
        with odradek.Producer(brokers=broker.bootstrap) as producer:
            for _ in range(RECORDS):
                producer.send("trial", VALUE)
            producer.flush()
        produced = RECORDS / (time.perf_counter() - start)
        start, consumed = time.perf_counter(), 0
        with odradek.Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign({("trial", 0): (0, RECORDS)})
            for batch in consumer.batches(10_000):
                consumed += len(batch)
        if consumed != RECORDS:
            raise SystemExit(f"{consumed} of {RECORDS} records were consumed")
        return {"produced": produced, "consumed": consumed / (time.perf_counter() - start)}


if __name__ == "__main__" and sys.argv[1:] == ["first-record"]:
    print(first_record())
elif __name__ == "__main__" and sys.argv[1:] == ["rates"]:
    print(json.dumps(rates()))
elif __name__ == "__main__":
    check_version(sys.argv[1])
    check_boards()
    first_session()
    rates()
