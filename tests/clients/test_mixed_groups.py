"""Groups whose members use different libraries, at our broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from clients.group_members import Members
from odradek.testing.broker import Broker

"""On a busy machine each of many steps may take long."""

PARTITIONS = 8
NewTopic = Callable[..., str]


def produce(broker: Broker, topic: str, label: str, count: int = 200) -> list[str]:
    """Produce records to all partitions; return their values."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    values = [f"{label}-{number}" for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return values


@pytest.mark.parametrize(
    ("strategy", "libraries"),
    [
        ("range", ["odradek", "confluent-kafka", "kafka-python", "aiokafka"]),
        ("roundrobin", ["odradek", "confluent-kafka", "kafka-python", "aiokafka"]),
        ("sticky", ["odradek.aio", "kafka-python", "aiokafka"]),
        (
            "cooperative-sticky",
            ["odradek", "confluent-kafka", "odradek.aio", "confluent-kafka"],
        ),
    ],
)
def test_members_of_different_libraries_share_a_topic(
    broker: Broker, new_topic: NewTopic, strategy: str, libraries: list[str]
) -> None:
    topic = new_topic(PARTITIONS)
    with Members(broker.bootstrap, topic, topic, strategy) as group:
        members = []
        for library in libraries:
            members.append(group.start(library))
            group.await_whole(PARTITIONS, *members)
        group.await_read(produce(broker, topic, "all"))
        members.pop(0).close()
        group.await_whole(PARTITIONS, *members)
        group.await_read(produce(broker, topic, "rest"))


def test_members_that_die_or_pause_and_return_leave_nothing_unread(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(PARTITIONS)
    with Members(broker.bootstrap, topic, topic, "range") as group:
        ours, theirs = group.start("odradek"), group.start("confluent-kafka")
        other, asynchronous = group.start("kafka-python"), group.start("aiokafka")
        group.await_whole(PARTITIONS, ours, theirs, other, asynchronous)
        group.await_read(produce(broker, topic, "first"))
        theirs.kill()
        group.await_whole(PARTITIONS, ours, other, asynchronous)
        group.await_read(produce(broker, topic, "second"))
        ours.stop()
        group.await_whole(PARTITIONS, other, asynchronous)
        ours.go_on()
        group.await_whole(PARTITIONS, ours, other, asynchronous)
        group.await_read(produce(broker, topic, "third"))
        ours.close()
        again = group.start("odradek")
        group.await_whole(PARTITIONS, again, other, asynchronous)
        group.await_read(produce(broker, topic, "fourth"))


def test_a_restarted_static_member_causes_no_rebalance(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(PARTITIONS)
    with Members(broker.bootstrap, topic, topic, "range", session_ms=60_000) as group:
        ours = group.start("odradek", "one")
        group.await_whole(PARTITIONS, ours)
        theirs = group.start("confluent-kafka", "two")
        group.await_whole(PARTITIONS, ours, theirs)
        had, rebalances = ours.owned, theirs.rebalances
        ours.kill()
        again = group.start("odradek", "one")
        group.await_whole(PARTITIONS, again, theirs)
        group.await_read(produce(broker, topic, "on"))
        assert again.owned == had
        assert theirs.rebalances == rebalances
