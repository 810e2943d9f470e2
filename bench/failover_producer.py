"""A transactional producer whose coordinator is killed: it asks for leader and coordinator before
each request, over a connection of its own, so that no wait of a client library is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cluster_client import SHORT_S, ClusterClient, NotInTime, Partition, ask
from odradek.model.errors import ErrorCode
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from transaction_load import FIND, PATIENCE_S, TIMEOUT_MS, TRANSACTION_KEY, TransactionalClient

PAUSE_S = 0.02
ANSWER_S = 5.0


class FailoverProducer(TransactionalClient):
    """One transactional id, whose records go to one partition of a topic."""

    def __init__(self, client: ClusterClient, topic: str, transactional_id: str) -> None:
        self.client = client
        self.topic = topic
        self.partition = 0
        self.transactional_id = transactional_id
        self.timeout_ms = TIMEOUT_MS
        self.producer_id = self.epoch = -1
        self.sequences = {}
        self.coordinator()
        self.identify()

    def commit_one(self) -> None:
        """One record, and its commit."""
        self.produce(self.topic, [(self.partition, 1)])
        self.end()

    def coordinator(self) -> int:
        """Return the node that coordinates the id, as soon as some node knows it."""
        request = FindCoordinatorRequest(
            key_type=TRANSACTION_KEY, coordinator_keys=[self.transactional_id]
        )
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = self.client.any(request, FindCoordinatorResponse, FIND, SHORT_S).coordinators[0]
            if found.error_code == ErrorCode.NONE and found.node_id not in self.client.down:
                node_id: int = found.node_id
                return node_id
            time.sleep(PAUSE_S)
        raise NotInTime(f"{self.transactional_id} has no coordinator")

    def write_elsewhere_than(self, node_id: int) -> None:
        """Write to a partition that another node leads from now on."""
        found = self.client.partitions([self.topic])
        self.partition = next(key.number for key in found if found[key].leader_id != node_id)

    def ask_leader(self, request: object, response: type[Any], version: int) -> Any:
        def leader() -> int:
            found = self.client.partitions([self.topic], SHORT_S)
            return found[Partition(self.topic, self.partition)].leader_id

        return self._ask(leader, request, response, version)

    def ask_coordinator(self, request: object, response: type[Any], version: int) -> Any:
        return self._ask(self.coordinator, request, response, version)

    def _ask(
        self, node: Callable[[], int], request: object, response: type[Any], version: int
    ) -> Any:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                port = self.client.ports[node()]
                return ask(port, request, response, version, ANSWER_S)
            except (OSError, KeyError):
                time.sleep(PAUSE_S)
        raise NotInTime(f"{type(request).__name__} is not answered")
