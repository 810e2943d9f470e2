"""A Spark job that writes exactly once, under kill -9, over and over.

    PYTHONPATH=tests .venv/bin/python -m soak.spark_exactly_once --runs 50 --seed 1 --peer kafka

A run has a broker (Odradek, or an Apache Kafka that all runs share), a producer of numbered records
that never pauses, and a driver (`exactly_once_query`). The seed chooses what is lost, and when: the
driver or a task worker at a point of the sink's protocol, or at any time; the broker; a driver for
longer than the timeout of transactions (what it left open is aborted, as a broker would); a driver
that does not know that another one has taken over. What is gone is started again.

At the end readers of committed records must get each number that was acknowledged once, and the
last stable offset must reach the end: nothing is left open. The exit code is 1 if that is not so in
some run; its directory is left.
"""

from __future__ import annotations

import collections
import contextlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from interop.apache_kafka import ApacheKafka, class_path
from odradek import Admin
from soak.spark_kills import (
    PATIENCE_S,
    VICTIMS,
    Broker,
    Driver,
    Numbers,
    Violation,
    kill,
    until,
)

HERE = Path(__file__).parent
PARTITIONS = 3
AFTER_START_S = 40
DRIVER_POINTS = (
    "ShutOutOlderDrivers",
    "WriteDecision",
    "EndTransactions",
    "half ended",
    "FenceLosers",
    "committed",
)
TASK_POINTS = ("unacknowledged", "acknowledged")
KINDS = ("driver at a point", "away", "task at a point", "any process", "broker", "two drivers")
WEIGHTS = (4, 3, 2, 3, 1, 2)


class QueryDriver(Driver):
    """The driver's process, of another program."""

    program = "exactly_once_query.py"


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


