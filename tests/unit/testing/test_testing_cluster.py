"""`odradek.testing.Cluster`: several brokers for tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cli.test_up_nodes import replicas_of, until
from odradek import Admin, Consumer, Producer
from odradek.testing import Cluster


def write(cluster: Cluster, *values: bytes, topic: str = "t") -> None:
    with Producer(brokers=cluster.bootstrap, request_timeout_ms=2_000) as producer:
        for value in values:
            producer.send(topic, value).result()


def read(cluster: Cluster, count: int, topic: str = "t") -> list[bytes]:
    found: list[bytes] = []
    with Consumer(
        topic, group="g", brokers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        for record in consumer:
            found.append(record.value or b"")
            if len(found) == count:
                return found
    return found


def controller_or_message(cluster: Cluster) -> int | str:
    """The controller that is known; a node that was it may not have found out yet."""
    try:
        return cluster.controller(timeout_s=0)
    except TimeoutError as error:
        return str(error)


def test_records_outlive_the_leader_that_took_them_and_it_comes_back() -> None:
    with Cluster(3) as cluster:
        write(cluster, b"one")
        leader = cluster.leader_of("t")
        cluster.kill(leader)
        assert leader not in cluster.running
        write(cluster, b"two")
        assert cluster.leader_of("t") != leader
        cluster.start(leader)
        assert cluster.running == (1, 2, 3)
        assert read(cluster, 2) == [b"one", b"two"]


def test_the_controller_can_be_killed_and_another_one_decides() -> None:
    with Cluster(3) as cluster:
        first = cluster.controller()
        cluster.kill(first)
        assert cluster.controller() != first
        with Admin(brokers=cluster.bootstrap) as admin:
            admin.create_topic("after", replication=2)


def test_a_node_that_is_stopped_gives_up_its_leaderships_and_keeps_its_records() -> None:
    with Cluster(3) as cluster:
        write(cluster, b"one")
        leader = cluster.leader_of("t")
        cluster.stop(leader)
        assert cluster.leader_of("t") != leader
        cluster.start(leader)
        for other in cluster.ids:
            if other != leader:
                cluster.kill(other)
        until(lambda: controller_or_message(cluster) == "waited 0 s for a controller to be elected")


def test_topics_of_three_replicas_can_be_created_while_a_node_is_stopped() -> None:
    with Cluster(3) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        stopped = cluster.controller()
        cluster.stop(stopped)
        admin.create_topic("t", partitions=3)
        placed = admin.topic("t").partitions
        assert all(sorted(each.replicas) == [1, 2, 3] for each in placed)
        assert all(stopped != each.leader and stopped not in each.isr for each in placed)
        cluster.start(stopped)
        until(lambda: all(len(each.isr) == 3 for each in admin.topic("t").partitions))


def test_all_nodes_killed_at_once_go_on_with_what_was_acknowledged() -> None:
    with Cluster(3) as cluster:
        write(cluster, b"one", b"two")
        for node in cluster.ids:
            cluster.kill(node)
        with pytest.raises(ValueError, match="there is no node 4"):
            cluster.start(4)
        asyncio.run(started(cluster, *cluster.ids))  # The first one alone is no majority.
        assert read(cluster, 2) == [b"one", b"two"]


async def started(cluster: Cluster, *nodes: int) -> None:
    await asyncio.gather(*(asyncio.to_thread(cluster.start, each) for each in nodes))


def test_a_paused_node_is_replaced_and_goes_on_later() -> None:
    quick = {"broker.session.timeout.ms": 1_000, "broker.heartbeat.interval.ms": 100}
    with Cluster(3, settings=quick) as cluster:
        write(cluster, b"one")
        leader = cluster.leader_of("t")
        cluster.pause(leader)
        write(cluster, b"two")
        cluster.resume(leader)
        assert read(cluster, 2) == [b"one", b"two"]


def test_settings_are_those_of_all_nodes() -> None:
    with Cluster(2, settings={"num.partitions": 4}) as cluster:
        write(cluster, b"one")
        with Admin(brokers=cluster.bootstrap) as admin:
            until(lambda: replicas_of(admin, "t") == [2] * 4)
            assert len(admin.quorum().voters) == 1


def test_a_cluster_can_be_entered_by_asyncio() -> None:
    async def use() -> int:
        async with Cluster(1) as cluster:
            await asyncio.to_thread(write, cluster, b"one")
            return await asyncio.to_thread(cluster.leader_of, "t")

    assert asyncio.run(use()) == 1


def test_a_cluster_on_disk_goes_on_where_it_was(tmp_path: Path) -> None:
    with Cluster(3, data_dir=tmp_path) as cluster:
        write(cluster, b"one")
        identity = cluster.cluster_id
    with Cluster(3, data_dir=tmp_path) as cluster:
        assert cluster.cluster_id == identity
        assert read(cluster, 1) == [b"one"]
    with pytest.raises(ValueError, match="none of node 4"):
        Cluster(4, data_dir=tmp_path)


def test_processes_are_killed_and_paused_by_signals() -> None:
    with Cluster(3, processes=True) as cluster:
        write(cluster, b"one")
        leader = cluster.leader_of("t")
        cluster.kill(leader)
        write(cluster, b"two")
        cluster.start(leader)
        other = next(each for each in cluster.ids if each != leader)
        cluster.pause(other)
        cluster.resume(other)
        assert read(cluster, 2) == [b"one", b"two"]
