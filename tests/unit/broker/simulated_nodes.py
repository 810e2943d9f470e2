"""Two nodes over the simulated network: a real broker, and the active controller, real or scripted.

Each node has a listener for clients (9092) and one for nodes (19092), as the members of a cluster.
Who is the active controller is up to the test.
"""

from __future__ import annotations

from typing import Any

from odradek.broker.dispatch import Dispatcher
from odradek.broker.node import Node as BrokerNode
from odradek.client.engine import Engine
from odradek.config.broker import BrokerConfig
from odradek.controller.quorum_controller import ActiveController
from odradek.model.node import Node
from odradek.network.server import SocketServer
from odradek.network_client.broker_connections import BrokerConnections
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.protocol.api.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.testing.client_process import ClientProcess
from odradek.testing.scripted import PORT, ClientSide, ScriptedCluster, raise_bug

NODES_PORT = 19_092
SECOND = 1000


class SimulatedNode(ClientProcess):
    """A started broker on a host `broker<id>`, with a listener for nodes."""

    def __init__(self, cluster: ScriptedCluster, node_id: int, **settings: str) -> None:
        super().__init__(cluster.scheduler, cluster.fabric, f"broker{node_id}")
        values = {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig.load(
            {
                "log.dirs": "/data",
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://{self.name}:{PORT}",
                **values,
            },
            "the test",
        )
        self.node = BrokerNode(config, self.env, self.timer, on_bug=raise_bug)
        self.do(self.node.start)
        self.broker = self.node.broker
        self.connections = BrokerConnections(self.env, self.timer, config, on_bug=raise_bug)
        self.nodes = SocketServer(
            self.env.network,
            self.env.call_soon,
            self.timer,
            Dispatcher(self.broker, between_nodes=True),
            on_bug=raise_bug,
        )
        self.do(lambda: self.nodes.listen(self.name, NODES_PORT))
        self.controller: ActiveController | None = None

    def join(self, others: dict[int, tuple[str, int]], controller: int | None) -> None:
        """Make this node a member of a cluster with other nodes and an active controller."""
        nodes = {key: Node(key, *address) for key, address in others.items()}

        def begin() -> None:
            self.connections.update_controllers(nodes)
            self.broker.join_cluster(self.connections, lambda: self.controller)

        self.do(begin)
        self.elect(controller)

    def elect(self, node_id: int | None, epoch: int = 1) -> None:
        """Let this node know of another active controller."""

        def learn() -> None:
            self.controller = None if node_id is None else ActiveController(node_id, epoch)
            self.broker.controller_changed()

        self.do(learn)

    @property
    def topics(self) -> list[str]:
        return sorted(self.broker.image.topics)


class Client:
    """A client that asks broker 1 only."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.side: ClientSide = cluster.client()
        self.engine: Engine = self.side.engine(
            bootstrap_servers=f"broker1:{PORT}",
            client_id="the client",
            request_timeout_ms=200 * SECOND,
        )
        self.side.wait(lambda: self.engine.metadata.newer_than(0))

    def send(self, request: Any) -> ClientRequest:
        ended: list[ClientRequest] = []
        return self.side.do(lambda: self.engine.client.send(1, request, ended.append))

    def ask(self, request: Any) -> Any:
        """The response to a request, however long it takes."""
        call = self.send(request)
        self.cluster.until(lambda: call.done)
        assert call.error is None, call.error
        return call.response

    def codes(self, *names: str) -> list[int]:
        """The error codes of creating topics."""
        return [each.error_code for each in self.ask(creation(*names)).topics]


def creation(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=5 * SECOND)


def two_nodes(**settings: str) -> tuple[ScriptedCluster, SimulatedNode, SimulatedNode]:
    """Broker 1, and broker 2 as the active controller."""
    cluster = ScriptedCluster(brokers=0)
    one, two = SimulatedNode(cluster, 1, **settings), SimulatedNode(cluster, 2)
    one.join({2: (two.name, NODES_PORT)}, controller=2)
    two.join({1: (one.name, NODES_PORT)}, controller=2)
    return cluster, one, two


def scripted_controller() -> tuple[ScriptedCluster, SimulatedNode]:
    """Broker 1, and a scripted node 2 as the active controller."""
    cluster = ScriptedCluster(brokers=0)
    cluster.add_broker(2)
    one = SimulatedNode(cluster, 1)
    one.join({2: ("broker2", PORT)}, controller=2)
    return cluster, one
