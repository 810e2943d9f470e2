"""Eligible leader replicas and the last known leader, as KIP-966 keeps them."""

from __future__ import annotations

import pytest

from odradek.controller.image import NO_LEADER
from odradek.controller.leader_election import elect_leaders
from odradek.controller.reassignments import alter_partition_reassignments
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.metadata_records import FeatureLevelRecord
from unit.controller.controlled_cluster import ControlledCluster

UNCLEAN = 1


@pytest.fixture
def cluster() -> ControlledCluster:
    """Partition 0 of `t` on 1, 2, 3; two of them must be in sync."""
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2")
    return cluster.create("t", {0: [1, 2, 3]})


def state(cluster: ControlledCluster) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    partition = cluster.partition()
    return partition.leader, partition.isr, partition.elr


def test_a_replica_that_leaves_an_isr_of_enough_others_is_not_eligible(
    cluster: ControlledCluster,
) -> None:
    cluster.fence(3)
    assert state(cluster) == (1, (1, 2), ())


def test_a_replica_that_leaves_below_the_minimum_is_eligible_until_the_isr_is_large_enough(
    cluster: ControlledCluster,
) -> None:
    cluster.fence(3, 2)
    assert state(cluster) == (1, (1,), (2,))
    cluster.beat(3)
    cluster.run_due_steps()
    cluster.in_sync(1, 3)
    assert state(cluster) == (1, (1, 3), ())


def test_an_isr_that_its_leader_shrinks_below_the_minimum_leaves_eligible_replicas(
    cluster: ControlledCluster,
) -> None:
    cluster.in_sync(1)
    assert state(cluster) == (1, (1,), (2, 3))


def test_a_member_of_the_isr_is_elected_before_an_eligible_one(
    cluster: ControlledCluster,
) -> None:
    cluster.in_sync(1)
    cluster.beat(1, fence=True)
    cluster.run_due_steps()
    assert state(cluster) == (2, (2,), (1, 3))


def test_the_isr_is_empty_when_nobody_is_left_and_the_eligible_one_that_returns_leads(
    cluster: ControlledCluster,
) -> None:
    cluster.fence(3, 2, 1)
    assert state(cluster) == (NO_LEADER, (), (1, 2))
    assert cluster.partition().last_known_elr == (1,)
    cluster.beat(3)
    assert cluster.run_due_steps().partition().leader == NO_LEADER, "3 is not eligible"
    cluster.beat(2)
    cluster.run_due_steps()
    assert state(cluster) == (2, (2,), (1,))
    assert cluster.partition().last_known_elr == ()
    assert cluster.partition().leader_recovery_state == 0


def test_all_that_leave_at_once_below_the_minimum_are_eligible(
    cluster: ControlledCluster,
) -> None:
    for broker_id in (1, 2):
        cluster.beat(broker_id, fence=True)
    cluster.run_due_steps()
    assert state(cluster) == (3, (3,), (1, 2))


def test_a_leader_that_commits_alone_leaves_no_other_replica_eligible() -> None:
    """With a minimum of 1 the records of the one that was elected are acknowledged: the other
    replica, which was eligible beside it, does not have them."""
    cluster = ControlledCluster(1, 2, min_insync_replicas="1")
    cluster.create("t", {0: [1, 2]})
    for broker_id in (1, 2):
        cluster.beat(broker_id, fence=True)
    cluster.run_due_steps()
    assert state(cluster) == (NO_LEADER, (), (1, 2))
    cluster.beat(1)
    cluster.run_due_steps()
    assert state(cluster) == (1, (1,), ())
    cluster.fence(1)
    cluster.beat(2)
    cluster.run_due_steps()
    assert cluster.partition().leader == NO_LEADER


def test_the_minimum_of_a_topic_counts_and_is_at_most_its_number_of_replicas() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="1")
    cluster.create("strict", {0: [1, 2, 3]}, min_insync_replicas="9")
    cluster.create("loose", {0: [1, 2, 3]})
    cluster.fence(3)
    assert cluster.partition("strict").elr == (3,)
    assert cluster.partition("loose").elr == ()


def test_an_administrator_may_elect_a_replica_that_is_neither_in_sync_nor_eligible(
    cluster: ControlledCluster,
) -> None:
    cluster.fence(3, 2, 1)
    cluster.beat(3)
    cluster.run_due_steps()
    topics = [TopicPartitions(topic="t", partitions=[0])]
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=topics)
    decision = elect_leaders(cluster.image, request, cluster.config)
    cluster.submit(decision.records)
    assert state(cluster) == (3, (3,), ())
    assert cluster.partition().leader_recovery_state == 1


