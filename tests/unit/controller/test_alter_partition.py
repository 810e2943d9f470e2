"""AlterPartition in a cluster of four brokers, with the checks and errors of Kafka 4.3."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from odradek.controller.alter_partition import PARTITIONS_PER_PART, alter_partition
from odradek.controller.partition_change import RECOVERING
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    ProposedReplica,
)
from odradek.protocol.metadata_records import PartitionChangeRecord
from unit.controller.controlled_cluster import ControlledCluster


@pytest.fixture
def cluster() -> ControlledCluster:
    """Partition 0 of `t` on 1, 2, 3, led by 1."""
    return ControlledCluster(1, 2, 3, 4).create("t", {0: [1, 2, 3]})


def proposed(request: AlterPartitionRequest) -> AlterPartitionPartition:
    return request.topics[0].partitions[0]


def test_an_accepted_isr_is_answered_with_the_partition_as_it_is_now(
    cluster: ControlledCluster,
) -> None:
    (outcome,) = cluster.alter(cluster.alteration([1, 3]))
    partition = cluster.partition()
    assert partition.isr == (1, 3)
    assert (outcome.error_code, outcome.leader_id, outcome.isr) == (0, 1, [1, 3])
    assert (outcome.leader_epoch, outcome.partition_epoch) == (0, 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)


def test_the_isr_that_there_is_changes_nothing(cluster: ControlledCluster) -> None:
    (outcome,) = cluster.alter(cluster.alteration([1, 2, 3]))
    assert (outcome.error_code, outcome.partition_epoch) == (0, 0)
    assert cluster.partition().partition_epoch == 0


def test_version_2_names_replicas_without_epochs(cluster: ControlledCluster) -> None:
    request = cluster.alteration([])
    proposed(request).new_isr = [1, 2]
    (outcome,) = cluster.alter(request, version=2)
    assert (outcome.error_code, cluster.partition().isr) == (0, (1, 2))


@pytest.mark.parametrize("epoch", [-100, 100])
def test_a_request_of_another_broker_epoch_is_stale(cluster: ControlledCluster, epoch: int) -> None:
    request = cluster.alteration([1])
    request.broker_epoch += epoch
    response = cluster.run(alter_partition(cluster.image, request, 3, lambda: cluster.config))
    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def of_unknown_topic(request: AlterPartitionRequest) -> None:
    request.topics[0].topic_id = UUID(int=77)


def of_unknown_partition(request: AlterPartitionRequest) -> None:
    proposed(request).partition_index = 7


def of_newer_leader(request: AlterPartitionRequest) -> None:
    proposed(request).leader_epoch += 1


def of_newer_partition(request: AlterPartitionRequest) -> None:
    proposed(request).partition_epoch += 1


def of_older_leader(request: AlterPartitionRequest) -> None:
    proposed(request).leader_epoch -= 1


def of_older_partition(request: AlterPartitionRequest) -> None:
    proposed(request).partition_epoch -= 1


def with_isr(*replicas: int) -> Callable[[AlterPartitionRequest], None]:
    def change(request: AlterPartitionRequest) -> None:
        proposed(request).new_isr_with_epochs = [
            ProposedReplica(broker_id=each) for each in replicas
        ]

    return change


def recovering(request: AlterPartitionRequest) -> None:
    with_isr(1)(request)
    proposed(request).leader_recovery_state = RECOVERING


def in_an_unknown_state(request: AlterPartitionRequest) -> None:
    proposed(request).leader_recovery_state = 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (of_unknown_topic, ErrorCode.UNKNOWN_TOPIC_ID),
        (of_unknown_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (of_newer_leader, ErrorCode.NOT_CONTROLLER),
        (of_newer_partition, ErrorCode.NOT_CONTROLLER),
        (of_older_leader, ErrorCode.FENCED_LEADER_EPOCH),
        (of_older_partition, ErrorCode.INVALID_UPDATE_VERSION),
        (with_isr(), ErrorCode.INVALID_REQUEST),
        (with_isr(1, 1), ErrorCode.INVALID_REQUEST),
        (with_isr(1, 4), ErrorCode.INVALID_REQUEST),
        (with_isr(1, -1), ErrorCode.INVALID_REQUEST),
        (with_isr(2, 3), ErrorCode.INVALID_REQUEST),
        (recovering, ErrorCode.INVALID_REQUEST),
        (in_an_unknown_state, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_proposal_that_does_not_fit_changes_nothing(
    cluster: ControlledCluster,
    change: Callable[[AlterPartitionRequest], None],
    error: ErrorCode,
) -> None:
    cluster.in_sync(1, 2)
    before, request = cluster.partition(), cluster.alteration([1])
    change(request)
    (outcome,) = cluster.alter(request)
    assert outcome.error_code == error
    assert cluster.partition() == before


def test_only_the_leader_may_propose(cluster: ControlledCluster) -> None:
    request = cluster.alteration([1, 2])
    request.broker_id, request.broker_epoch = 2, cluster.processes[2].epoch
    (outcome,) = cluster.alter(request)
    assert outcome.error_code == ErrorCode.INVALID_REQUEST


def test_a_replica_of_another_incarnation_is_ineligible(cluster: ControlledCluster) -> None:
    before = cluster.processes[2].epoch
    cluster.control.sessions.end(2)
    cluster.start(2, incarnation=1)
    assert cluster.partition().isr == (1, 3)
    (outcome,) = cluster.alter(cluster.alteration([1, 3, (2, before)]))
    assert outcome.error_code == ErrorCode.INELIGIBLE_REPLICA
    (outcome,) = cluster.alter(cluster.alteration([1, 3, (2, cluster.processes[2].epoch)]))
    assert outcome.error_code == 0
    cluster.in_sync(1)
    (outcome,) = cluster.alter(cluster.alteration([1, (3, -1)]))
    assert outcome.error_code == 0, "-1 is not checked"


def test_a_replica_whose_broker_is_not_active_is_ineligible(cluster: ControlledCluster) -> None:
    cluster.create("u", {0: [2]})
    cluster.fence(3)
    cluster.beat(2, stop=True)
    cluster.run_due_steps()
    for broker_id in (2, 3):
        (outcome,) = cluster.alter(cluster.alteration([1, broker_id]))
        assert outcome.error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.unregister(2)
    cluster.run_due_steps()
    (outcome,) = cluster.alter(cluster.alteration([1, (2, -1)]))
    assert outcome.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_that_recovers_is_alone_until_it_has_recovered(
    cluster: ControlledCluster,
) -> None:
    topic = cluster.image.topics["t"].id
    change = PartitionChangeRecord(
        partition_id=0, topic_id=topic, isr=[1], leader=1, leader_recovery_state=RECOVERING
    )
    cluster.submit([change])
    request = cluster.alteration([1, 2])
    proposed(request).leader_recovery_state = RECOVERING
    (outcome,) = cluster.alter(request)
    assert outcome.error_code == ErrorCode.INVALID_REQUEST
    (outcome,) = cluster.alter(cluster.alteration([1]))
    assert (outcome.error_code, outcome.leader_recovery_state) == (0, 0)
    assert cluster.partition().leader_recovery_state == 0


def test_a_partition_that_is_named_twice_is_changed_once(cluster: ControlledCluster) -> None:
    request = cluster.alteration([1, 2])
    request.topics.append(cluster.alteration([1, 3]).topics[0])
    outcomes = cluster.alter(request)
    expected = [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert [each.error_code for each in outcomes] == expected
    assert cluster.partition().isr == (1, 2)


def test_a_request_for_many_partitions_is_decided_in_parts() -> None:
    numbers = range(2 * PARTITIONS_PER_PART + 1)
    cluster = ControlledCluster(1, 2).create("t", {number: [1, 2] for number in numbers})
    request = cluster.alteration([1])
    for number in numbers[1:]:
        request.topics[0].partitions.append(proposed(cluster.alteration([1], number=number)))
    outcomes = cluster.alter(request)
    assert cluster.largest_part == PARTITIONS_PER_PART
    assert [each.partition_index for each in outcomes] == list(numbers)
    assert {cluster.partition("t", number).isr for number in numbers} == {(1,)}


def test_a_leader_that_is_fenced_between_two_parts_changes_nothing_more() -> None:
    numbers = range(PARTITIONS_PER_PART + 1)
    cluster = ControlledCluster(1, 2).create("t", {number: [1, 2] for number in numbers})
    request = cluster.alteration([1])
    for number in numbers[1:]:
        request.topics[0].partitions.append(proposed(cluster.alteration([1], number=number)))
    parts = alter_partition(cluster.image, request, 3, lambda: cluster.config)
    cluster.take(next(parts))
    cluster.control.sessions.end(1)
    cluster.start(1, incarnation=1)
    assert cluster.run(parts).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.partition("t", numbers[-1]).leader == 2


def of_damaged(cluster: ControlledCluster, broker: int) -> AlterPartitionRequest:
    """The request of a broker whose log is damaged, of epochs that nobody looks at."""
    request = cluster.alteration([])
    request.broker_id, request.broker_epoch = broker, cluster.image.brokers[broker].epoch
    asked = proposed(request)
    asked.is_damaged, asked.leader_epoch, asked.partition_epoch = True, 0, -1
    return request


def test_a_follower_with_a_damaged_log_leaves_the_isr(cluster: ControlledCluster) -> None:
    (outcome,) = cluster.alter(of_damaged(cluster, 3))
    assert (outcome.error_code, outcome.isr) == (0, [1, 2])
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, (1, 2))


def test_a_leader_with_a_damaged_log_loses_the_leadership_to_an_in_sync_replica(
    cluster: ControlledCluster,
) -> None:
    (outcome,) = cluster.alter(of_damaged(cluster, 1))
    assert (outcome.error_code, outcome.leader_id) == (0, 2)
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, (2, 3))
    assert partition.elr == ()


def test_the_last_replica_in_sync_keeps_its_place_with_a_damaged_log(
    cluster: ControlledCluster,
) -> None:
    cluster.alter(cluster.alteration([1]))
    (outcome,) = cluster.alter(of_damaged(cluster, 1))
    assert outcome.error_code == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1,))


def test_an_eligible_replica_with_a_damaged_log_is_not_eligible_any_more() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2").create("t", {0: [1, 2, 3]})
    cluster.alter(cluster.alteration([1]))
    (outcome,) = cluster.alter(of_damaged(cluster, 2))
    assert outcome.error_code == 0
    partition = cluster.partition()
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), (3,))


def test_the_last_replica_in_sync_with_a_damaged_log_leaves_to_an_eligible_one() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2").create("t", {0: [1, 2, 3]})
    cluster.alter(cluster.alteration([1]))
    (outcome,) = cluster.alter(of_damaged(cluster, 1))
    assert (outcome.error_code, outcome.leader_id) == (0, 2)
    partition = cluster.partition()
    assert (partition.isr, partition.elr) == ((2,), (3,))


def test_the_last_eligible_replica_stays_it_with_a_damaged_log() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2").create("t", {0: [1, 2]})
    requests = [of_damaged(cluster, 1), of_damaged(cluster, 2)]
    cluster.fence(1, 2)
    assert (cluster.partition().isr, cluster.partition().elr) == ((), (1, 2))
    assert [cluster.alter(each)[0].error_code for each in requests] == [
        ErrorCode.NONE,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    ]
    assert cluster.partition().elr == (2,)


def of_full(cluster: ControlledCluster, broker: int) -> AlterPartitionRequest:
    """The request of a broker whose disk is full."""
    request = of_damaged(cluster, broker)
    asked = proposed(request)
    asked.is_damaged, asked.has_no_room = False, True
    return request


def test_a_leader_with_a_full_disk_loses_the_leadership_and_stays_eligible() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2").create("t", {0: [1, 2, 3]})
    cluster.alter(cluster.alteration([1, 2]))
    (outcome,) = cluster.alter(of_full(cluster, 1))
    assert (outcome.error_code, outcome.leader_id, outcome.isr) == (0, 2, [2])
    assert cluster.partition().elr == (1,)


def test_the_last_replica_in_sync_keeps_the_leadership_with_a_full_disk(
    cluster: ControlledCluster,
) -> None:
    cluster.alter(cluster.alteration([1]))
    (outcome,) = cluster.alter(of_full(cluster, 1))
    assert outcome.error_code == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1,))
