"""Several nodes in one simulation: their quorum, registrations, and the metadata they share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.broker.node import Node, StartFailed
from odradek.config.broker import BrokerConfig
from odradek.config.setting import ConfigError
from odradek.model.env import Env
from odradek.raft.effects import AddVoter
from odradek.raft.messages import RaftResponse
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter
from odradek.testing.history import History
from odradek.testing.machine import DATA_DIRECTORY, SimMachine, Wiring, host_of, start_node
from odradek.testing.network import Fabric
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, SECOND, Scheduler

CLUSTER_ID = "Lbb1xuqcTUyKnq1VgYwvBQ"
CLUSTER_PORT = 19092
NUMBERS = {host_of(number): number for number in (1, 2, 3, 4)}
VOTERS = ",".join(f"{number}@{host_of(number)}:{CLUSTER_PORT}" for number in (1, 2, 3))


class ClusterNodes:
    """Machines with a node each, on one network."""

    def __init__(self, count: int, seed: int = 1, **settings: str) -> None:
        """`settings`: of all nodes, with underscores for dots."""
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.of_node: dict[int, dict[str, str]] = {}
        self.scheduler = Scheduler(seed)
        self.fabric = Fabric(self.scheduler)
        history, wiring = History(), Wiring(self._start)
        self.machines = {
            number: SimMachine(self.scheduler, self.fabric, history, wiring, number=number)
            for number in range(1, count + 1)
        }

    def _start(self, env: Env, process: SimProcess) -> Node:
        host = process.name
        number = NUMBERS[host]
        given = {
            "node.id": str(number),
            "broker.id": str(number),
            "cluster.id": CLUSTER_ID,
            "listeners": f"PLAINTEXT://0.0.0.0:9092,CLUSTER://0.0.0.0:{CLUSTER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{host}:9092,CLUSTER://{host}:{CLUSTER_PORT}",
            "log.dirs": DATA_DIRECTORY,
            **self.settings,
            **self.of_node.get(number, {}),
        }
        return start_node(BrokerConfig.load(given), env, process)

    def boot(self, *numbers: int) -> ClusterNodes:
        for number in numbers or self.machines:
            self.machines[number].boot()
        return self

    def node(self, number: int) -> Node:
        found = self.machines[number].broker
        assert isinstance(found, Node), f"node {number} does not run"
        return found

    @property
    def running(self) -> list[Node]:
        return [self.node(number) for number, each in self.machines.items() if each.running]

    def until(self, condition: Callable[[], bool], limit_ms: int = 30_000) -> int:
        """Run until something has happened; return the simulated milliseconds that it took."""
        began_ns = self.scheduler.now_ns
        while not condition():
            passed_ms = (self.scheduler.now_ns - began_ns) // MS
            assert passed_ms < limit_ms, "it did not happen in time"
            self.scheduler.run(self.scheduler.now_ns + 5 * MS)
        return (self.scheduler.now_ns - began_ns) // MS

    def all_ready(self) -> bool:
        return all(node.is_ready for node in self.running)

    def agree(self) -> bool:
        """True if all running nodes have the same committed metadata, and all of the leader's."""
        end = max(node.metadata.end_offset for node in self.running)
        images = [node.metadata.committed for node in self.running]
        return all(node.metadata.committed_offset == end for node in self.running) and all(
            image == images[0] for image in images
        )

    @property
    def controllers(self) -> list[Node]:
        return [node for node in self.running if node.metadata.controller.is_active]

    def other_than_controller(self) -> Node:
        return next(node for node in self.running if not node.metadata.controller.is_active)

    def has_topic(self, name: str) -> Callable[[], bool]:
        return lambda: all(node.metadata.committed.topic(name) for node in self.running)

    def create(self, at: Node, name: str) -> None:
        """Let a node create a topic in passing, here or at the controller."""
        at.broker.auto_create_topics([name])
        self.until(self.has_topic(name))


def three_voters() -> ClusterNodes:
    nodes = ClusterNodes(3, controller_quorum_voters=VOTERS).boot()
    nodes.until(nodes.all_ready)
    return nodes


def test_three_nodes_elect_a_controller_and_are_registered_before_clients_come() -> None:
    nodes = ClusterNodes(3, controller_quorum_voters=VOTERS)
    nodes.boot(1)
    nodes.scheduler.run(5 * SECOND)
    assert not nodes.node(1).is_ready  # One of three voters decides nothing.
    nodes.boot(2, 3)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert len(nodes.controllers) == 1
    brokers = nodes.node(1).metadata.committed.brokers
    assert {number: broker.fenced for number, broker in brokers.items()} == {
        1: False,
        2: False,
        3: False,
    }


