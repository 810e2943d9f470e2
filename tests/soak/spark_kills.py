"""A Spark job under kill -9, over and over: what was acknowledged is in its sinks as promised.

    .venv/bin/python tests/soak/spark_kills.py --runs 20 --seed 1

A run has a broker (a process, its data on disk), a producer of numbered records that never pauses,
and a driver (`spark_queries`) with two queries over them, to Parquet and to another topic. A killer
sends SIGKILL to one of them at a time: to the driver with its JVM, to Python processes of Spark's
of any kind, to the broker, and to executors if `--master` names a cluster. What is gone is started
again, on the same data and the same checkpoints; nothing is ever deleted. The moments are chosen by
the seed: while the driver starts, at any time, or as soon as a micro-batch is in a query's log.

At the end of a run, everything is read and compared with what the producer was told:

- Parquet has each record once, at the offset at which it was acknowledged;
- the topic has each record at least once; two records of the same row have the same four headers
  (`replayHeaders`), and no two rows have;
- a query that begins at `latest`, as those of every second run do, has all this from the offsets on
  that its first micro-batch logged, and nothing from before.

The exit code is 1 if that is not so in some run; its directory is left, and how to run it again is
said.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from odradek.spark.task_writer import NAMES

HERE = Path(__file__).parent
KEEP_LOGS = {"spark.sql.streaming.minBatchesToRetain": "1000000"}
"""Spark deletes the offsets of the first micro-batch after the 100th; the check reads them."""
INPUT, OUTPUT = "numbers", "copies"
PARTITIONS = {INPUT: 3, OUTPUT: 2}
QUERIES = ("parquet", "topic")
PATIENCE_S = 180
AT_WORK_S = 60
"""How long both queries are given to finish a micro-batch before the next kill comes anyway."""
NEXT_BATCH_S = 5
PLANNED_AND_WRITTEN_S = 0.2
"""About what a micro-batch takes from its log on."""
ORPHANS_END_S = 20
FAILURES_BY_KILL = 2
"""Both queries fail, at most."""
BURST, PAUSE_S, AT_MOST_QUEUED = 5, 0.02, 1000

VICTIMS = {
    "stream source": "pyspark.sql.streaming.python_streaming_source_runner",
    "stream sink": "pyspark.sql.streaming.python_streaming_sink_runner",
    "planner": "pyspark.sql.worker.",
    "task worker": " pyspark.worker",
    "executor": "CoarseGrainedExecutorBackend",
}
"""What is in the command line of a process, by what it does."""
WEIGHTS = {"driver": 3, "broker": 2, "stream source": 3, "task worker": 3, "planner": 1}
MOMENTS = ("starting", "any time", "batch logged")


class Violation(AssertionError):
    """Something was lost, doubled, or did not come to its end."""


class Broker:
    """`odradek up` on one directory and one port, however often it is killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = "0"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "odradek", "up", "--json", "--port", self.port]
        command += ["--data-dir", str(self.directory / "data"), "--set", "log.durability=fsync"]
        with (self.directory / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Violation(f"the broker did not start: see {self.directory / 'broker.log'}")
        self.port = json.loads(line)["bootstrap"].rpartition(":")[2]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


class Numbers(threading.Thread):
    """Writes 0, 1, 2, ... to the input topic until told to stop; knows where each was put."""

    def __init__(
        self, bootstrap: str, topic: str = INPUT, partitions: int = PARTITIONS[INPUT]
    ) -> None:
        super().__init__(name="numbers", daemon=True)
        self.topic, self.partitions = topic, partitions
        self.acked: dict[int, tuple[int, int]] = {}
        """Number -> partition, offset."""
        self.failures: list[str] = []
        self.sent = 0
        self.stopping = threading.Event()
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": PATIENCE_S * 1000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self.stopping.is_set():
            for _ in range(BURST if len(self.producer) < AT_MOST_QUEUED else 0):
                self.producer.produce(
                    self.topic,
                    str(self.sent).encode(),
                    partition=self.sent % self.partitions,
                    on_delivery=self.delivered,
                )
                self.sent += 1
            self.producer.poll(PAUSE_S)
            time.sleep(PAUSE_S)

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        number = int(message.value())
        if error is not None:
            self.failures.append(f"{number}: {error}")
        else:
            self.acked[number] = (message.partition(), message.offset())

    def finish(self) -> None:
        """Send no more, and have all that was sent acknowledged."""
        self.stopping.set()
        self.join()
        left = self.producer.flush(PATIENCE_S)
        if left or self.failures or len(self.acked) != self.sent:
            raise Violation(f"the producer: {left} unacknowledged, {self.failures[:3]}")


class SparkDriver:
    """The Spark driver, and what its processes are."""

    program = "spark_queries.py"

    def __init__(self, directory: Path, job: dict[str, Any]) -> None:
        self.directory = directory
        self.job = job
        self.process: subprocess.Popen[str] | None = None
        self.said: list[dict[str, Any]] = []
        self.sessions: list[int] = []
        """The process sessions of the driver and of those before it."""

    def start(self) -> None:
        """Begin a process, whose session has all that it starts."""
        command = [sys.executable, str(HERE / self.program), json.dumps(self.job)]
        with (self.directory / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                start_new_session=True,
            )
        self.sessions.append(self.process.pid)
        self.listener = threading.Thread(target=self.listen, args=[self.process], daemon=True)
        self.listener.start()

    def listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with (self.directory / "driver.said").open("a") as log, process.stdout as said:
            for line in said:
                log.write(line)
                self.said.append(json.loads(line))

    def count(self, what: str) -> int:
        return sum(each["what"] == what for each in self.said)

    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def processes(self, of: str) -> list[int]:
        """The pids of one kind of victim."""
        if of == "executor":
            applications = {each.get("application") for each in self.said} - {None}
            found = [pid for pid, line in command_lines() if VICTIMS[of] in line]
            return [pid for pid in found if any(a in command_line(pid) for a in applications)]  # type: ignore[operator]
        return [pid for pid, line in self.alive(self.sessions[-1:]) if VICTIMS[of] in line]

    def alive(self, sessions: list[int]) -> list[tuple[int, str]]:
        """The drivers of these sessions, and all that they started."""
        found = []
        for pid, line in command_lines():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) in sessions:
                    found.append((pid, line))
        return found

    def kill(self) -> None:
        """The driver: Python and JVM, at once. Their Python workers are left to end themselves."""
        assert self.process is not None
        alive = self.alive(self.sessions[-1:])
        jvms = [pid for pid, line in alive if "org.apache.spark.deploy" in line]
        for pid in [self.process.pid, *jvms]:
            kill(pid)
        self.process.wait()

    def kill_all(self) -> None:
        for pid, _ in self.alive(self.sessions):
            kill(pid)
        if self.process is not None:
            self.process.wait()
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.listener.join(ORPHANS_END_S)


