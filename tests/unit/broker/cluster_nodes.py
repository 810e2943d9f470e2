"""Several nodes in one simulation, each on a machine of its own, with a CLUSTER listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.broker.cluster_member import ClusterMember
from odradek.broker.node import Node
from odradek.config.broker import BrokerConfig
from odradek.model.env import Env
from odradek.network_client.broker_connections import Purpose
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.testing.history import History
from odradek.testing.machine import DATA_DIRECTORY, SimMachine, Wiring, host_of, start_node
from odradek.testing.network import Fabric
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import MS, Scheduler

CLUSTER_ID = "Lbb1xuqcTUyKnq1VgYwvBQ"
CLUSTER_PORT = 19092
NUMBERS = {host_of(number): number for number in (1, 2, 3, 4)}
VOTERS = ",".join(f"{number}@{host_of(number)}:{CLUSTER_PORT}" for number in (1, 2, 3))


class ClusterNodes:
    """Machines with a node each, on one network."""

    def __init__(self, count: int, **settings: str) -> None:
        """`settings`: of all nodes, with underscores for dots."""
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.of_node: dict[int, dict[str, str]] = {}
        self.scheduler = Scheduler(1)
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

    def run(self, number: int, callback: Callable[[], None]) -> None:
        """Run something on the owner thread of a node, now."""
        process = self.machines[number].process
        assert process is not None
        process.run(callback)

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

    def node_is_ready(self, number: int) -> Callable[[], bool]:
        return lambda: self.node(number).is_ready

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

    def member(self, node: Node) -> ClusterMember:
        """Return the cluster's side of a node."""
        assert node.member is not None
        return node.member

    def ask(self, asking: Node, request: Any) -> Any:
        """Send a request to the active controller over the connection of a node; return what it
        answers.
        """
        calls: list[ClientRequest] = []
        client = self.member(asking).connections.client(Purpose.CONTROLLER)
        client.send(self.controllers[0].config.node_id, request, calls.append)
        self.until(lambda: bool(calls))
        assert calls[0].error is None, calls[0].error
        return calls[0].response

    def has_topic(self, name: str) -> Callable[[], bool]:
        return lambda: all(node.metadata.committed.topic(name) for node in self.running)

    def create(self, at: Node, name: str) -> None:
        """Let a node create a topic in passing, here or at the controller."""
        at.broker.auto_create_topics([name])
        self.until(self.has_topic(name))


def three_voters(**settings: str) -> ClusterNodes:
    """Three nodes that are ready; `settings` as in `ClusterNodes`."""
    nodes = ClusterNodes(3, controller_quorum_voters=VOTERS, **settings).boot()
    nodes.until(nodes.all_ready)
    return nodes
