"""BrokerConnections: the connections of a broker to the other nodes of its cluster, by purpose.

    purpose ─► NetworkClient ─► one connection to each node it sends to

A node answers the requests of one connection in order. So what must not wait for each other has a
connection of its own:

| purpose      | requests                                                | waits for             |
|--------------|---------------------------------------------------------|-----------------------|
| QUORUM       | votes, fetches of the metadata log and of its snapshots | news of that log      |
| CONTROLLER   | registration, heartbeats, AlterPartition, producer ids  | a commit of metadata  |
| FORWARDING   | requests of clients, sent on to the active controller   | their own timeouts    |
| FETCHER      | fetches of the followers that are in sync               | new records           |
| CATCH_UP     | fetches of the followers that are behind                | a disk                |
| MARKERS      | the ends of transactions, to the leaders of partitions  | replicas and disks    |
| VERIFICATION | which partitions are in a transaction                   | the coordinator's log |
| ENDS         | the ends of partitions, for the lag of groups           | records' commit       |

A request ends once: with its response, or with `Disconnected`, `RequestTimeout`,
`UnsupportedVersion` or `ClientClosed` (`errors`). It is not repeated here. The loss of a connection
is told at once, to the requests and to the client's `ConnectionListener`s. Everything is bounded:
requests in flight, requests that wait, the time of each, the waits between two attempts to connect.

A node that moved loses its old connection at once. With `cluster_id` set, nodes are asked for that
cluster and their own id when they are connected (KIP-1242), so a request never reaches another
cluster's node at a reused address.

A client of a purpose is made at its first use: a broker without other nodes has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from odradek.config.broker import BrokerConfig
from odradek.model.env import Env, SocketBuffers
from odradek.model.node import Node
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import NetworkClient
from odradek.network_client.settings import NetworkClientSettings
from odradek.timing.timer import SystemTimer

NEVER_IDLE_MS = 1 << 50
QUORUM_BACKOFF_MS = (50, 500)
"""The least and the longest wait before the quorum connects again; all of these are Kafka's."""
CONTROLLER_BACKOFF_MS = (50, 50)
FETCH_BACKOFF_MS = (50, 1000)
"""Kafka's fetchers do not wait here, but wait after each failure (`replica.fetch.backoff.ms`)."""


class Purpose(Enum):
    """What a connection is for; the value is a part of its client id."""

    QUORUM = "raft-client"
    CONTROLLER = "controller-channel"
    FORWARDING = "forwarding"
    FETCHER = "fetcher"
    CATCH_UP = "catch-up-fetcher"
    MARKERS = "transaction-markers"
    VERIFICATION = "transaction-verification"
    ENDS = "partition-ends"


IN_FLIGHT = {
    Purpose.QUORUM: 8,
    Purpose.CONTROLLER: 8,
    Purpose.FORWARDING: 32,
    # A newer fetch answers the older one that waits, so two are in flight for a moment.
    Purpose.FETCHER: 4,
    Purpose.CATCH_UP: 2,
    Purpose.MARKERS: 8,
    Purpose.VERIFICATION: 32,
    Purpose.ENDS: 1,
}
"""The maximum of requests in flight on one connection."""


TO_BROKERS = (
    Purpose.FETCHER,
    Purpose.CATCH_UP,
    Purpose.MARKERS,
    Purpose.VERIFICATION,
    Purpose.ENDS,
)


