"""`odradek cluster` and `topic alter` move replicas of a real Apache Kafka of three nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from cli.processes import run
from interop.apache_kafka_cluster import ApacheKafkaCluster
from odradek import Admin, Consumer, Producer
from odradek.model.topics import TopicPartition

pytestmark = pytest.mark.interop

RECORDS = 300
PATIENCE_S = 60


@pytest.fixture
def admin(three_kafkas: ApacheKafkaCluster) -> Iterator[Admin]:
    """An admin client of the cluster, whose topics it deletes first."""
    with Admin(brokers=three_kafkas.bootstrap) as admin:
        for topic in admin.topics():
            admin.delete_topic(topic.name)
        until(lambda: admin.topics() == [], "no topics")
        yield admin


def odradek(kafka: ApacheKafkaCluster, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    """Run a command; return its JSON lines."""
    done = run(*arguments, "--json", "-b", kafka.bootstrap)
    assert done.returncode == code, done.stderr
    return [msgspec.json.decode(line) for line in done.stdout.splitlines()]


def replicas(admin: Admin, topic: str) -> list[list[int]]:
    return [sorted(each.replicas) for each in admin.topic(topic).partitions]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def records(kafka: ApacheKafkaCluster) -> set[bytes | None]:
    """Read all records of the topic."""
    with Consumer(brokers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", number) for number in range(6)])
        found: set[bytes | None] = set()
        until(
            lambda: (
                len(found.update(r.value for r in consumer.consume(500, 1)) or found) >= RECORDS
            ),
            "the records are read",
        )
        return found


def test_a_cluster_grows_drains_a_broker_and_removes_it(
    three_kafkas: ApacheKafkaCluster, admin: Admin
) -> None:
    """In this order: each step needs what the one before it has made."""
    kafka = three_kafkas
    admin.create_topic("orders", partitions=6, replication=1)
    with Producer(brokers=kafka.bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            producer.send("orders", str(number).encode())

    odradek(kafka, "cluster", "grow", "--yes")
    until(lambda: replicas(admin, "orders") == [[1, 2, 3]] * 6, "a broker tells of the replicas")
    until(
        lambda: (
            sorted(each.leader for each in admin.topic("orders").partitions) == [1, 1, 2, 2, 3, 3]
        ),
        "the leaders are spread",
    )
    assert odradek(kafka, "cluster", "grow", "--yes") == []

    odradek(kafka, "cluster", "drain", "3", "--yes", code=1)  # there is nowhere to move it
    odradek(kafka, "topic", "alter", "orders", "--replicas", "2", "--yes")
    until(lambda: all(len(each) == 2 for each in replicas(admin, "orders")), "two replicas")
    drained = odradek(kafka, "cluster", "drain", "3", "--yes")
    assert drained[-1] == {"broker": 3, "drained": True, "cordoned": True}
    until(lambda: replicas(admin, "orders") == [[1, 2]] * 6, "they are told of")

    *brokers, summary = odradek(kafka, "cluster", "status")
    assert [(each["broker"], each["replicas"]) for each in brokers] == [(1, 6), (2, 6), (3, 0)]
    assert {each["quorum"] for each in brokers} == {"leader", "voter"}
    assert summary["under_replicated"] == summary["without_leader"] == summary["moving"] == 0

    odradek(kafka, "cluster", "remove", "1", "--yes", code=1)  # it has replicas
    odradek(kafka, "cluster", "remove", "3", "--yes", code=1)  # it runs
    kafka.kill(3)
    until(lambda: len(admin.cluster().nodes) == 2, "the killed broker is fenced")
    assert odradek(kafka, "cluster", "remove", "3", "--yes") == [
        {"broker": 3, "voter": False},
        {"broker": 3, "removed": True},
    ]
    until(lambda: [each.node_id for each in admin.quorum().voters] == [1, 2], "two voters")
    assert records(kafka) == {str(number).encode() for number in range(RECORDS)}