def test_an_unclean_election_of_an_administrator_takes_an_eligible_replica_without_loss(
    cluster: ControlledCluster,
) -> None:
    cluster.fence(3, 2, 1)
    broker = cluster.image.brokers[2].record()
    broker.fenced = False
    cluster.submit([broker])
    topics = [TopicPartitions(topic="t", partitions=[0])]
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=topics)
    cluster.submit(elect_leaders(cluster.image, request, cluster.config).records)
    assert state(cluster) == (2, (2,), (1,))
    assert cluster.partition().leader_recovery_state == 0


def test_without_the_feature_the_last_one_in_sync_stays_in_the_isr(
    cluster: ControlledCluster,
) -> None:
    name = "eligible.leader.replicas.version"
    cluster.submit([FeatureLevelRecord(name=name, feature_level=0)])
    cluster.fence(3, 2, 1)
    assert state(cluster) == (NO_LEADER, (1,), ())
    cluster.beat(2)
    assert cluster.run_due_steps().partition().leader == NO_LEADER
    cluster.beat(1)
    cluster.run_due_steps()
    assert state(cluster) == (1, (1,), ())


def test_a_partition_that_lost_its_leader_before_the_feature_is_led_after_an_unclean_stop() -> None:
    cluster = ControlledCluster(1, min_insync_replicas="1").create("t", {0: [1]})
    name = "eligible.leader.replicas.version"
    cluster.submit([FeatureLevelRecord(name=name, feature_level=0)])
    cluster.fence(1)
    assert state(cluster) == (NO_LEADER, (1,), ())
    cluster.submit([FeatureLevelRecord(name=name, feature_level=1)])
    cluster.wait(60_000)  # Its session ends.
    cluster.start(1, incarnation=1)
    assert state(cluster) == (1, (1,), ())


def test_replicas_that_a_reassignment_removes_are_not_eligible_any_more() -> None:
    cluster = ControlledCluster(1, 2, 3, 4, min_insync_replicas="3")
    cluster.create("t", {0: [1, 2, 3]}).in_sync(1)
    assert state(cluster) == (1, (1,), (2, 3))
    target = ReassignablePartition(partition_index=0, replicas=[1, 2, 4])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[target])]
    )
    cluster.submit(alter_partition_reassignments(cluster.image, request, cluster.config).records)
    cluster.in_sync(1, 4)
    assert cluster.partition().replicas == (1, 2, 4)
    assert state(cluster) == (1, (1, 4), (2,))


def test_while_replicas_are_added_the_leader_commits_alone_and_nobody_else_is_eligible() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2").create("t", {0: [1]})
    moving = ReassignablePartition(partition_index=0, replicas=[1, 2, 3])
    topic = ReassignableTopic(name="t", partitions=[moving])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    cluster.submit(alter_partition_reassignments(cluster.image, request, cluster.config).records)
    cluster.in_sync(1, 2)
    cluster.fence(2)
    assert state(cluster) == (1, (1,), ())


@pytest.mark.parametrize(("previous", "eligible"), [(0, (2, 3)), (-1, (3,)), (None, (3,))])
def test_a_broker_that_names_the_epoch_of_its_last_life_stays_eligible(
    cluster: ControlledCluster, previous: int | None, eligible: tuple[int, ...]
) -> None:
    """`previous`: relative to that epoch, as an older copy of the directory has an older one; None:
    it names none.
    """
    cluster.in_sync(1)
    before = cluster.processes[2].epoch
    cluster.control.disconnected(2, cluster.now_ms)
    cluster.wait(600)
    named = -1 if previous is None else before + previous
    assert cluster.register(2, incarnation=1, previous_epoch=named) == 0
    assert state(cluster) == (1, (1,), eligible)


def test_two_of_three_that_keep_everything_lead_again_when_all_were_gone() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2").create("t", {0: [1, 2, 3]})
    epochs = {number: cluster.processes[number].epoch for number in (1, 3)}
    cluster.take_over()
    for number in (1, 2, 3):
        cluster.control.unreachable(number, cluster.now_ms)
    cluster.wait(600)
    for number, epoch in epochs.items():
        assert cluster.register(number, incarnation=1, previous_epoch=epoch) == 0
    cluster.wait(10_000)
    for number in epochs:
        cluster.beat(number)
    cluster.run_due_steps()
    assert cluster.partition().leader in epochs
