"""A node with records becomes three while clients write and read, and its loss loses nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from cli.processes import Up, run
from cli.test_up_nodes import until
from odradek import Admin

TOPIC, GROUP, PARTITIONS = "orders", "billing", 6
BEFORE = 3_000
QUIET = ("--port", "0", "--http", "none")


class Load:
    """An idempotent producer that goes on until it is ended, and what it was told."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self.sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            number = self.sent
            self._producer.produce(
                TOPIC,
                str(number),
                partition=number % PARTITIONS,
                on_delivery=partial(self._delivered, number),
            )
            self.sent += 1

    def _delivered(self, number: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged.append(number)
        else:
            self.failed.append(str(error))

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._ends.is_set():
            self.send(50)
            self._producer.poll(0.02)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        self._thread.join()
        self.flush()


def commit(bootstrap: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    places = [TopicPartition(TOPIC, number, offset) for number, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    found = {each.partition: each.offset for each in consumer.committed(places, timeout=60)}
    consumer.close()
    return found


def read(bootstrap: str, count: int) -> dict[int, list[int]]:
    """Return the numbers in each partition, in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    left = count
    while left:
        messages = consumer.consume(min(left, 1_000), timeout=30)
        assert messages, f"{left} of {count} records are missing"
        for message in messages:
            assert message.error() is None, message.error()
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            found[partition].append(int(value))
        left -= len(messages)
    consumer.close()
    return found


def in_sync_on_three(admin: Admin) -> bool:
    return all(
        len(each.isr) == 3 for topic in admin.topics(internal=True) for each in topic.partitions
    )


def leaders(admin: Admin) -> Counter[int]:
    return Counter(each.leader for topic in admin.topics() for each in topic.partitions)


def test_one_node_grows_to_three_under_load_and_its_loss_loses_nothing(tmp_path: Path) -> None:
    with Up("--cluster", *QUIET, "--data-dir", str(tmp_path / "1")) as one:
        run("topic", "create", TOPIC, "-p", str(PARTITIONS), "-b", one.bootstrap)
        load = Load(one.bootstrap)
        load.send(BEFORE)
        load.flush()
        offsets = {number: 100 + number for number in range(PARTITIONS)}
        commit(one.bootstrap, offsets)
        load.begin()
        join = ("--join", one.bootstrap, *QUIET, "--data-dir")
        with Up(*join, str(tmp_path / "2")) as two, Up(*join, str(tmp_path / "3")) as three:
            grown = run("cluster", "grow", "--yes", "-b", one.bootstrap)
            assert grown.returncode == 0, grown.stderr
            others = f"{two.bootstrap},{three.bootstrap}"
            with Admin(brokers=others) as admin:
                until(lambda: in_sync_on_three(admin))
                # A broker learns of the elections a moment after the controller has held them.
                until(lambda: leaders(admin) == {1: 2, 2: 2, 3: 2})
                until(lambda: len(admin.quorum().voters) == 3)
                os.kill(one.process.pid, signal.SIGKILL)
                until(lambda: {node.id for node in admin.cluster().nodes} == {2, 3})
            sent = load.sent
            until(lambda: len(load.acknowledged) > sent)  # It goes on with the others.
            load.end()
            assert load.failed == []
            assert len(load.acknowledged) == load.sent
            found = read(others, load.sent)
            for number, values in found.items():
                assert values == list(range(number, load.sent, PARTITIONS))
            assert committed(others) == offsets
