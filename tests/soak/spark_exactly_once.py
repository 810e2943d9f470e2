"""A Spark job that writes exactly once, under kill -9, over and over.

    PYTHONPATH=tests .venv/bin/python -m soak.spark_exactly_once --runs 50 --seed 1 --peer kafka

A run has a query (`exactly_once_query`) with a checkpoint and topics of its own, a producer of
numbered records that never pauses, and losses. The first loss is a row of the table in
docs/spark/exactly-once.md, one row after the other (`ROWS`); the seed chooses the others, and when.
What is gone is started again. All runs share a broker (Odradek, or an Apache Kafka), a Spark
cluster, and drivers, as long as these live: one more driver is always started ahead.

With `--master standalone` there is a Spark cluster of two workers on two loopback addresses, with
executors and speculation; both are killed too.

At the end readers of committed records must get each number that was acknowledged once, and the
last stable offset must reach the end: nothing is left open. The exit code is 1 if that is not so in
some run; its directory is left.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from cluster.standalone import EXECUTORS, Cluster, Daemon, standalone
from interop.apache_kafka import ApacheKafka, class_path
from odradek import Admin
from soak.spark_kills import (
    PATIENCE_S,
    VICTIMS,
    Broker,
    Numbers,
    SparkDriver,
    Violation,
    kill,
    until,
)

ROOT = Path(__file__).parents[2]
PARTITIONS = 3
READY_S = 120
AFTER_START_S = 60
OPEN_S = 60
STANDALONE = "standalone"
HOSTS = ("127.0.0.1", "127.0.0.2")
CORES_OF_WORKER = 6
"""Enough for the executors of four drivers, on the worker that is left."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that compiles little: a run is over in seconds."""
CLUSTER = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executorEnv.PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}",
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.0001",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "1ms",
}
TWICE = 5
DENIED = r"Lost task .*Commit denied for partition"
TASK_POINTS = ("unacknowledged", "acknowledged")
UNDECIDED = ("ShutOutOlderDrivers", "ReadLedger", "WriteDecision")
DECIDED = ("EndTransactions", "half ended", "FenceLosers", "committed")
ROWS = (
    "attempt killed",
    "driver decided",
    "executor after its message",
    "driver undecided",
    "two drivers",
    "attempt denied",
    "driver away",
)
"""What is lost, by the rows of the table in docs/spark/exactly-once.md."""
AT_RANDOM = ("any process", "broker", "worker")


class QueryDriver(SparkDriver):
    """A driver, which is given one job after the other."""

    program = "exactly_once_query.py"
    jobs = 0
    """How many it was given."""

    def await_ready(self) -> None:
        if not until(lambda: self.count("ready") > 0 or self.ended(), READY_S) or self.ended():
            raise Violation(f"Spark did not start: see {self.directory}")

    def give(self, job: dict[str, str]) -> None:
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        self.jobs += 1

    def is_idle(self) -> bool:
        """True if all its jobs are done."""
        return self.count("finished") == self.jobs


class Drivers:
    """Drivers, all with the same settings; one is started ahead."""

    def __init__(self, directory: Path, given: dict[str, Any]) -> None:
        self.directory = directory
        self.given = given
        self.all: list[QueryDriver] = []
        self.oldest = 0
        """The number of the first one that may take several jobs."""
        self.ahead = self.new()

    def new(self) -> QueryDriver:
        directory = self.directory / f"driver-{len(self.all)}"
        directory.mkdir()
        driver = QueryDriver(directory, self.given | {"log": str(directory / "spark.log")})
        driver.start()
        self.all.append(driver)
        return driver

    def take(self) -> QueryDriver:
        """Return a driver that works for nobody, and start the next one."""
        driver = self.ahead
        driver.await_ready()
        self.ahead = self.new()
        return driver

    def renew(self) -> None:
        """Start another driver ahead, and let none that has begun take a further job."""
        self.ahead.kill_all()
        self.ahead = self.new()
        self.oldest = len(self.all) - 1

    def may_go_on(self, driver: QueryDriver) -> bool:
        """True for a driver that can take another job."""
        return driver.is_idle() and not driver.ended() and driver in self.all[self.oldest :]

    def stop(self) -> None:
        for driver in self.all:
            driver.kill_all()


