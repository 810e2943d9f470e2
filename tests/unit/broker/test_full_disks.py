"""A node of several with a full disk: others lead its partitions until it has room again."""

from __future__ import annotations

import pytest

from odradek.model.errors import ErrorCode
from unit.broker.replicated_nodes import ReplicatedNodes

LAG_MS = 30_000
"""A follower that only lags is in the ISR for so long."""


@pytest.fixture
def nodes() -> ReplicatedNodes:
    nodes = ReplicatedNodes(replica_lag_time_max_ms=str(LAG_MS)).create_topic(1, 2, 3)
    assert not nodes.produced(1, 3)
    nodes.until(nodes.logs_are_equal)
    return nodes


def fill(nodes: ReplicatedNodes, *numbers: int, full: bool = True) -> None:
    """Let the disks of nodes be full, or have room again."""
    for number in numbers:
        nodes.machines[number].faults.full = full


def controller(nodes: ReplicatedNodes) -> int:
    return nodes.controllers[0].config.node_id


def is_in_sync_again(nodes: ReplicatedNodes) -> bool:
    return nodes.isr == [1, 2, 3] and nodes.logs_are_equal()


def test_another_replica_leads_at_once_until_the_disk_has_room(nodes: ReplicatedNodes) -> None:
    led = nodes.leader
    fill(nodes, led)
    assert nodes.produced(led) == ErrorCode.KAFKA_STORAGE_ERROR
    took_ms = nodes.until(lambda: nodes.leader not in (-1, led) and nodes.leads(nodes.leader))
    assert took_ms < 3_000
    for _ in range(3):
        assert not nodes.produced(nodes.leader)
    assert led not in nodes.isr
    fill(nodes, led, full=False)
    nodes.until(lambda: is_in_sync_again(nodes))
    assert nodes.ends() == [6, 6, 6]


def test_clients_are_sent_away_before_the_full_disk_takes_the_metadata(
    nodes: ReplicatedNodes,
) -> None:
    led = nodes.leader
    fill(nodes, led)
    assert nodes.produced(led) == ErrorCode.KAFKA_STORAGE_ERROR
    nodes.until(lambda: nodes.leader not in (-1, led))
    nodes.pass_time(1_000)
    epoch = nodes.registration().leader_epoch
    stale = nodes.node(led).metadata.committed.partition(nodes.topic_id(), 0)
    assert stale is not None and stale.leader_epoch < epoch
    assert nodes.produced(led) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_controller_with_a_full_disk_resigns(nodes: ReplicatedNodes) -> None:
    full = controller(nodes)
    fill(nodes, full)
    assert nodes.produced(nodes.leader, acks=1) in (
        ErrorCode.NONE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
    nodes.node(full).broker.auto_create_topics(["more"])
    nodes.until(lambda: bool(nodes.controllers) and controller(nodes) != full)
    nodes.until(lambda: nodes.leader not in (-1, full) and nodes.leads(nodes.leader))
    assert not nodes.produced(nodes.leader)
    fill(nodes, full, full=False)
    nodes.until(lambda: is_in_sync_again(nodes))


def test_a_follower_with_a_full_disk_holds_nothing_up(nodes: ReplicatedNodes) -> None:
    follower = next(each for each in (1, 2, 3) if each not in (nodes.leader, controller(nodes)))
    fill(nodes, follower)
    produced = nodes.produce(nodes.leader)
    took_ms = nodes.until(lambda: produced.is_answered)
    assert not produced.error
    assert took_ms < 3_000
    fill(nodes, follower, full=False)
    nodes.until(lambda: is_in_sync_again(nodes))


def test_the_last_replica_in_sync_keeps_the_leadership_with_a_full_disk(
    nodes: ReplicatedNodes,
) -> None:
    nodes.create_topic(1, 2, name="pair")
    assert not nodes.produced(1, 3)
    fill(nodes, 2)
    assert not nodes.produced(1, acks=1)
    nodes.until(lambda: nodes.isr == [1])
    fill(nodes, 1)
    assert nodes.produced(1, acks=1) == ErrorCode.KAFKA_STORAGE_ERROR
    nodes.pass_time(5_000)
    assert nodes.produced(1, acks=1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert nodes.leader == 1
    fill(nodes, 1, 2, full=False)
    nodes.until(lambda: nodes.isr == [1, 2])
    assert not nodes.produced(1)


def test_a_partition_without_other_replicas_stays_and_takes_records_again(
    nodes: ReplicatedNodes,
) -> None:
    nodes.create_topic(2, name="single")
    assert not nodes.produced(2)
    fill(nodes, 2)
    assert nodes.produced(2) == ErrorCode.KAFKA_STORAGE_ERROR
    nodes.pass_time(5_000)
    assert nodes.latest_offset(2) == 1
    fill(nodes, 2, full=False)
    assert not nodes.produced(2)
