"""The fault matrix of a cluster, its rows of requests: stale epochs, nodes' requests, empty arrays.

The rows are numbered as in the project's list of faults; the others are in `test_fault_matrix`.
Each sends requests to a cluster of three nodes that runs in simulated time, where an exception in a
handler ends the test. What is refused must change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clients.bad_input.filling import Filling
from odradek.broker.apis import ROWS, Api
from odradek.broker.handlers.fetch import FETCH_KEY
from odradek.broker.handlers.quorum_requests import FIRST_FETCH_WITH_A_LEADER
from odradek.model.errors import ErrorCode
from odradek.model.topics import METADATA_TOPIC, ZERO_UUID
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.api.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ProposedReplica,
)
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.api.produce import ProduceResponse
from odradek.protocol.api.vote import VotePartition, VoteRequest, VoteResponse, VoteTopic
from odradek.raft.wire import METADATA_TOPIC_ID
from odradek.testing.machine import CLUSTER_ID, CLUSTER_PORT, PORT
from sim.live_cluster import PRODUCE_VERSION, LiveCluster

QUORUM = "quorum_requests"
ROWS_OF_NODES = [row for row in ROWS if row.between_nodes]
ROWS_OF_THE_QUORUM_ONLY = [row for row in ROWS_OF_NODES if row.handler == QUORUM]
ROWS_OF_THE_QUORUM = [row for row in ROWS if row.key == FETCH_KEY or row in ROWS_OF_THE_QUORUM_ONLY]


@pytest.fixture(scope="module")
def cluster() -> LiveCluster:
    made = LiveCluster()
    made.create("t")
    made.produce("t", [b"x"] * 3)
    until_all_have(made, 3)
    return made


def state(cluster: LiveCluster) -> list[object]:
    """What no refused request may change: of each node the quorum, metadata and partition."""
    cluster.await_healed()
    found: list[object] = []
    for machine in cluster.world.machines:
        node, partition = cluster.node(machine.number), cluster.partition(machine.number, "t")
        core = node.metadata.raft.core
        found += [core.epoch, core.leader_id, node.metadata.committed_offset]
        found += [partition.log.log_end_offset, partition.high_watermark, partition.leader_epoch]
    return found


def fillings(row: Api) -> Iterator[tuple[int, Any]]:
    """Yield a request of each version with all arrays empty, with one element, and with two equal
    ones.
    """
    for version in range(row.min_version, row.max_version + 1):
        for times in (0, 1, 2):
            yield version, Filling(version, times, "no-such", ZERO_UUID).message(row.request)


def wrong_broker_epoch(cluster: LiveCluster) -> list[ErrorCode]:
    """Send what a broker sends the controller, as its life before would."""
    broker = cluster.node(cluster.controller).metadata.committed.brokers[1]
    old = broker.epoch - 1
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=old,
        current_metadata_offset=0,
        want_fence=True,
        want_shut_down=True,
    )
    ids = AllocateProducerIdsRequest(broker_id=1, broker_epoch=old)
    proposal = AlterPartitionRequest(broker_id=1, broker_epoch=old, topics=[])
    asked: list[tuple[Any, int, type[Any]]] = [
        (heartbeat, 1, BrokerHeartbeatResponse),
        (ids, 0, AllocateProducerIdsResponse),
        (proposal, 3, AlterPartitionResponse),
    ]
    return [
        ErrorCode(
            cluster.ask(cluster.controller, request, version, answer, CLUSTER_PORT).error_code
        )
        for request, version, answer in asked
    ]


def proposed(cluster: LiveCluster, leader_epoch: int, partition_epoch: int) -> ErrorCode:
    """Propose the leader alone as the ISR, with epochs that are so much newer; return the error."""
    image = cluster.node(cluster.controller).metadata.committed
    topic = image.topic("t")
    assert topic is not None
    known = topic.partitions[0]
    partition = AlterPartitionPartition(
        partition_index=0,
        leader_epoch=known.leader_epoch + leader_epoch,
        new_isr_with_epochs=[ProposedReplica(broker_id=known.leader)],
        partition_epoch=known.partition_epoch + partition_epoch,
    )
    request = AlterPartitionRequest(
        broker_id=known.leader,
        broker_epoch=image.brokers[known.leader].epoch,
        topics=[AlterPartitionTopic(topic_id=topic.id, partitions=[partition])],
    )
    answer = cluster.ask(cluster.controller, request, 3, AlterPartitionResponse, CLUSTER_PORT)
    return ErrorCode(answer.error_code or answer.topics[0].partitions[0].error_code)


def end_of_epoch(cluster: LiveCluster, newer: int) -> ErrorCode:
    """Ask the leader where an epoch ended, with a leader epoch that is so much newer."""
    leader = cluster.leader("t")
    epoch = cluster.partition(leader, "t").leader_epoch
    asked = OffsetForLeaderPartition(
        partition=0, current_leader_epoch=epoch + newer, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    answer = cluster.ask(leader, request, 4, OffsetForLeaderEpochResponse)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def produced(cluster: LiveCluster, epoch: int) -> ErrorCode:
    """Produce as producer 77 of this epoch."""
    request = cluster.idempotent_request("t", 77, epoch)
    answer = cluster.ask(cluster.leader("t"), request, PRODUCE_VERSION, ProduceResponse)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def candidate(cluster: LiveCluster, to: int) -> tuple[ErrorCode, bool]:
    """Ask a node for its vote in the epoch before; return its error, and if it was granted."""
    node = cluster.node(to)
    core = node.metadata.raft.core
    partition = VotePartition(
        partition_index=0,
        replica_epoch=core.epoch - 1,
        replica_id=to % 3 + 1,
        last_offset_epoch=core.epoch,
        last_offset=1_000_000,
    )
    topic = VoteTopic(topic_name="__cluster_metadata", partitions=[partition])
    request = VoteRequest(cluster_id=CLUSTER_ID, voter_id=to, topics=[topic])
    answer = cluster.ask(to, request, 2, VoteResponse, CLUSTER_PORT)
    found = answer.topics[0].partitions[0]
    return ErrorCode(answer.error_code or found.error_code), found.vote_granted


def test_row_43_what_an_epoch_before_sends_is_fenced_and_changes_nothing() -> None:
    cluster = LiveCluster()
    cluster.create("t")
    cluster.produce("t", [b"x"])
    assert produced(cluster, 3) is ErrorCode.NONE
    first = cluster.machine(cluster.leader("t"))
    first.kill()
    cluster.until(lambda: leads_elsewhere(cluster, first.number))
    first.boot()
    until_all_have(cluster, 2)
    before = state(cluster)
    assert wrong_broker_epoch(cluster) == [ErrorCode.STALE_BROKER_EPOCH] * 3
    assert proposed(cluster, -1, 0) is ErrorCode.FENCED_LEADER_EPOCH
    assert proposed(cluster, 0, -1) is ErrorCode.INVALID_UPDATE_VERSION
    assert end_of_epoch(cluster, -1) is ErrorCode.FENCED_LEADER_EPOCH
    assert end_of_epoch(cluster, 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert produced(cluster, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    for number in (1, 2, 3):
        assert candidate(cluster, number) == (ErrorCode.FENCED_LEADER_EPOCH, False)
    assert state(cluster) == before


def leads_elsewhere(cluster: LiveCluster, dead: int) -> bool:
    """True if another node than the dead one is the controller, and leads the topic."""
    active = [
        machine.number
        for machine in cluster.world.machines
        if machine.running and cluster.node(machine.number).metadata.controller.is_active
    ]
    return len(active) == 1 and cluster.leader("t") not in (-1, dead)


def until_all_have(cluster: LiveCluster, end: int) -> None:
    """Run until all replicas have so many records, and know them to be committed."""
    cluster.await_healed()
    replicas = [cluster.partition(number, "t") for number in (1, 2, 3)]
    cluster.until(lambda: all(each.high_watermark == end for each in replicas))


@pytest.mark.parametrize("row", ROWS_OF_NODES, ids=lambda row: row.name)
def test_row_46_a_client_cannot_send_what_nodes_send_each_other(
    cluster: LiveCluster, row: Api
) -> None:
    before = state(cluster)
    for version, request in fillings(row):
        assert cluster.ask(1, request, version, row.response, PORT) is None
    assert state(cluster) == before


@pytest.mark.parametrize("row", ROWS_OF_NODES, ids=lambda row: row.name)
def test_row_47_a_request_between_nodes_with_empty_or_equal_elements_harms_nobody(
    cluster: LiveCluster, row: Api
) -> None:
    before = state(cluster)
    for version, request in fillings(row):
        cluster.ask(cluster.controller, request, version, row.response, CLUSTER_PORT)
    assert all(machine.running for machine in cluster.world.machines)
    assert state(cluster) == before


@pytest.mark.parametrize("row", ROWS_OF_THE_QUORUM, ids=lambda row: row.name)
def test_row_47_requests_of_the_quorum_about_its_log_harm_nobody(
    cluster: LiveCluster, row: Api
) -> None:
    # The requests of the test above are refused for their cluster or their topic.
    before = state(cluster)
    answered = set()
    for version in range(row.min_version, row.max_version + 1):
        for times in (0, 1, 2):
            filling = Filling(version, times, METADATA_TOPIC, METADATA_TOPIC_ID)
            request = filling.message(row.request)
            if hasattr(request, "cluster_id"):
                request.cluster_id = None
            for number in (1, 2, 3):
                if cluster.ask(number, request, version, row.response, CLUSTER_PORT) is not None:
                    answered.add((version, times))
    first = FIRST_FETCH_WITH_A_LEADER if row.key == FETCH_KEY else row.min_version
    assert {(version, 1) for version in range(first, row.max_version + 1)} <= answered
    assert all(machine.running for machine in cluster.world.machines)
    assert state(cluster) == before


@pytest.mark.parametrize("row", ROWS_OF_THE_QUORUM_ONLY, ids=lambda row: row.name)
def test_row_47_a_request_of_the_quorum_about_another_log_is_invalid(
    cluster: LiveCluster, row: Api
) -> None:
    before = state(cluster)
    for version, request in fillings(row):
        request.cluster_id = None
        answer = cluster.ask(cluster.controller, request, version, row.response, CLUSTER_PORT)
        assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REQUEST
    assert state(cluster) == before