class KafkaBroker:
    """An Apache Kafka, which can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.node = ApacheKafka(class_path(Path(tempfile.gettempdir())), directory)

    def start(self) -> None:
        if not self.node.data_dir.exists():
            self.node.format()
        self.node.spawn()
        self.node.await_start()

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    def kill(self) -> None:
        self.node.kill()


class Surroundings:
    """What all runs share: a broker, a Spark cluster unless Spark runs in its driver, drivers."""

    def __init__(self, broker: Any, cluster: Cluster | None, drivers: Drivers) -> None:
        self.broker = broker
        self.cluster = cluster
        self.drivers = drivers
        self.driver: QueryDriver | None = None
        """Alive and without a job, if there is one."""
        self.workers: list[Daemon] = cluster.daemons[1:] if cluster else []

    def take_driver(self) -> QueryDriver:
        driver, self.driver = self.driver, None
        return driver if driver is not None and not driver.ended() else self.drivers.take()

    def kill_worker(self, number: int) -> None:
        """Kill a worker of the Spark cluster, whose executors follow it; start another one. The
        executors that replace them are all on one host, so these drivers get no other jobs."""
        assert self.cluster is not None
        worker = self.workers[number]
        worker.process.kill()
        worker.process.wait()
        worker = self.cluster.start_worker(number, HOSTS[number], CORES_OF_WORKER)
        self.workers[number] = worker
        worker.await_line("Successfully registered with master")
        self.drivers.renew()


class QueryRun:
    """One query, and those who kill it."""

    def __init__(
        self, seed: int, first: str, kills: int, around: Surroundings, directory: Path
    ) -> None:
        self.chance = random.Random(seed)
        self.first = first
        self.kills = kills
        self.around = around
        self.bootstrap = around.broker.bootstrap
        self.directory = directory
        self.lost: collections.Counter[str] = collections.Counter()
        name = f"{seed}-{time.time_ns()}"
        self.input, self.output = f"numbers-{name}", f"copies-{name}"
        self.job = {
            "directory": str(directory),
            "bootstrap": self.bootstrap,
            "input": self.input,
            "output": self.output,
        }
        self.mine: list[QueryDriver] = []
        self.records = self.missing = self.duplicate = 0

    def execute(self) -> None:
        """Raises `Violation`."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wanted = [NewTopic(name, PARTITIONS, 1) for name in (self.input, self.output)]
        for created in admin.create_topics(wanted).values():
            created.result(PATIENCE_S)
        numbers = Numbers(self.bootstrap, self.input, PARTITIONS)
        try:
            numbers.start()
            for number in range(self.kills):
                self.await_work()
                if number == 0:
                    self.lose(self.first)
                else:
                    self.lose(self.chance.choice(AT_RANDOM))
            numbers.finish()
            self.finish()
            self.check(numbers)
        finally:
            numbers.stopping.set()
            # A driver that is well takes the next job.
            for driver in self.mine:
                if self.around.drivers.may_go_on(driver):
                    self.around.driver = driver
                else:
                    driver.kill_all()

    # The driver.

    def start_driver(self) -> QueryDriver:
        driver = self.around.take_driver()
        driver.give(self.job)
        self.mine.append(driver)
        return driver

    @property
    def driver(self) -> QueryDriver:
        if not self.mine or self.mine[-1].ended():
            self.start_driver()
        return self.mine[-1]

    def commits(self) -> int:
        log = self.directory / "checkpoint" / "commits"
        names = [each.name for each in log.iterdir()] if log.exists() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def await_work(self) -> None:
        """Wait until a micro-batch is committed, so that each loss meets a query at work."""
        before, driver = self.commits(), self.driver
        until(lambda: self.commits() > before or driver.ended(), AFTER_START_S)
        time.sleep(self.chance.random() / 2)

    # What is lost.

    def lose(self, what: str) -> None:
        getattr(self, "lose_" + what.replace(" ", "_"))()

    def meet(self, point: str) -> bool:
        """Arm a point and wait until it was met; False if it was not."""
        armed = self.directory / f"arm-{point}"
        driver = self.driver
        armed.touch()
        until(lambda: not armed.exists() or driver.ended(), AFTER_START_S)
        met = not armed.exists()
        armed.unlink(missing_ok=True)
        return met

    def lose_attempt_killed(self) -> None:
        point = self.chance.choice(TASK_POINTS)
        self.lost[f"attempt {point}"] += self.meet(point)

    def lose_attempt_denied(self) -> None:
        """Two attempts of a task run to the end, and one of them counts: the other is denied its
        commit, or killed if it asks too late."""
        if self.around.cluster is None:
            self.lose_attempt_killed()  # There is no speculation in a local session.
            return
        for _ in range(TWICE):
            wanted = self.twice_ended() + 1
            if self.meet("both attempts"):
                until(partial(self.has_twice_ended, wanted), AFTER_START_S)
        self.lost["two attempts to the end"] += self.twice_ended()

    def twice_ended(self) -> int:
        """How many tasks had several attempts that wrote all rows."""
        ended = self.directory / "attempts"
        lines = ended.read_text().splitlines() if ended.exists() else []
        counts = collections.Counter(line.split()[0] + " " + line.split()[1] for line in set(lines))
        return sum(count > 1 for count in counts.values())

    def has_twice_ended(self, count: int) -> bool:
        return self.twice_ended() >= count

    def lose_executor_after_its_message(self) -> None:
        kind = "executors" if self.around.cluster else "all task workers"
        self.lost[f"{kind} after their messages"] += self.meet("executors")

    def lose_driver_undecided(self) -> None:
        point = self.chance.choice(UNDECIDED)
        self.lost[f"driver at {point}"] += self.meet(point)

    def lose_driver_decided(self) -> None:
        point = self.chance.choice(DECIDED)
        self.lost[f"driver at {point}"] += self.meet(point)

    def lose_two_drivers(self) -> None:
        """A second driver on the same checkpoint; one of the two is killed."""
        older = self.driver
        newer = self.start_driver()
        time.sleep(1 + 2 * self.chance.random())
        loser = self.chance.choice((older, newer))
        loser.kill_all()
        if loser is newer:
            self.mine.remove(newer)
            self.mine.insert(0, newer)
        self.lost[f"{'older' if loser is older else 'newer'} of two drivers"] += 1

    def lose_driver_away(self) -> None:
        """The driver dies after its decision, for longer than transactions may be open: what it
        left open is aborted, as a broker would."""
        driver, point = self.driver, self.chance.choice(("EndTransactions", "half ended"))
        if self.meet(point):
            until(driver.ended, PATIENCE_S)
            driver.kill_all()
            with Admin(brokers=self.bootstrap) as admin:
                found = admin.list_transactions(states=["Ongoing"])
                open_now = [each.transactional_id for each in found]
                mine = [each for each in open_now if re.search(r"\.\d+\.\d+$", each)]
                if mine:
                    admin.fence_producers(mine)
            self.lost[f"driver away at {point}, {'some' if mine else 'nothing'} aborted"] += 1

    def lose_any_process(self) -> None:
        victims = ["driver", *VICTIMS]
        self.chance.shuffle(victims)
        driver = self.driver
        for victim in victims:
            if victim == "driver":
                driver.kill()
                self.lost["driver at random"] += 1
                return
            pids = sorted(driver.processes(victim))
            if pids and kill(self.chance.choice(pids)):
                self.lost[f"{victim} at random"] += 1
                return

    def lose_broker(self) -> None:
        self.around.broker.kill()
        time.sleep(self.chance.random())
        self.around.broker.start()
        self.lost["broker"] += 1

    def lose_worker(self) -> None:
        if self.around.cluster is None:
            self.lose_any_process()
        else:
            self.around.kill_worker(self.chance.randrange(len(HOSTS)))
            self.lost["worker with its executors"] += 1

    # The end.

    def finish(self) -> None:
        (self.directory / "finish").touch()
        deadline = time.monotonic() + PATIENCE_S
        while not self.driver.is_idle():
            if time.monotonic() > deadline:
                raise Violation(f"the query did not come to its end in {PATIENCE_S} s")
            until(lambda: self.mine[-1].ended() or self.mine[-1].is_idle(), 1)

    def check(self, numbers: Numbers) -> None:
        self.records = len(numbers.acked)
        counts: collections.Counter[int] = collections.Counter()
        for value in committed(self.bootstrap, self.output):
            counts[int(value.split(b":")[0])] += 1
        missing = sorted(set(numbers.acked) - set(counts))
        twice = sorted(number for number, count in counts.items() if count > 1)
        strange = sorted(set(counts) - set(numbers.acked))
        self.missing, self.duplicate = len(missing), len(twice)
        if missing or twice or strange:
            raise Violation(
                f"{len(missing)} missing {missing[:5]}, {len(twice)} duplicate {twice[:5]}, "
                f"{len(strange)} unexpected {strange[:5]}"
            )