def command_lines() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (line := command_line(int(entry.name))):
            yield int(entry.name), line


def command_line(pid: int) -> str:
    """Empty if the process is gone, or has ended and was not waited for."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def kill(pid: int) -> bool:
    """False if it was gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float, pause: float = 0.02) -> bool:
    """Wait for it; False if it did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
    return True


@dataclass
class JobRun:
    """One broker, one producer, one job, and those who kill them."""

    seed: int
    kills: int
    master: str
    config: dict[str, str]
    directory: Path
    killed: collections.Counter[str] = field(default_factory=collections.Counter)
    found: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.chance = random.Random(self.seed)
        self.starting = ("earliest", "latest")[self.seed % 2]

    def execute(self) -> None:
        """Raises `Violation`."""
        self.broker = Broker(self.directory)
        self.broker.start()
        numbers = Numbers(self.broker.bootstrap)
        self.driver = SparkDriver(
            self.directory,
            {
                "directory": str(self.directory),
                "bootstrap": self.broker.bootstrap,
                "input": INPUT,
                "output": OUTPUT,
                "starting": self.starting,
                "master": self.master,
                "config": KEEP_LOGS | self.config,
            },
        )
        try:
            make_topics(self.broker.bootstrap)
            numbers.start()
            self.driver.start()
            for number in range(self.kills):
                # The start, where a query's place is not in its checkpoint yet, is met each time.
                self.kill_one("batch logged" if number == 0 else self.chance.choice(MOMENTS))
            numbers.finish()
            self.finish_driver()
            check_parquet(self, numbers)
            check_topic(self, numbers)
            self.check_failures()
            self.check_processes()
        finally:
            numbers.stopping.set()
            self.driver.kill_all()
            self.broker.kill()

    def kill_one(self, moment: str) -> None:
        self.await_moment(moment)
        weights = dict(WEIGHTS)
        if self.master.startswith("spark:"):
            weights["executor"] = 3
        while weights:
            victim = self.chance.choices([*weights], [*weights.values()])[0]
            before = [self.logged("offsets"), self.logged("commits")]
            if self.kill_victim(victim):
                self.killed[victim] += 1
                self.note(moment, victim, *before)
                return
            del weights[victim]

    def kill_victim(self, victim: str) -> bool:
        """False if there is none now."""
        self.start_driver_again()
        if victim == "driver":
            self.driver.kill()
            self.driver.start()
            return True
        if victim == "broker":
            self.broker.kill()
            time.sleep(self.chance.random())
            self.broker.start()
            return True
        pids = sorted(self.driver.processes(victim))
        return bool(pids) and kill(self.chance.choice(pids))

    def await_moment(self, moment: str) -> None:
        if moment == "starting":
            time.sleep(self.chance.random() * 6)
            return
        before = self.logged("commits")
        done = until(
            lambda: all(map(int.__lt__, before, self.logged("commits"))) or self.driver.ended(),
            AT_WORK_S,
        )
        time.sleep(self.chance.random())
        if moment == "batch logged" and done:
            which = self.chance.randrange(len(QUERIES))
            seen = self.logged("offsets")[which]
            until(lambda: self.logged("offsets")[which] > seen, NEXT_BATCH_S, pause=0.001)
            time.sleep(self.chance.random() * PLANNED_AND_WRITTEN_S)

    def note(self, moment: str, victim: str, offsets: list[int], commits: list[int]) -> None:
        """For whoever looks at a bad run: where the logs of the queries were."""
        with (self.directory / "killed.log").open("a") as log:
            at = time.monotonic() - self.began
            print(
                f"{at:.2f} s: {victim} ({moment}); offsets {offsets}, commits {commits}", file=log
            )

    def logged(self, log: str) -> list[int]:
        """The newest entry in each query's log; -1 if there is none."""
        found = []
        for query in QUERIES:
            directory = self.directory / f"checkpoint-{query}" / log
            names = os.listdir(directory) if directory.exists() else []
            found.append(max((int(name) for name in names if name.isdecimal()), default=-1))
        return found

    def start_driver_again(self) -> None:
        if self.driver.ended():
            self.driver.start()

    def finish_driver(self) -> None:
        """The queries read to the end; a driver that ends before is started again."""
        (self.directory / "finish").touch()
        deadline = time.monotonic() + PATIENCE_S
        while not self.driver.count("finished"):
            self.start_driver_again()
            if time.monotonic() > deadline:
                raise Violation(f"the queries did not come to the end in {PATIENCE_S} s")
            until(lambda: bool(self.driver.count("finished")), 1)

    def check_failures(self) -> None:
        """Queries fail because something was killed, and for nothing else."""
        failures = [each["error"] for each in self.driver.said if each["what"] == "failed"]
        if len(failures) > FAILURES_BY_KILL * self.kills:
            raise Violation(
                f"queries failed {len(failures)} times, after {self.kills} kills; the last time: "
                + failures[-1].strip()[:500]
            )

    def check_processes(self) -> None:
        """Nothing outlives its driver, killed or not."""
        if not until(lambda: not self.driver.alive(self.driver.sessions), ORPHANS_END_S):
            left = self.driver.alive(self.driver.sessions)
            raise Violation(f"processes outlived their driver by {ORPHANS_END_S} s: {left}")

    def expected(self, numbers: Numbers, query: str) -> dict[int, tuple[int, int]]:
        """The records that it must have, with their places."""
        first = json.loads(
            (self.directory / f"checkpoint-{query}" / "offsets" / "0").read_text().split("\n")[2]
        )
        begin = {int(n): offset for n, offset in first[INPUT].items()}
        if self.starting == "earliest":
            begin = dict.fromkeys(begin, 0)
        elif "@begin" not in first:
            raise Violation(f"{query}: the first micro-batch did not log where it began: {first}")
        return {
            number: (partition, offset)
            for number, (partition, offset) in numbers.acked.items()
            if offset >= begin[partition]
        }


