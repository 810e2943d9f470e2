"""Under kill -9 no acknowledged commit is lost, while the topic of the offsets is compacted."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from cli.processes import Up
from odradek.testing.ports import reserve_ports

ROUNDS, GROUPS = 5, 3
ACKS_PER_ROUND = 30
ACK_TIMEOUT_S = 60
TOPIC = "read"
SMALL = {"internal.segment.bytes": "4000", "min.cleanable.dirty.ratio": "0.1"}


class Committer:
    """A group that commits 1, 2, 3, ... on a thread of its own, until `stop`.

    A commit without a response in time may have been stored or not; the next one is larger anyway.
    """

    def __init__(self, bootstrap: str, group: str) -> None:
        self.acked = self.sent = 0
        self.acks = 0
        self._acked = threading.Condition()
        self._answered = threading.Event()
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "on_commit": self._on_commit,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "socket.timeout.ms": 5000,
                "log_level": 0,
            }
        )
        self._consumer.assign([])  # Lets the client handle responses.
        self._thread = threading.Thread(target=self._run, name=f"commits-{group}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.sent += 1
            self._answered.clear()
            offsets = [TopicPartition(TOPIC, 0, self.sent, "." * 50)]
            self._consumer.commit(offsets=offsets, asynchronous=True)
            while not (self._answered.is_set() or self._stopping.is_set()):
                self._consumer.poll(0.01)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is None and partitions[0].error is None:
            with self._acked:
                self.acked = max(self.acked, partitions[0].offset)
                self.acks += 1
                self._acked.notify_all()
        self._answered.set()

    def await_acks(self, count: int) -> None:
        with self._acked:
            wanted = self.acks + count
            assert self._acked.wait_for(lambda: self.acks >= wanted, ACK_TIMEOUT_S), self.sent

    def committed(self) -> int:
        """Return the committed offset from the broker, after `stop`."""
        (found,) = self._consumer.committed([TopicPartition(TOPIC, 0)], timeout=ACK_TIMEOUT_S)
        return int(found.offset)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def prepare(bootstrap: str) -> None:
    """Create the topic, and set small segments for the topic of offsets so that it is compacted
    often.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        created.result(20)
    found = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
    found.committed([TopicPartition(TOPIC, 0)], timeout=ACK_TIMEOUT_S)  # Creates the topic.
    found.close()
    changes = [
        (ResourceType.TOPIC, "__consumer_offsets", SMALL),
        (ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "50"}),
    ]
    resources = [
        ConfigResource(
            kind,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                for key, value in values.items()
            ],
        )
        for kind, name, values in changes
    ]
    for changed in admin.incremental_alter_configs(resources).values():
        changed.result(20)


def test_every_acknowledged_commit_survives_five_kills(tmp_path: Path) -> None:
    chance = random.Random(7)
    port = str(reserve_ports(1)[0])
    committers: list[Any] = []
    try:
        for _ in range(ROUNDS):
            with Up("--data-dir", str(tmp_path / "data"), "--port", port) as broker:
                if not committers:
                    prepare(broker.bootstrap)
                    committers = [Committer(broker.bootstrap, f"g{n}") for n in range(GROUPS)]
                for committer in committers:
                    committer.await_acks(ACKS_PER_ROUND)
                threading.Event().wait(chance.random() * 0.2)
                broker.process.kill()
        with Up("--data-dir", str(tmp_path / "data"), "--port", port) as broker:
            for committer in committers:
                committer.stop()
                assert committer.acked <= committer.committed() <= committer.sent
            assert compacted_up_to(tmp_path / "data") > 0
            assert broker.stop() == 0
    finally:
        for committer in committers:
            committer.stop()


def compacted_up_to(data_dir: Path) -> int:
    """Return the highest offset below which any log is compacted."""
    lines = (data_dir / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    return max(int(line.split()[2]) for line in lines)
