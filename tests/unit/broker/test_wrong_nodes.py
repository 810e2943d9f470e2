"""Nodes that must not join a cluster, and requests of earlier lives: refused, with the way out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from odradek.broker.node import StartFailed
from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.controller.image import MetadataImage
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import AlterPartitionRequest
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest
from odradek.raft.messages import RaftFetchRequest, RaftResponse, VoteRequest
from odradek.raft.raft_log import METADATA_DIRECTORY
from odradek.raft.replicas import ReplicaKey
from odradek.testing.machine import DATA_DIRECTORY, host_of
from odradek.testing.scheduler import SECOND
from unit.broker.cluster_nodes import CLUSTER_PORT, VOTERS, ClusterNodes

JOINS_THREE = {
    "controller.quorum.voters": "",
    "controller.quorum.bootstrap.servers": f"{host_of(1)}:{CLUSTER_PORT}",
}


@pytest.fixture
def nodes() -> ClusterNodes:
    """Three voters that are ready, and a machine that joins them as node 4."""
    nodes = ClusterNodes(4, controller_quorum_voters=VOTERS)
    nodes.of_node[4] = dict(JOINS_THREE)
    nodes.boot(1, 2, 3)
    nodes.until(lambda: all(nodes.node(each).is_ready for each in (1, 2, 3)))
    return nodes


def refusal(nodes: ClusterNodes, number: int) -> str:
    """Start a node; return why it cannot join."""
    nodes.boot(number)
    node = nodes.node(number)
    nodes.until(lambda: node.start_failure is not None, limit_ms=70_000)
    assert not node.is_ready
    return str(node.start_failure)


def committed(nodes: ClusterNodes) -> MetadataImage:
    return nodes.controllers[0].metadata.committed.copy()


def test_a_node_of_another_cluster_is_told_so(nodes: ClusterNodes) -> None:
    nodes.of_node[4]["cluster.id"] = "AAAAAAAAAAAAAAAAAAAAAA"
    before = committed(nodes)
    told = refusal(nodes, 4)
    assert f"{host_of(1)}:{CLUSTER_PORT} belongs to another cluster" in told
    assert "What to do: give the addresses of its own cluster" in told
    assert committed(nodes) == before


def test_a_new_node_with_an_id_that_is_taken_is_told_so(nodes: ClusterNodes) -> None:
    nodes.of_node[4].update({"node.id": "2", "broker.id": "2"})
    before = committed(nodes)
    assert "has id 2. What to do: give this one another node.id" in refusal(nodes, 4)
    assert committed(nodes) == before
    assert nodes.node(2).is_ready


def test_a_node_whose_disk_was_wiped_gets_its_id_back_when_its_session_has_ended(
    nodes: ClusterNodes, caplog: pytest.LogCaptureFixture
) -> None:
    wiped = nodes.other_than_controller().config.node_id
    epoch = committed(nodes).brokers[wiped].epoch
    nodes.machines[wiped].kill()
    nodes.machines[wiped].wipe()
    nodes.boot(wiped)
    took_ms = nodes.until(lambda: nodes.node(wiped).is_ready)
    assert committed(nodes).brokers[wiped].epoch > epoch
    assert took_ms < 5_000
    assert caplog.text.count(f"id {wiped} is in use in the cluster") == 1


def test_a_wiped_node_that_lost_its_power_waits_for_the_whole_session(nodes: ClusterNodes) -> None:
    wiped = nodes.other_than_controller().config.node_id
    nodes.machines[wiped].power_loss()  # No connection is closed.
    nodes.machines[wiped].wipe()
    nodes.boot(wiped)
    took_ms = nodes.until(lambda: nodes.node(wiped).is_ready)
    assert took_ms > 5_000


def test_the_directory_of_another_node_is_refused_at_the_start(nodes: ClusterNodes) -> None:
    nodes.boot(4)
    nodes.until(lambda: nodes.node(4).is_ready)
    nodes.machines[4].kill()
    nodes.of_node[4].update({"node.id": "5", "broker.id": "5"})
    with pytest.raises(StartFailed, match="belongs to node 4"):
        nodes.boot(4)


@pytest.mark.parametrize("left", [False, True], ids=["missing", "empty"])
def test_a_node_that_has_lost_its_metadata_log_does_not_start(
    nodes: ClusterNodes, left: bool
) -> None:
    nodes.boot(4)
    nodes.until(lambda: nodes.node(4).is_ready)
    nodes.machines[4].kill()
    disk = nodes.machines[4].disk.mount()
    metadata = f"{DATA_DIRECTORY}/{METADATA_DIRECTORY}"
    disk.remove_tree(metadata)
    if left:
        disk.make_directory(metadata)
    # Without others that it could ask, it would begin another quorum of the same cluster.
    nodes.of_node[4]["controller.quorum.bootstrap.servers"] = ""
    with pytest.raises(StartFailed, match=r"missing or empty.*move all of the data directory away"):
        nodes.boot(4)


def test_a_copied_directory_does_not_take_the_place_of_the_node_that_runs(
    nodes: ClusterNodes,
) -> None:
    nodes.boot(4)
    nodes.until(lambda: nodes.node(4).is_ready)
    copy = nodes.member(nodes.node(4)).registration
    assert copy is not None
    copy.incarnation_id = ReplicaKey(0).directory_id
    before = committed(nodes)
    answers: list[Any] = []
    controller = nodes.controllers[0]
    controller.broker.controller_service.register(copy, answers.append)
    nodes.until(lambda: bool(answers))
    assert answers[0].error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert committed(nodes) == before


def test_a_node_without_the_role_of_a_controller_follows_the_quorum_and_never_votes(
    nodes: ClusterNodes,
) -> None:
    nodes.of_node[4].update(
        {"process.roles": "broker", "controller.quorum.auto.join.enable": "true"}
    )
    nodes.boot(4)
    nodes.until(lambda: nodes.node(4).is_ready)
    assert not nodes.node(4).metadata.raft.core.may_stand
    assert 4 in committed(nodes).brokers


def test_a_voter_does_not_start_without_the_role_of_a_controller(nodes: ClusterNodes) -> None:
    nodes.machines[3].kill()
    nodes.of_node[3] = {"process.roles": "broker"}
    with pytest.raises(
        StartFailed, match=r"process\.roles has no controller.*or remove this voter"
    ):
        nodes.boot(3)


def test_the_listener_for_nodes_may_have_its_name_in_kafka() -> None:
    nodes = ClusterNodes(3, controller_quorum_voters=VOTERS)
    for number in (1, 2, 3):
        between = f"CONTROLLER://{host_of(number)}:{CLUSTER_PORT}"
        nodes.of_node[number] = {
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:{CLUSTER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{host_of(number)}:9092,{between}",
        }
    nodes.boot()
    nodes.until(nodes.all_ready)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"process.roles": "controller"}, "process.roles=controller serves no clients: leave PL"),
        ({"process.roles": "controller", "listeners": ""}, "add CLUSTER://HOST:PORT"),
        ({"process.roles": "broker", "listeners": "CLUSTER://h:1"}, "no address for clients"),
        ({"process.roles": ""}, "process.roles is empty"),
        ({"controller.listener.names": "CONTROLLER"}, "add CONTROLLER://HOST:PORT"),
        ({"controller.listener.names": "ELSEWHERE"}, "controller.listener.names"),
        (
            {"listeners": "PLAINTEXT://:9092,CLUSTER://h:1,CONTROLLER://h:2"},
            "Each listener must have a different name",
        ),
    ],
)
def test_roles_and_listeners_that_contradict_each_other_are_refused(
    settings: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        BrokerConfig.load(settings)


@pytest.mark.parametrize("stale", [-1, 1])
def test_a_heartbeat_or_a_proposal_of_another_broker_epoch_changes_nothing(
    nodes: ClusterNodes, stale: int
) -> None:
    asking, before = nodes.other_than_controller(), committed(nodes)
    broker_id = asking.config.node_id
    epoch = before.brokers[broker_id].epoch + stale
    heartbeat = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=1 << 40,
        want_fence=True,
        want_shut_down=True,
    )
    proposal = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[])
    for request in (heartbeat, proposal):
        assert nodes.ask(asking, request).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert committed(nodes) == before


def test_a_controller_that_was_cut_off_decides_nothing_in_its_old_epoch(
    nodes: ClusterNodes,
) -> None:
    first = nodes.controllers[0]
    others = [each for each in (1, 2, 3) if each != first.config.node_id]
    for number in others:
        nodes.machines[number].kill()
    first.broker.auto_create_topics(["lost"])
    nodes.scheduler.run(nodes.scheduler.now_ns + 5 * SECOND)
    assert not first.metadata.controller.is_active
    nodes.machines[first.config.node_id].kill()
    nodes.boot(*others)
    nodes.until(lambda: len(nodes.controllers) == 1)
    nodes.boot(first.config.node_id)
    nodes.until(lambda: all(nodes.node(each).is_ready for each in (1, 2, 3)))
    nodes.until(nodes.agree)
    assert committed(nodes).topic("lost") is None


def test_quorum_requests_of_an_old_epoch_are_fenced(nodes: ClusterNodes) -> None:
    leader = nodes.controllers[0]
    raft = leader.metadata.raft
    me, other = raft.core.me, ReplicaKey(9)
    answers: list[RaftResponse] = []
    epoch = raft.epoch
    for request in (
        VoteRequest(epoch - 1, other, me, raft.core.log.last, False),
        RaftFetchRequest(epoch - 1, other, 0, 0, 0, 0),
    ):
        raft.receive(request, lambda response, _: answers.append(response))
    nodes.until(lambda: len(answers) == 2)
    assert [each.error.name for each in answers] == ["FENCED_LEADER_EPOCH"] * 2
    assert raft.is_leader
    assert raft.epoch == epoch


def test_a_voter_with_an_empty_disk_does_not_vote_and_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = ClusterNodes(3)
    for number in (2, 3):
        nodes.of_node[number] = {
            "controller.quorum.bootstrap.servers": f"{host_of(1)}:{CLUSTER_PORT}",
            "controller.quorum.auto.join.enable": "true",
        }
    nodes.boot(1)
    nodes.until(nodes.all_ready)
    nodes.boot(2, 3)
    nodes.until(lambda: len(nodes.node(1).metadata.raft.core.log.voters) == 3)
    nodes.until(nodes.all_ready)
    nodes.machines[3].kill()
    nodes.machines[3].wipe()
    nodes.scheduler.run(nodes.scheduler.now_ns + SECOND)  # Its session ends.
    nodes.of_node[3]["controller.quorum.auto.join.enable"] = "false"
    nodes.boot(3)
    nodes.until(nodes.all_ready)
    assert not nodes.node(3).metadata.raft.core.may_stand
    assert "node 3 is a voter of the quorum with another data directory" in caplog.text
    assert "remove-controller" in caplog.text
