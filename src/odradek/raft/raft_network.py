"""RaftNetwork: sends the quorum's requests over connections to the other nodes.

A voter is known by its id; its address is that of the request, which the core knows from the voters
or from a response. A bootstrap server, whose id is not known, gets a negative id of its own. A
response that cannot be used counts as none. A lost connection is told to the replica at once: if it
was the leader's, it asks for votes before its fetch times out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.config.addresses import address_text
from odradek.model.errors import ProtocolError
from odradek.model.node import Node
from odradek.network_client.errors import KafkaError
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import ConnectionListener, NetworkClient
from odradek.raft.messages import Destination, RaftRequest, RaftResponse
from odradek.raft.replicas import QuorumEndpoint
from odradek.raft.wire import OtherCluster, decode_response, encode_request

logger = logging.getLogger(__name__)

MOST_NODES = 1_000
"""More addresses than any quorum has; older ones are forgotten."""


class RaftNetwork(ConnectionListener):
    """A `RaftSender` over a `NetworkClient`, which is used for nothing else."""

    def __init__(self, client: NetworkClient, cluster_id: str) -> None:
        self._client = client
        self._cluster_id = cluster_id
        self._nodes: dict[int, Node] = {}
        self._bootstrap: dict[QuorumEndpoint, int] = {}
        self.disconnected: Callable[[int], None] = lambda _: None
        """Called with the id of a replica whose connection was lost."""
        self.other_cluster: Callable[[str], None] = lambda _: None
        """Called with the address of a node that belongs to another cluster."""
        self._useless: dict[int, str] = {}
        client.listen(self)

    def send(
        self,
        to: Destination,
        request: RaftRequest,
        answered: Callable[[RaftResponse], None],
        failed: Callable[[], None],
    ) -> None:
        """Send a request; exactly one of the callbacks is called, later."""

        def ended(call: ClientRequest) -> None:
            if call.error is not None:
                failed()
                return
            try:
                response = decode_response(request, call.response)
            except ProtocolError as error:
                self._note_useless(node_id, error)
                failed()
            else:
                self._useless.pop(node_id, None)
                answered(response)

        node_id = self._node_of(to)
        self._client.send(node_id, encode_request(request, self._cluster_id), ended)

    def _note_useless(self, node_id: int, error: ProtocolError) -> None:
        """Log a response that cannot be used, unless the last one was the same."""
        node = self._nodes.get(node_id)
        at = f"node {node_id}" if node is None else address_text(node.host, node.port)
        if self._useless.get(node_id) != str(error):
            self._useless[node_id] = str(error)
            logger.warning("a response of %s is invalid: %s", at, error)
        if isinstance(error, OtherCluster):
            self.other_cluster(at)

    def _node_of(self, to: Destination) -> int:
        if not to.endpoints:
            return -1 if to.replica_id is None else to.replica_id
        at = to.endpoints[0]
        node_id = to.replica_id
        if node_id is None:
            node_id = self._bootstrap.setdefault(at, -1 - len(self._bootstrap))
        node = Node(node_id, at.host, at.port)
        if self._nodes.get(node_id) != node:
            self._nodes[node_id] = node
            while len(self._nodes) > MOST_NODES:
                self._useless.pop(oldest := next(iter(self._nodes)), None)
                del self._nodes[oldest]
            self._client.update_nodes(self._nodes)
        return node_id

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        """Tell the replica that a connection was lost."""
        if node_id >= 0:
            self.disconnected(node_id)