class Run:
    """One query, and those who kill it."""

    def __init__(
        self, seed: int, kills: int, master: str, broker: Any, directory: Path, speculation: bool
    ) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.kills = kills
        self.broker = broker
        self.directory = directory
        self.lost: collections.Counter[str] = collections.Counter()
        self.input, self.output = (
            f"numbers-{seed}-{time.time_ns()}",
            f"copies-{seed}-{time.time_ns()}",
        )
        config = {"spark.sql.shuffle.partitions": "3"}
        if speculation:
            config |= {
                "spark.speculation": "true",
                "spark.speculation.interval": "20ms",
                "spark.speculation.multiplier": "1.0001",
                "spark.speculation.quantile": "0.3",
                "spark.speculation.minTaskRuntime": "1ms",
                "spark.executor.memory": "512m",
            }
        self.job = {
            "directory": str(directory),
            "bootstrap": broker.bootstrap,
            "input": self.input,
            "output": self.output,
            "master": master,
            "config": config,
        }
        self.drivers: list[Driver] = []
        self.records = 0

    def execute(self) -> None:
        """Raises `Violation`."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        wanted = [NewTopic(name, PARTITIONS, 1) for name in (self.input, self.output)]
        for created in admin.create_topics(wanted).values():
            created.result(PATIENCE_S)
        numbers = Numbers(self.broker.bootstrap, self.input, PARTITIONS)
        try:
            numbers.start()
            self.start_driver()
            for _ in range(self.kills):
                self.await_work()
                kind = self.chance.choices(KINDS, WEIGHTS)[0]
                getattr(self, "lose_" + kind.replace(" ", "_"))()
            numbers.finish()
            self.finish()
            self.check(numbers)
        finally:
            numbers.stopping.set()
            for driver in self.drivers:
                driver.kill_all()

    # The driver.

    def start_driver(self) -> Driver:
        driver = QueryDriver(self.directory, self.job)
        self.drivers.append(driver)
        driver.start()
        return driver

    @property
    def driver(self) -> Driver:
        if self.drivers[-1].ended():
            self.start_driver()
        return self.drivers[-1]

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

    def meet(self, point: str) -> bool:
        """Arm a point and wait until it was met; False if it was not."""
        armed = self.directory / f"arm-{point}"
        driver = self.driver
        armed.touch()
        until(lambda: not armed.exists() or driver.ended(), AFTER_START_S)
        met = not armed.exists()
        armed.unlink(missing_ok=True)
        return met

    def lose_driver_at_a_point(self) -> None:
        point = self.chance.choice(DRIVER_POINTS)
        self.lost[f"driver at {point}"] += self.meet(point)

    def lose_away(self) -> None:
        """The driver dies after its decision, for longer than transactions may be open."""
        driver, point = self.driver, self.chance.choice(("EndTransactions", "half ended"))
        if self.meet(point):
            until(driver.ended, PATIENCE_S)
            driver.kill_all()
            with Admin(brokers=self.broker.bootstrap) as admin:
                found = admin.list_transactions(states=["Ongoing"])
                open_now = [each.transactional_id for each in found]
                mine = [each for each in open_now if re.search(r"\.\d+\.\d+$", each)]
                if mine:
                    admin.fence_producers(mine)
            self.lost[f"driver away at {point}"] += 1

    def lose_task_at_a_point(self) -> None:
        point = self.chance.choice(TASK_POINTS)
        self.lost[f"task at {point}"] += self.meet(point)

    def lose_any_process(self) -> None:
        victims = ["driver", *VICTIMS]
        self.chance.shuffle(victims)
        driver = self.driver
        for victim in victims:
            if victim == "driver":
                driver.kill()
                self.lost[victim] += 1
                return
            pids = sorted(driver.processes(victim))
            if pids and kill(self.chance.choice(pids)):
                self.lost[victim] += 1
                return

    def lose_broker(self) -> None:
        self.broker.kill()
        time.sleep(self.chance.random())
        self.broker.start()
        self.lost["broker"] += 1

    def lose_two_drivers(self) -> None:
        """A second driver on the same checkpoint; one of the two is killed."""
        older = self.driver
        newer = self.start_driver()
        until(lambda: newer.count("ready") > 0 or newer.ended(), AFTER_START_S)
        time.sleep(2 + 3 * self.chance.random())
        loser = self.chance.choice((older, newer))
        loser.kill_all()
        if loser is newer:
            self.drivers.remove(newer)
            self.drivers.insert(0, newer)
        self.lost["one of two drivers"] += 1

    # The end.

    def finish(self) -> None:
        (self.directory / "finish").touch()
        deadline = time.monotonic() + PATIENCE_S
        while not self.drivers[-1].count("finished"):
            driver = self.driver
            if time.monotonic() > deadline:
                raise Violation(f"the query did not come to its end in {PATIENCE_S} s")
            until(driver.ended, 1)

    def check(self, numbers: Numbers) -> None:
        counts: collections.Counter[int] = collections.Counter()
        for value in committed(self.broker.bootstrap, self.output):
            counts[int(value.split(b":")[0])] += 1
        self.records = len(numbers.acked)
        missing = sorted(set(numbers.acked) - set(counts))
        twice = sorted(number for number, count in counts.items() if count > 1)
        strange = sorted(set(counts) - set(numbers.acked))
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
    ends = {p.partition: consumer.get_watermark_offsets(p, timeout=60)[1] for p in at}
    consumer.assign(at)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while ends:
            if time.monotonic() > deadline:
                raise Violation(f"a transaction is left open in {topic}: {sorted(ends)}")
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


@click.command()
@click.option("--runs", default=10, show_default=True, help="How many, with seeds one apart.")
@click.option("--seed", default=1, show_default=True, help="Of the first run.")
@click.option("--kills", default=5, show_default=True, help="How many in a run.")
@click.option("--peer", type=click.Choice(["odradek", "kafka"]), default="odradek")
@click.option(
    "--master",
    default="local[2,8]",
    show_default=True,
    help="Where Spark runs. Of several processes, as local-cluster[2,1,512]: with speculation.",
)
@click.option("--keep", is_flag=True, help="Leave the directories of good runs too.")
def main(runs: int, seed: int, kills: int, peer: str, master: str, keep: bool) -> None:
    """A Spark job that writes exactly once, under kill -9, over and over."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Nothing is left running.
    console = Console(soft_wrap=True, width=150)
    home = Path(tempfile.mkdtemp(prefix="odradek-exactly-once-"))
    broker: Any = KafkaBroker(home) if peer == "kafka" else Broker(home)
    broker.start()
    bad: list[int] = []
    total: collections.Counter[str] = collections.Counter()
    records = 0
    try:
        for number in range(seed, seed + runs):
            directory = Path(tempfile.mkdtemp(prefix=f"odradek-exactly-once-{number}-"))
            run = Run(number, kills, master, broker, directory, not master.startswith("local["))
            began = time.monotonic()
            verdict = "good"
            try:
                run.execute()
            except Violation as violation:
                verdict = f"BAD: {violation}; see {directory}"
                bad.append(number)
            total += run.lost
            records += run.records
            lost = ", ".join(f"{count} {what}" for what, count in sorted(run.lost.items()))
            console.print(
                f"seed {number}: {time.monotonic() - began:.0f} s, {run.records} records, "
                f"{len(run.drivers)} drivers; lost: {lost}: {verdict}"
            )
            if verdict == "good" and not keep:
                shutil.rmtree(directory)
    finally:
        with contextlib.suppress(Exception):
            broker.kill()
        shutil.rmtree(home, ignore_errors=True)
    console.print(
        f"{runs} runs on {peer}, {records} records; lost in all: {dict(total)}; bad: {bad}"
    )
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