def committed(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Yield the values of all committed records. Raises `Violation` if the last stable offset does
    not reach the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    at = [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)]
    found = {p.partition: consumer.get_watermark_offsets(p, timeout=60)[1] for p in at}
    # An empty partition has no position.
    ends = {partition: end for partition, end in found.items() if end > 0}
    consumer.assign(at)
    deadline = time.monotonic() + OPEN_S
    try:
        while ends:
            if time.monotonic() > deadline:
                raise Violation(
                    f"a transaction is left open in {topic}, partitions {sorted(ends)}: "
                    + left_open(bootstrap)
                )
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is None:
                    yield message.value() or b""
                elif error.code() == KafkaError._PARTITION_EOF:
                    number = message.partition() or 0
                    if consumer.position([at[number]])[0].offset >= ends.get(number, 0):
                        ends.pop(number, None)
                else:
                    raise Violation(f"the topic cannot be read: {error}")
    finally:
        consumer.close()


def left_open(bootstrap: str) -> str:
    """What the coordinators have open."""
    with Admin(brokers=bootstrap) as admin:
        found = [str(each) for each in admin.list_transactions() if each.state not in ENDED]
    return "; ".join(found) or "the coordinators have nothing open"


ENDED = ("Empty", "CompleteCommit", "CompleteAbort")