def check_parquet(run: JobRun, numbers: Numbers) -> None:
    with pa.OSFile(str(run.directory / "found.arrow")) as file:
        rows = pa.ipc.open_file(file).read_all().to_pylist()
    run.found["in"] = len(numbers.acked)
    run.found["parquet"] = len(rows)
    counts = collections.Counter(
        (int(row["number"]), (row["partition"], row["offset"])) for row in rows
    )
    compare("Parquet", counts, set(run.expected(numbers, "parquet").items()))


def check_topic(run: JobRun, numbers: Numbers) -> None:
    """Counts the copies by their headers, each of which must be of one row."""
    rows: dict[tuple[bytes | None, ...], int] = {}
    copies = 0
    for value, headers in read_back(run.broker.bootstrap):
        names = tuple(name for name, _ in headers)
        if names != NAMES:
            raise Violation(f"the topic: a record has the headers {names}")
        identity = tuple(content for _, content in headers)
        copies += identity in rows
        if rows.setdefault(identity, int(value)) != int(value):
            raise Violation(
                f"the topic: {identity} are the headers of {rows[identity]} and {value!r}"
            )
    run.found["topic"] = len(rows)
    run.found["copies"] = copies
    compare("the topic", collections.Counter(rows.values()), set(run.expected(numbers, "topic")))