def test_a_decision_asked_of_any_node_is_committed_on_all() -> None:
    nodes = three_voters()
    nodes.create(nodes.other_than_controller(), "asked-elsewhere")
    nodes.create(nodes.controllers[0], "asked-here")
    nodes.until(nodes.agree)


def test_the_metadata_survives_a_killed_controller_and_its_node_comes_back() -> None:
    nodes = three_voters()
    nodes.create(nodes.controllers[0], "before")
    first = nodes.controllers[0].config.node_id
    nodes.machines[first].kill()
    took_ms = nodes.until(lambda: len(nodes.controllers) == 1)
    assert took_ms < 500  # The closed connections begin an election, not the fetch timeout.
    nodes.create(nodes.other_than_controller(), "after")
    nodes.boot(first)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert set(nodes.node(first).metadata.committed.topics) >= {"before", "after"}


def test_a_power_failure_of_all_nodes_loses_nothing_committed() -> None:
    nodes = three_voters()
    nodes.create(nodes.controllers[0], "kept")
    for machine in nodes.machines.values():
        machine.power_loss()
    nodes.boot()
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert nodes.has_topic("kept")()


def joined(count: int) -> ClusterNodes:
    """Node 1 begins a cluster alone, others join it as observers of its quorum."""
    nodes = ClusterNodes(count)
    for number in range(2, count + 1):
        bootstrap = f"{host_of(1)}:{CLUSTER_PORT}"
        nodes.of_node[number] = {"controller.quorum.bootstrap.servers": bootstrap}
    nodes.boot(1)
    nodes.until(nodes.all_ready)
    return nodes


def test_nodes_that_join_one_become_voters_and_outlive_it() -> None:
    nodes = joined(3)
    nodes.create(nodes.node(1), "alone")
    nodes.boot(2, 3)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    raft = nodes.node(1).metadata.raft
    assert raft.core.log.voters.ids == {1}
    answers: list[RaftResponse] = []
    for number in (2, 3):
        key = ReplicaKey(number, nodes.node(number).directory.meta.directory_id)
        at = QuorumEndpoint("CLUSTER", host_of(number), CLUSTER_PORT)
        raft.change_voters(
            AddVoter(lambda response, _: answers.append(response), Voter(key, (at,)))
        )
        nodes.until(lambda wanted=number - 1: len(answers) == wanted)  # type: ignore[misc]
    assert [answer.error.name for answer in answers] == ["NONE", "NONE"]
    nodes.machines[1].kill()
    nodes.until(lambda: len(nodes.controllers) == 1)
    nodes.create(nodes.controllers[0], "without-the-first")
    nodes.boot(1)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert nodes.node(1).metadata.raft.core.log.voters.ids == {1, 2, 3}


def test_a_node_that_joins_late_gets_a_snapshot_and_the_records_after_it() -> None:
    nodes = joined(2)
    first = nodes.node(1)
    for number in range(3):
        nodes.create(first, f"t{number}")
        first.metadata.snapshot()
        nodes.until(lambda: first.metadata.idle)
    assert first.metadata.raft.log.log_start_offset > 0
    nodes.create(first, "after")
    nodes.boot(2)
    nodes.until(nodes.all_ready)
    nodes.until(nodes.agree)
    assert nodes.node(2).metadata.raft.log.log_start_offset > 0


def test_a_node_that_is_not_heard_from_is_fenced_and_comes_back() -> None:
    nodes = three_voters()
    away = nodes.other_than_controller().config.node_id
    nodes.machines[away].kill()

    def is_fenced() -> bool:
        return nodes.controllers[0].metadata.committed.brokers[away].fenced

    nodes.until(is_fenced)
    nodes.boot(away)
    nodes.until(lambda: nodes.all_ready() and not is_fenced())


def test_a_new_directory_that_is_to_join_others_needs_the_id_of_their_cluster() -> None:
    nodes = ClusterNodes(1, controller_quorum_voters=VOTERS)
    nodes.of_node[1] = {"cluster.id": ""}
    with pytest.raises(StartFailed, match=r"give cluster\.id"):
        nodes.boot(1)


def test_voters_without_a_listener_for_them_are_refused() -> None:
    with pytest.raises(ConfigError, match="add CLUSTER://HOST:PORT"):
        BrokerConfig.load({"controller.quorum.voters": VOTERS})
