"""The active controller at work for the brokers of a simulated cluster."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.broker.node import Node
from odradek.controller.image import PartitionRegistration, ResourceType
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ProposedReplica,
)
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from odradek.testing.scheduler import SECOND
from unit.broker.cluster_nodes import VOTERS, ClusterNodes, three_voters


@pytest.fixture
def nodes() -> ClusterNodes:
    """Three nodes, and the topic `t` of one partition on one of them."""
    nodes = three_voters()
    nodes.create(nodes.controllers[0], "t")
    nodes.until(nodes.agree)
    return nodes


def partition(nodes: ClusterNodes) -> PartitionRegistration:
    topic = nodes.controllers[0].metadata.committed.topic("t")
    assert topic is not None
    return topic.partitions[0]


def proposal(nodes: ClusterNodes, *isr: int) -> AlterPartitionRequest:
    """The proposal of the leader of `t`."""
    image, present = nodes.controllers[0].metadata.committed, partition(nodes)
    topic = image.topic("t")
    assert topic is not None
    return AlterPartitionRequest(
        broker_id=present.leader,
        broker_epoch=image.brokers[present.leader].epoch,
        topics=[
            AlterPartitionTopic(
                topic_id=topic.id,
                partitions=[
                    AlterPartitionPartition(
                        partition_index=0,
                        leader_epoch=present.leader_epoch,
                        new_isr_with_epochs=[
                            ProposedReplica(broker_id=each, broker_epoch=image.brokers[each].epoch)
                            for each in isr
                        ],
                        partition_epoch=present.partition_epoch,
                    )
                ],
            )
        ],
    )


def unregister(nodes: ClusterNodes, asking: Node, broker_id: int) -> UnregisterBrokerResponse:
    """Send UnregisterBroker to a node, as a client of it."""
    answers: list[UnregisterBrokerResponse | None] = []
    request, broker = UnregisterBrokerRequest(broker_id=broker_id), asking.broker
    if broker.is_active_controller():
        broker.controller_service.unregister(request, answers.append)
    else:
        assert broker.forwarding is not None
        broker.forwarding.call(request, UnregisterBrokerResponse, answers.append)
    nodes.until(lambda: bool(answers))
    assert answers[0] is not None
    return answers[0]


def test_a_stopped_broker_is_removed_by_any_node(nodes: ClusterNodes) -> None:
    gone = nodes.other_than_controller().config.node_id
    if gone == partition(nodes).leader:
        gone = next(
            each
            for each in nodes.machines
            if each not in (gone, nodes.controllers[0].config.node_id)
        )
    nodes.machines[gone].kill()
    response = unregister(nodes, nodes.other_than_controller(), gone)
    assert response.error_code == 0
    nodes.until(nodes.agree)
    assert gone not in nodes.controllers[0].metadata.committed.brokers
    again = unregister(nodes, nodes.controllers[0], gone)
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_that_a_partition_needs_is_not_removed_and_stays_in_session(
    nodes: ClusterNodes,
) -> None:
    leader = partition(nodes).leader
    response = unregister(nodes, nodes.other_than_controller(), leader)
    assert response.error_code == ErrorCode.POLICY_VIOLATION
    assert f"odradek cluster drain {leader}" in (response.error_message or "")
    assert not nodes.controllers[0].metadata.committed.brokers[leader].fenced


def test_a_leaders_proposal_is_answered_when_it_is_committed(nodes: ClusterNodes) -> None:
    leader = partition(nodes).leader
    response = nodes.ask(nodes.other_than_controller(), proposal(nodes, leader))
    assert (response.error_code, response.topics[0].partitions[0].isr) == (0, [leader])


def test_the_controllers_own_proposal_needs_no_connection(nodes: ClusterNodes) -> None:
    answers: list[AlterPartitionResponse] = []
    service = nodes.controllers[0].broker.controller_service
    leader = partition(nodes).leader
    service.alter_partition(proposal(nodes, leader), answers.append)
    nodes.until(lambda: bool(answers))
    assert (answers[0].error_code, answers[0].topics[0].partitions[0].isr) == (0, [leader])


def test_a_proposal_to_a_node_that_is_not_the_controller_is_refused(
    nodes: ClusterNodes,
) -> None:
    answers: list[AlterPartitionResponse] = []
    service = nodes.other_than_controller().broker.controller_service
    service.alter_partition(proposal(nodes, partition(nodes).leader), answers.append)
    assert [each.error_code for each in answers] == [ErrorCode.NOT_CONTROLLER]


def test_a_proposal_that_is_not_committed_with_its_controller_is_answered_not_controller(
    nodes: ClusterNodes,
) -> None:
    answers: list[AlterPartitionResponse] = []
    first = nodes.controllers[0]
    request = proposal(nodes, partition(nodes).leader)
    for number, machine in nodes.machines.items():
        if number != first.config.node_id:
            machine.kill()
    first.broker.auto_create_topics(["later"])
    first.broker.controller_service.alter_partition(request, answers.append)
    nodes.until(lambda: bool(answers))
    assert [each.error_code for each in answers] == [ErrorCode.NOT_CONTROLLER]


def test_a_partition_gets_a_leader_when_an_administrator_allows_an_unclean_election() -> None:
    nodes = ClusterNodes(4, controller_quorum_voters=VOTERS).boot()
    nodes.until(nodes.all_ready)

    def submit(*records: object) -> None:
        nodes.controllers[0].metadata.controller.submit(records)
        nodes.until(nodes.agree)

    directories = [nodes.node(each).directory.meta.directory_id for each in (3, 4)]
    nodes.machines[4].kill()
    topic = TopicRecord(name="t", topic_id=UUID(int=77))
    submit(
        topic,
        PartitionRecord(
            partition_id=0,
            topic_id=topic.topic_id,
            replicas=[3, 4],
            isr=[3],
            removing_replicas=[],
            adding_replicas=[],
            leader=3,
            leader_epoch=0,
            partition_epoch=0,
            directories=directories,
        ),
    )
    nodes.machines[3].kill()
    nodes.until(lambda: partition(nodes).leader == -1)
    nodes.boot(4)
    nodes.scheduler.run(nodes.scheduler.now_ns + 10 * SECOND)
    assert partition(nodes).leader == -1
    submit(
        ConfigRecord(
            resource_type=ResourceType.TOPIC,
            resource_name="t",
            name="unclean.leader.election.enable",
            value="true",
        )
    )
    assert nodes.until(lambda: partition(nodes).leader == 4) < 100