class BrokerConnections:
    """All connections of one broker to other nodes. Owner thread only."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        config: BrokerConfig,
        cluster_id: str | None = None,
        on_bug: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self._env = env
        self._timer = timer
        self._config = config
        self._cluster_id = cluster_id
        self._on_bug = on_bug
        self._clients: dict[Purpose, NetworkClient] = {}
        self._nodes: dict[Purpose, Mapping[int, Node]] = {}
        self._closed = False

    def client(self, purpose: Purpose) -> NetworkClient:
        """Return the client for a purpose, with the nodes that were set last."""
        found = self._clients.get(purpose)
        if found is None:
            settings = settings_for(purpose, self._config)
            found = NetworkClient(self._env, self._timer, settings, self._on_bug)
            found.cluster_id = self._cluster_id
            if purpose is not Purpose.QUORUM:
                found.update_nodes(self._nodes.get(purpose, {}))
            if self._closed:
                found.close()
            self._clients[purpose] = found
        return found

    def update_controllers(self, nodes: Mapping[int, Node]) -> None:
        """Set where the nodes of the quorum are, by id: one of them is the active controller.

        The nodes of QUORUM itself are not set: they are the voters and the bootstrap servers, which
        the quorum knows before there is any metadata.
        """
        self._update((Purpose.CONTROLLER, Purpose.FORWARDING), nodes)

    def leave_controller(self, node_id: int) -> None:
        """Close the connections to a node that is not the active controller any more. It may be
        silent, and the requests to it would wait until they time out; now they fail at once.
        """
        for purpose in (Purpose.CONTROLLER, Purpose.FORWARDING):
            if purpose in self._clients:
                self._clients[purpose].disconnect(node_id, "another node is the active controller")

    def leave_broker(self, node_id: int, why: str) -> None:
        """Close the connections to a broker that is fenced or has registered again.

        It may have lost its power. When it leads again, requests would wait behind those that it
        forgot, until these time out.
        """
        for purpose in TO_BROKERS:
            if purpose in self._clients:
                self._clients[purpose].disconnect(node_id, why)

    def update_brokers(self, nodes: Mapping[int, Node]) -> None:
        """Set where the other brokers are, by id, as they have registered.

        A voter may be known to the quorum by another name than it has registered with. So these are
        apart: an address that alternates would end its connection each time.
        """
        self._update(TO_BROKERS, nodes)

    def _update(self, purposes: tuple[Purpose, ...], nodes: Mapping[int, Node]) -> None:
        others = {key: node for key, node in nodes.items() if key != self._config.node_id}
        for purpose in purposes:
            self._nodes[purpose] = others
            if purpose in self._clients:
                self._clients[purpose].update_nodes(others)

    def set_cluster_id(self, cluster_id: str) -> None:
        """Set the id of the cluster, once a broker without one has joined it."""
        self._cluster_id = cluster_id
        for client in self._clients.values():
            client.cluster_id = cluster_id

    def close(self) -> None:
        """Close all connections, and fail all requests with `ClientClosed`, also later ones."""
        self._closed = True
        for client in self._clients.values():
            client.close()


class BrokerChannel:
    """Requests of one purpose to other brokers, by their ids. A request that fails, whatever the
    error, has no response: it is not repeated here, because by then another broker may be the one
    to ask. The sender looks for that one again. Owner thread only."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client

    def send(
        self,
        node_id: int,
        request: Any,
        answered: Callable[[Any], None],
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request to a broker that is not this one; `answered` gets the response, or None.

        `timeout_ms`: by default the request timeout of connections between brokers.
        """

        def ended(call: ClientRequest) -> None:
            answered(None if call.error is not None else call.response)

        self._client.send(node_id, request, ended, timeout_ms=timeout_ms)


def settings_for(purpose: Purpose, config: BrokerConfig) -> NetworkClientSettings:
    """Return the settings of the connections for a purpose."""
    backoff_ms, backoff_max_ms = FETCH_BACKOFF_MS
    timeout_ms, buffers = config.replica_socket_timeout_ms, SocketBuffers()
    if purpose is Purpose.QUORUM:
        backoff_ms, backoff_max_ms = QUORUM_BACKOFF_MS
        timeout_ms = config.controller_quorum_request_timeout_ms
    elif purpose in (Purpose.CONTROLLER, Purpose.FORWARDING):
        backoff_ms, backoff_max_ms = CONTROLLER_BACKOFF_MS
        timeout_ms = config.controller_socket_timeout_ms
    else:
        buffers = SocketBuffers(receive_bytes=config.replica_socket_receive_buffer_bytes)
    idle_ms = config.connections_max_idle_ms
    return NetworkClientSettings(
        client_id=f"broker-{config.node_id}-{purpose.value}",
        request_timeout_ms=timeout_ms,
        connections_max_idle_ms=NEVER_IDLE_MS if idle_ms < 0 else max(1, idle_ms),
        reconnect_backoff_ms=backoff_ms,
        reconnect_backoff_max_ms=backoff_max_ms,
        socket_connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        socket_connection_setup_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
        buffers=buffers,
        max_in_flight=IN_FLIGHT[purpose],
        leave_old_address=True,
    )
