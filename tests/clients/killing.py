"""Kills a broker repeatedly while producers write to it, and checks its log.

Two producers write numbers, each to a topic of its own: one idempotent, one plain with one request
in flight, so that retries stay in order. Both use `acks=all`. A number counts as acknowledged once
its delivery was reported.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cli.processes import Up
from odradek.testing.ports import reserve_ports

IDEMPOTENT, PLAIN = "idempotent", "plain"
ACK_TIMEOUT_S = 60
AT_MOST_QUEUED = 2000
BURST, PAUSE_S = 25, 0.005
SETTINGS: dict[str, dict[str, Any]] = {
    IDEMPOTENT: {"enable.idempotence": True},
    PLAIN: {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1},
}


@dataclass
class Load:
    """A producer on a thread of its own that writes 0, 1, 2, ... until `finish`."""

    topic: str
    bootstrap: str
    acked: dict[int, int] = field(default_factory=dict)
    """Offset of each acknowledged number."""
    failures: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._ack = threading.Event()
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "error_cb": self._failed,
                "log_level": 0,
                **SETTINGS[self.topic],
            }
        )
        self._thread = threading.Thread(target=self._run, name=f"load-{self.topic}")
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if len(self._producer) < AT_MOST_QUEUED:
                for _ in range(BURST):
                    value = str(self.sent).encode()
                    self._producer.produce(
                        self.topic, value, on_delivery=self._delivered, partition=0
                    )
                    self.sent += 1
            self._producer.poll(PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        number = int(message.value())
        if error is not None:
            self.failures.append(f"{number}: {error}")
        else:
            self.acked[number] = message.offset()
            self._ack.set()

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(str(error))

    def await_ack(self) -> None:
        """Wait for the next acknowledgement."""
        self._ack.clear()
        assert self._ack.wait(ACK_TIMEOUT_S), f"{self.topic}: nothing acknowledged; {self.failures}"

    def finish(self) -> None:
        """Stop sending, and wait until everything sent is acknowledged."""
        self.stop()
        assert self._producer.flush(ACK_TIMEOUT_S) == 0
        assert self.failures == []
        assert len(self.acked) == self.sent

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def killed_over_and_over(data_dir: Path, rounds: int, seed: int) -> dict[str, Load]:
    """Start, write, kill -9 at a random moment and restart on the same port, `rounds` times.

    The last broker stops cleanly, once everything sent is acknowledged and read back.
    """
    chance = random.Random(seed)
    port = str(reserve_ports(1)[0])  # Nobody else gets it while the broker is down.
    loads: dict[str, Load] = {}
    try:
        for _ in range(rounds):
            with Up("--data-dir", str(data_dir), "--port", port) as broker:
                if not loads:
                    loads.update(begin(broker.bootstrap))
                for load in loads.values():
                    load.await_ack()
                threading.Event().wait(chance.random() * 0.3)
                broker.process.kill()
        with Up("--data-dir", str(data_dir), "--port", port) as broker:
            for topic, load in loads.items():
                load.finish()
                check(load, read_back(broker.bootstrap, topic))
            assert broker.stop() == 0
    finally:
        for load in loads.values():
            load.stop()
    return loads


def begin(bootstrap: str) -> dict[str, Load]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in SETTINGS]).values():
        created.result(ACK_TIMEOUT_S)
    return {topic: Load(topic, bootstrap) for topic in SETTINGS}


def read_back(bootstrap: str, topic: str) -> list[int]:
    """Return the numbers in the log by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    numbers: list[int] = []
    try:
        while True:
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    assert message.offset() == len(numbers)
                    numbers.append(int(message.value()))  # type: ignore[arg-type]
                elif error.code() == KafkaError._PARTITION_EOF:
                    return numbers
                else:
                    raise AssertionError(error)
    finally:
        consumer.close()


def check(load: Load, numbers: list[int]) -> None:
    """Check that acknowledged numbers are at their offsets and in order, and once if idempotent."""
    misplaced = {n: offset for n, offset in load.acked.items() if numbers[offset] != n}
    assert misplaced == {}
    if load.topic == IDEMPOTENT:
        assert numbers == list(range(load.sent))
    first_seen = list(dict.fromkeys(numbers))
    assert first_seen == list(range(load.sent))