def compare(where: str, counts: collections.Counter[Any], wanted: set[Any]) -> None:
    """Each of `wanted` once, and nothing else."""
    parts = {
        "lost": wanted - set(counts),
        "doubled": {each for each, count in counts.items() if count > 1},
        "unexpected": set(counts) - wanted,
    }
    wrong = [f"{len(each)} {what}: {sorted(each)[:5]}" for what, each in parts.items() if each]
    if wrong:
        raise Violation(f"{where}: " + "; ".join(wrong))


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, count, 1) for name, count in PARTITIONS.items()]
    for created in admin.create_topics(wanted).values():
        created.result(PATIENCE_S)


def read_back(bootstrap: str) -> Iterator[tuple[bytes, list[tuple[str, bytes]]]]:
    """All records of the output topic, with their headers."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    left = PARTITIONS[OUTPUT]
    consumer.assign([TopicPartition(OUTPUT, n, OFFSET_BEGINNING) for n in range(left)])
    try:
        while left:
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is None:
                    yield message.value(), message.headers() or []  # type: ignore[misc]
                elif error.code() == KafkaError._PARTITION_EOF:
                    left -= 1
                else:
                    raise Violation(f"the topic cannot be read: {error}")
    finally:
        consumer.close()


COLUMNS = ("seed", "from", "s", "killed", "driver", "query", "in", "parquet", "topic", "copies", "")


def line_of(run: JobRun, verdict: str) -> list[str]:
    killed = ", ".join(f"{count} {name}" for name, count in sorted(run.killed.items()))
    driver = run.driver
    figures = [str(run.found.get(name, "-")) for name in ("in", "parquet", "topic", "copies")]
    restarts = [str(len(driver.sessions) - 1), str(driver.count("failed"))]
    return [
        str(run.seed),
        run.starting,
        f"{time.monotonic() - run.began:.0f}",
        killed,
        *restarts,
        *figures,
        verdict,
    ]


@click.command()
@click.option("--runs", default=20, show_default=True, help="How many, with seeds one apart.")
@click.option("--seed", default=1, show_default=True, help="Of the first run.")
@click.option("--kills", default=6, show_default=True, help="How many in a run.")
@click.option(
    "--master",
    default="local[2,8]",
    show_default=True,
    help="Where Spark runs; executors of spark://HOST:PORT are killed too.",
)
@click.option(
    "--config", "settings", multiple=True, metavar="NAME=VALUE", help="A Spark setting, repeatable."
)
@click.option("--results", type=click.Path(path_type=Path), help="A file to add JSON lines to.")
@click.option("--keep", is_flag=True, help="Leave the directories of good runs too.")
def main(
    runs: int,
    seed: int,
    kills: int,
    master: str,
    settings: tuple[str, ...],
    results: Path | None,
    keep: bool,
) -> None:
    """A Spark job under kill -9, over and over."""
    console = Console(soft_wrap=True, width=150)
    table = Table(*COLUMNS, caption="driver, query: how often it was started again")
    bad = []
    for number in range(seed, seed + runs):
        directory = Path(tempfile.mkdtemp(prefix=f"odradek-soak-{number}-"))
        config = dict(setting.split("=", 1) for setting in settings)
        run = JobRun(number, kills, master, config, directory)
        verdict = "good"
        try:
            run.execute()
        except Violation as violation:
            verdict = "BAD"
            bad.append(number)
            console.print(f"seed {number}: {violation}\n  what was there: {directory}")
            console.print(
                f"  run it again: {sys.argv[0]} --runs 1 --seed {number} --kills {kills} "
                f"--master {master}"
            )
        cells = line_of(run, verdict)
        table.add_row(*cells)
        console.print(" · ".join(f"{n} {c}" for n, c in zip(COLUMNS, cells)))
        if results is not None:
            named = {name or "verdict": cell for name, cell in zip(COLUMNS, cells, strict=True)}
            with results.open("a") as file:
                print(json.dumps({"master": master} | named), file=file)
        if verdict == "good" and not keep:
            shutil.rmtree(directory)
    console.print(table)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
