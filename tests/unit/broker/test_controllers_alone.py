"""Nodes that are controllers alone (`process.roles=controller`), and brokers that are none."""

from __future__ import annotations

import pytest

from odradek.cli.cluster import QUORUM_FETCH_TIMEOUT_MS
from odradek.client.admin.quorum import quorum_of, quorum_request
from odradek.client.admin.results import Quorum
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.testing.machine import host_of
from odradek.testing.scheduler import SECOND
from unit.broker.cluster_nodes import CLUSTER_PORT, VOTERS, ClusterNodes

CONTROLLERS, BROKER = (1, 2, 3), 4
OF_CONTROLLERS = 2


@pytest.fixture
def nodes() -> ClusterNodes:
    """Three controllers, and a broker."""
    nodes = ClusterNodes(4, controller_quorum_voters=VOTERS)
    for number in CONTROLLERS:
        at = f"CLUSTER://{host_of(number)}:{CLUSTER_PORT}"
        nodes.of_node[number] = {
            "process.roles": "controller",
            "listeners": f"CLUSTER://0.0.0.0:{CLUSTER_PORT}",
            "advertised.listeners": at,
        }
    nodes.of_node[BROKER] = {"process.roles": "broker"}
    nodes.boot()
    nodes.until(nodes.all_ready)
    return nodes


def test_controllers_decide_and_only_the_broker_is_registered(nodes: ClusterNodes) -> None:
    nodes.create(nodes.node(BROKER), "orders")
    nodes.until(nodes.agree)
    image = nodes.node(1).metadata.committed
    assert list(image.brokers) == [BROKER]
    assert image.topics["orders"].partitions[0].replicas == (BROKER,)
    assert not nodes.node(BROKER).metadata.raft.core.may_stand
    assert all(not list(nodes.node(number).replicas) for number in CONTROLLERS)


def test_a_controller_that_is_lost_is_replaced_by_another(nodes: ClusterNodes) -> None:
    (first,) = (node.config.node_id for node in nodes.controllers)
    nodes.machines[first].kill()
    nodes.until(lambda: bool(nodes.controllers))
    nodes.create(nodes.node(BROKER), "orders")
    nodes.boot(first)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert "orders" in nodes.node(first).metadata.committed.topics


def test_a_controller_stops_at_once_and_starts_again(nodes: ClusterNodes) -> None:
    ended: list[bool] = []
    nodes.machines[1].stop(60 * SECOND, ended.append)
    nodes.until(lambda: bool(ended))
    assert ended == [True]
    nodes.boot(1)
    nodes.until(nodes.all_ready)


def described(nodes: ClusterNodes) -> Quorum:
    """The quorum as the client of an administrator gets it from the active controller."""
    return quorum_of(nodes.ask(nodes.node(BROKER), quorum_request()))


def silent(nodes: ClusterNodes) -> frozenset[int]:
    return described(nodes).silent_voters(QUORUM_FETCH_TIMEOUT_MS)


def test_a_controller_that_is_killed_stops_to_answer_though_nothing_is_written(
    nodes: ClusterNodes,
) -> None:
    """Nobody writes metadata, so it is not behind: only the time of its last fetch tells."""
    lost = next(n for n in CONTROLLERS if n != nodes.controllers[0].config.node_id)
    nodes.scheduler.run(nodes.scheduler.now_ns + 5 * SECOND)
    assert silent(nodes) == set()
    nodes.machines[lost].kill()
    nodes.scheduler.run(nodes.scheduler.now_ns + 3 * SECOND)
    assert silent(nodes) == {lost}
    assert len({each.log_end_offset for each in described(nodes).voters}) == 1
    nodes.boot(lost)
    nodes.until(lambda: silent(nodes) == set())


def test_clients_are_told_of_a_controller_that_they_can_reach(nodes: ClusterNodes) -> None:
    assert nodes.node(BROKER).broker.controller_id == BROKER


def test_a_controller_tells_other_nodes_where_the_voters_are(nodes: ClusterNodes) -> None:
    answer = nodes.ask(
        nodes.node(BROKER),
        DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=OF_CONTROLLERS
        ),
    )
    assert answer.error_code == ErrorCode.NONE
    assert answer.endpoint_type == OF_CONTROLLERS
    told = [(each.broker_id, each.host, each.port) for each in answer.brokers]
    assert told == [(number, host_of(number), CLUSTER_PORT) for number in CONTROLLERS]
    assert answer.controller_id == nodes.controllers[0].config.node_id
