"""A scripted cluster, a client that has its metadata, and requests to its nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.engine import Engine
from odradek.client.errors import (
    KafkaError,
)
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import ConnectionListener
from odradek.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.testing.scripted import ClientSide, ScriptedCluster

SECOND = 1000


class Listener(ConnectionListener):
    def __init__(self) -> None:
        self.ready: list[int] = []
        self.lost: list[tuple[int, KafkaError]] = []

    def node_ready(self, node_id: int) -> None:
        if node_id >= 0:
            self.ready.append(node_id)

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        if node_id >= 0:
            self.lost.append((node_id, error))


class Asking:
    """A scripted cluster and a client that has its metadata."""

    def __init__(self, brokers: int = 1, max_in_flight: int = 100, **settings: object) -> None:
        self.cluster = ScriptedCluster(brokers)
        self.side: ClientSide = self.cluster.client()
        self.engine: Engine = self.side.engine(max_in_flight=max_in_flight, **settings)
        self.client = self.engine.client
        self.listener = Listener()
        self.client.listen(self.listener)
        self.ended: list[ClientRequest] = []
        self.side.wait(lambda: self.engine.metadata.newer_than(0))

    def answer(self, answers: Callable[[Any, int], Any], node_id: int = 1) -> None:
        self.cluster[node_id].answers[DescribeClusterRequest] = answers

    def ask(self, node_id: int = 1, **options: Any) -> ClientRequest:
        """Send a request that only the script answers."""
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        return self.side.do(
            lambda: self.client.send(node_id, request, self.ended.append, **options)
        )

    def connect(self, node_id: int = 1) -> None:
        self.side.do(lambda: self.client.ready(node_id))
        self.cluster.until(lambda: self.client.is_ready(node_id))


def described(name: str = "it") -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=0, cluster_id=name, controller_id=1, brokers=[])
