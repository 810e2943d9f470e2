"""Kafka Streams (`exactly_once_v2`) counts exactly though it is killed, on Apache Kafka and on this
project's broker: its group, its transactions and its changelog work unchanged."""

from __future__ import annotations

import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from interop.apache_kafka import (
    LOG_LEVEL,
    STREAMS_POM,
    TEMPORARY,
    ApacheKafka,
    KafkaMissing,
    class_path,
)
from odradek import Admin, Producer
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
KEYS, OF_EACH = 20, 150
FIRST_COUNTS = 500
PATIENCE_S = 120.0
OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", LOG_LEVEL, TEMPORARY)


@pytest.fixture(params=["kafka", "odradek"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of each of the two."""
    found: ApacheKafka | Broker = request.getfixturevalue(
        "kafka" if request.param == "kafka" else "ours"
    )
    return found.bootstrap


@pytest.fixture(scope="session")
def streams_jars(request: pytest.FixtureRequest) -> str:
    try:
        return class_path(request.config.cache.mkdir("kafka-streams"), STREAMS_POM)
    except KafkaMissing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture
def start_counting(
    bootstrap: str, streams_jars: str, tmp_path: Path
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """`start_counting()` starts the application in a process of its own."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = ["java", *OPTIONS, "-cp", streams_jars, str(HERE / "StreamsCount.java")]
        command += [bootstrap, "counting", "words", "counts", str(tmp_path), "2000"]
        with (tmp_path / f"streams-{len(running)}.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


class Counts:
    """The counts of each key that a reader of committed records has seen, in their order."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: dict[str, list[int]] = defaultdict(list)
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reading",
                "isolation.level": "read_committed",
            }
        )
        beginning = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [confluent_kafka.TopicPartition("counts", each, beginning) for each in range(2)]
        )

    def read(self, count: int) -> None:
        """Read until there are so many in all."""
        end = time.monotonic() + PATIENCE_S
        while sum(map(len, self.seen.values())) < count:
            assert time.monotonic() < end, f"{self.seen}"
            for message in self._consumer.consume(1000, 0.2):
                assert message.error() is None
                self.seen[(message.key() or b"").decode()].append(int(message.value() or b""))

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.timeout(300)
def test_counts_are_exact_though_the_application_is_killed(bootstrap, start_counting):
    with Admin(brokers=bootstrap) as admin:
        for topic in ("words", "counts"):
            admin.create_topic(topic, partitions=2)
    counts = Counts(bootstrap)
    with Producer(brokers=bootstrap) as producer:

        def send(some: range) -> None:
            for number in some:
                producer.send("words", b"%d" % number, key=b"key-%d" % (number % KEYS))
            producer.flush()

        half = KEYS * OF_EACH // 2
        send(range(half))
        first = start_counting()
        counts.read(FIRST_COUNTS)
        first.kill()
        second = start_counting()
        send(range(half, 2 * half))
        counts.read(2 * half)
        second.stdin.close()
        assert second.wait(PATIENCE_S) == 0
    counts.close()
    expected = list(range(1, OF_EACH + 1))
    assert counts.seen == {f"key-{number}": expected for number in range(KEYS)}
