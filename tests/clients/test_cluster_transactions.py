"""Transactions on a cluster of three: over several leaders, without a coordinator or a leader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import odradek
from clients.asking import until
from clients.libraries.transactional import Confluent
from odradek import Admin, Producer, TopicPartition
from odradek.testing.cluster import Cluster

PARTITIONS = 6
GROUP = "g"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes with a topic `t`, whose partitions all of them lead."""
    with Cluster(3) as running:
        with Admin(brokers=running.bootstrap) as admin:
            admin.create_topic("t", partitions=PARTITIONS)
        yield running


def committed(cluster: Cluster) -> list[bytes]:
    """The committed values of all partitions, sorted."""
    table = odradek.read("t", brokers=cluster.bootstrap, isolation_level="read_committed")
    return sorted(table["value"].to_pylist())


def assert_nothing_stays_open(cluster: Cluster) -> None:
    with Admin(brokers=cluster.bootstrap) as admin:
        wanted = admin.partitions_of([each.name for each in admin.topics(internal=True)])

        def opened() -> list[TopicPartition]:
            return [
                where
                for where, producers in admin.describe_producers(wanted).items()
                if any(each.transaction_start_offset is not None for each in producers)
            ]

        until(lambda: not opened())  # An end is answered before its markers are written.
        assert opened() == []


def coordinator_of(cluster: Cluster, transactional_id: str) -> int:
    with Admin(brokers=cluster.bootstrap) as admin:
        return admin.describe_transactions([transactional_id])[transactional_id].coordinator


def send_to_all(producer: Confluent, value: bytes) -> None:
    for partition in range(PARTITIONS):
        producer.send("t", value, partition)


def test_transaction_over_all_leaders_and_the_offsets_of_a_group_is_whole(
    cluster: Cluster,
) -> None:
    """In version 1 the leaders verify, in version 2 they add their partitions (over CLUSTER)."""
    older = Confluent(cluster.bootstrap, "older")
    older.init()
    for value, ends in ((b"a", older.commit), (b"b", older.abort), (b"c", older.commit)):
        older.begin()
        send_to_all(older, value)
        older.commit_offsets(GROUP, {("t", 0): ord(value)})
        ends()
    with Producer(brokers=cluster.bootstrap, transactional_id="newer") as newer:
        newer.init_transactions()
        for value in (b"d", b"e"):
            with newer.transaction():
                for partition in range(PARTITIONS):
                    newer.send("t", value, partition=partition)
    assert_nothing_stays_open(cluster)
    expected = sorted([b"a", b"c", b"d", b"e"] * PARTITIONS)
    until(lambda: committed(cluster) == expected)
    assert committed(cluster) == expected
    with Admin(brokers=cluster.bootstrap) as admin:
        ((_, offset),) = admin.group_offsets(GROUP).items()
        assert offset.offset == ord(b"c")


@pytest.mark.parametrize("lost", ["coordinator", "leader"])
def test_open_transaction_is_committed_without_a_node(cluster: Cluster, lost: str) -> None:
    """Killed in the middle of a transaction; what is answered afterwards is as if it never was."""
    producer = Confluent(cluster.bootstrap, "id")
    producer.init()
    producer.begin()
    send_to_all(producer, b"before")
    is_coordinator = lost == "coordinator"
    cluster.kill(coordinator_of(cluster, "id") if is_coordinator else cluster.leader_of("t", 0))
    send_to_all(producer, b"while")
    producer.commit()
    producer.begin()
    send_to_all(producer, b"after")
    producer.abort()
    assert_nothing_stays_open(cluster)
    expected = sorted([b"before", b"while"] * PARTITIONS)
    until(lambda: committed(cluster) == expected)
    assert committed(cluster) == expected