def denied(drivers: Drivers) -> int:
    """How often Spark denied an attempt its commit, as the logs of the drivers have it."""
    logs = [path for each in drivers.all for path in each.directory.glob("*.log")]
    return sum(len(re.findall(DENIED, path.read_text(errors="replace"))) for path in logs)


@contextlib.contextmanager
def surroundings(home: Path, peer: str, master: str) -> Iterator[Surroundings]:
    config = {"spark.sql.shuffle.partitions": "3"}
    with contextlib.ExitStack() as stack:
        cluster = None
        if master == STANDALONE:
            directory = home / "cluster"
            directory.mkdir()
            cluster = stack.enter_context(standalone(directory, HOSTS, CORES_OF_WORKER))
            master = cluster.url
            config |= EXECUTORS | CLUSTER
        broker: Any = KafkaBroker(home) if peer == "kafka" else Broker(home)
        broker.start()
        stack.callback(broker.kill)
        drivers = Drivers(home, {"master": master, "config": config})
        stack.callback(drivers.stop)
        yield Surroundings(broker, cluster, drivers)


@click.command()
@click.option("--runs", default=10, show_default=True, help="How many, with seeds one apart.")
@click.option("--seed", default=1, show_default=True, help="Of the first run.")
@click.option("--kills", default=2, show_default=True, help="How many in a run.")
@click.option("--peer", type=click.Choice(["odradek", "kafka"]), default="odradek")
@click.option(
    "--master",
    default="local[2,8]",
    show_default=True,
    help="Where Spark runs: local, or standalone, on a cluster that is started for the runs.",
)
@click.option("--results", type=click.Path(path_type=Path), help="A file to add JSON lines to.")
@click.option("--keep", is_flag=True, help="Leave the directories of good runs too.")
def main(
    runs: int, seed: int, kills: int, peer: str, master: str, results: Path | None, keep: bool
) -> None:
    """A Spark job that writes exactly once, under kill -9, over and over."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Nothing is left running.
    console = Console(soft_wrap=True, width=150)
    home = Path(tempfile.mkdtemp(prefix="odradek-exactly-once-"))
    # Java that is killed leaves its files.
    os.environ["SPARK_LOCAL_DIRS"] = str(home)
    os.environ["JDK_JAVA_OPTIONS"] = f"-Djava.io.tmpdir={home}"
    bad: list[int] = []
    total: collections.Counter[str] = collections.Counter()
    records = 0
    with surroundings(home, peer, master) as around:
        for number in range(seed, seed + runs):
            directory = home / f"run-{number}"
            directory.mkdir()
            run = QueryRun(number, ROWS[number % len(ROWS)], kills, around, directory)
            began = time.monotonic()
            verdict = "good"
            try:
                run.execute()
            except Violation as violation:
                verdict = f"BAD: {violation}; see {directory}"
                bad.append(number)
            seconds = round(time.monotonic() - began, 1)
            total += run.lost
            records += run.records
            lost = ", ".join(f"{count} {what}" for what, count in sorted(run.lost.items()))
            console.print(f"seed {number}: {seconds} s, {run.records} records; {lost}: {verdict}")
            if results is not None:
                line = {"peer": peer, "master": master, "seed": number, "kills": kills}
                line |= {"seconds": seconds, "records": run.records, "missing": run.missing}
                line |= {"duplicate": run.duplicate, "lost": run.lost, "verdict": verdict}
                with results.open("a") as file:
                    print(json.dumps(line), file=file)
            if verdict == "good" and not keep:
                shutil.rmtree(directory)
        times_denied = denied(around.drivers)
    console.print(
        f"{runs} runs on {peer}, Spark on {master}, {records} records; lost in all: "
        f"{dict(sorted(total.items()))}; attempts denied: {times_denied}; bad: {bad}"
    )
    if not bad and not keep:
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
