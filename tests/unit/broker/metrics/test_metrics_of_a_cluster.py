"""What three simulated nodes count of the cluster's partitions and of its quorum."""

from __future__ import annotations

from typing import Any

from odradek.broker.metrics.reading import samples_of
from odradek.broker.metrics.scrape import Scrape
from odradek.broker.metrics.table import BY_NAME
from unit.broker.replicated_nodes import ReplicatedNodes


def values(nodes: ReplicatedNodes, name: str) -> dict[int, list[Any]]:
    """The samples of a metric by node."""
    return {
        node.config.node_id: [
            sample for step in BY_NAME[name].read(Scrape(node)) for sample in samples_of(step)
        ]
        for node in nodes.running
    }


def test_in_sync_replicas_are_counted_by_the_leader_alone() -> None:
    nodes = ReplicatedNodes().create_topic(2, 1, 3)
    name = "kafka_server_replicamanager_underreplicatedpartitions"
    assert values(nodes, name) == {n: [((), 0)] for n in (1, 2, 3)}
    nodes.machines[3].kill()
    nodes.until(lambda: nodes.isr == [1, 2])
    nodes.until(nodes.agree)
    assert values(nodes, name) == {1: [((), 0)], 2: [((), 1)]}


def test_one_node_is_the_active_controller_and_all_know_the_leader() -> None:
    nodes = ReplicatedNodes()
    controller = nodes.controllers[0].config.node_id
    active = values(nodes, "kafka_controller_kafkacontroller_activecontrollercount")
    assert active == {n: [((), int(n == controller))] for n in (1, 2, 3)}
    leader = values(nodes, "kafka_server_raftmetrics_current_leader")
    assert leader == {n: [((), controller)] for n in (1, 2, 3)}
    states = values(nodes, "kafka_server_raftmetrics_current_state")
    expected = {n: "leader" if n == controller else "follower" for n in (1, 2, 3)}
    assert states == {n: [((state,), 1)] for n, state in expected.items()}
