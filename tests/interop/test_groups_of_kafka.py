"""Our consumer in groups with Kafka's own and others, with a real Apache Kafka and our broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from clients.group_members import Member, Members
from interop.apache_kafka import ApacheKafka
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).with_name("GroupMember.java")
PARTITIONS = 8
names = itertools.count()


@pytest.fixture(params=["Apache Kafka", "ours"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of either broker."""
    if request.param == "ours":
        ours: Broker = request.getfixturevalue("ours")
        return ours.bootstrap
    kafka: ApacheKafka = request.getfixturevalue("kafka")
    return kafka.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A new topic."""
    name = f"group-{next(names)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    return name


@pytest.fixture
def java(jars: str) -> Callable[..., Member]:
    """`java(group)`, or `java(group, "instance id")`, which starts a member with Kafka's own
    client.
    """

    def start(group: Members, *instance_id: str) -> Member:
        options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = [
            "java",
            *options,
            quiet,
            "-cp",
            jars,
            str(SOURCE),
            *group.arguments,
            *instance_id,
        ]
        return group.add("Java", command)

    return start


def produce(bootstrap: str, topic: str, label: str, count: int = 200) -> list[str]:
    """Produce records to all partitions; return their values."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    values = [f"{label}-{number}" for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return values


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_leadership_moves_between_java_and_our_members_without_loss(
    bootstrap: str, topic: str, java: Callable[..., Member], strategy: str
) -> None:
    with Members(bootstrap, topic, topic, strategy) as group:
        first = group.start("odradek")
        group.await_whole(PARTITIONS, first)
        second = java(group)
        group.await_whole(PARTITIONS, first, second)
        third = group.start("odradek")
        group.await_whole(PARTITIONS, first, second, third)
        group.await_read(produce(bootstrap, topic, "all"))
        first.close()
        group.await_whole(PARTITIONS, second, third)
        second.kill()
        group.await_whole(PARTITIONS, third)
        group.await_read(produce(bootstrap, topic, "rest"))


def test_a_group_of_mixed_clients_reads_every_record(
    bootstrap: str, topic: str, java: Callable[..., Member]
) -> None:
    with Members(bootstrap, topic, topic, "range") as group:
        ours, theirs = group.start("odradek"), java(group)
        native, pure = group.start("confluent-kafka"), group.start("kafka-python")
        group.await_whole(PARTITIONS, ours, theirs, native, pure)
        group.await_read(produce(bootstrap, topic, "first"))
        ours.stop()
        group.await_whole(PARTITIONS, theirs, native, pure)
        ours.go_on()
        group.await_whole(PARTITIONS, ours, theirs, native, pure)
        native.kill()
        group.await_whole(PARTITIONS, ours, theirs, pure)
        group.await_read(produce(bootstrap, topic, "second"))


def test_a_restart_of_our_static_member_causes_no_rebalance(
    bootstrap: str, topic: str, java: Callable[..., Member]
) -> None:
    with Members(bootstrap, topic, topic, "range", session_ms=60_000) as group:
        ours = group.start("odradek", "one")
        group.await_whole(PARTITIONS, ours)
        theirs = java(group)
        group.await_whole(PARTITIONS, ours, theirs)
        had, rebalances = ours.owned, theirs.rebalances
        ours.kill()
        again = group.start("odradek", "one")
        group.await_whole(PARTITIONS, again, theirs)
        group.await_read(produce(bootstrap, topic, "on"))
        assert (again.owned, theirs.rebalances) == (had, rebalances)


def calls_of(
    group: Members, rebalances: int, start: Callable[[Members, str], Member]
) -> list[list[tuple[str, list[int]]]]:
    """Return the listener calls of two members: the second joins the first, then both leave."""
    first = start(group, "a")
    group.await_whole(PARTITIONS, first)
    second = start(group, "b")
    group.await_whole(PARTITIONS, first, second)

    def assigned_often_enough() -> bool:
        return sum(what == "assigned" for what, _ in first.calls) >= rebalances

    group.until(assigned_often_enough, f"the first is told of {rebalances} assignments")
    first.close()
    second.close()
    return [first.calls, second.calls]


@pytest.mark.parametrize(
    ("strategy", "rebalances"), [("range", 2), ("sticky", 2), ("cooperative-sticky", 3)]
)
def test_our_listener_gets_the_calls_of_javas(
    bootstrap: str, topic: str, java: Callable[..., Member], strategy: str, rebalances: int
) -> None:
    """The number of empty assignments of the second member may differ: it may miss a rebalance
    that another one follows at once.
    """
    with Members(bootstrap, f"{topic}-java", topic, strategy, session_ms=60_000) as group:
        expected = calls_of(group, rebalances, java)
    with Members(bootstrap, f"{topic}-ours", topic, strategy, session_ms=60_000) as group:
        found = calls_of(group, rebalances, lambda group, seat: group.start("odradek", seat))
    assert found[0] == expected[0]
    nothing: tuple[str, list[int]] = ("assigned", [])
    seconds = [[call for call in calls if call != nothing] for _, calls in (found, expected)]
    assert seconds[0] == seconds[1]
