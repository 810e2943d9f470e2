"""NetworkClient: requests to the nodes of a cluster, over one connection to each.

    send(node, request, handler) ─► NodeConnection ─► handler(request), with response or error, once
    ready(node) ─► True, or a connection is begun, and listeners get `node_ready` when it is there

Nodes are known by id. `update_nodes` sets the nodes and their addresses. Bootstrap servers have the
ids -1, -2 …. `coordinator` gives a node that also coordinates a group a second connection, so that
heartbeats do not wait behind fetches. A node that left the cluster is dropped when nothing is in
flight to it any more.

The client retries nothing: only the sender of a request knows whether it may be repeated. It does
not know metadata either: components that need to know about connections are `ConnectionListener`s.

Owner thread only. The client never calls handlers and listeners from within `send` or `ready`. One
that raises is a bug, which is logged, counted, reported to `on_bug`, and survived.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mypy_extensions import mypyc_attr

from odradek.model.env import Env
from odradek.model.node import Node
from odradek.model.version import VERSION
from odradek.network_client.api_versions import NEWEST, NodeApiVersions
from odradek.network_client.backoff import ExponentialBackoff
from odradek.network_client.channel import MAX_RESPONSE_BYTES
from odradek.network_client.connection_states import NEVER_TRIED, READY, ClusterConnectionStates
from odradek.network_client.errors import ClientClosed, Disconnected, KafkaError
from odradek.network_client.in_flight_requests import (
    ClientRequest,
    InFlightRequests,
    RequestHandler,
)
from odradek.network_client.network_metrics import NodeMetrics
from odradek.network_client.node_connection import NodeConnection
from odradek.network_client.settings import NetworkClientSettings
from odradek.protocol.api.api_versions import SOFTWARE_NAME, ApiVersionsRequest
from odradek.timing.timer import SystemTimer


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionListener:
    """Gets events of connections, never from within a call to the client."""

    def node_ready(self, node_id: int) -> None:
        """Requests to the node leave at once, now or again."""

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        """The connection failed or was lost. The requests to the node have failed before."""

    def rebootstrap_required(self) -> None:
        """Handle a node that belongs to another cluster, or is another node, than expected."""


__all__ = ["ConnectionListener", "NetworkClient"]

log = logging.getLogger(__name__)

COORDINATOR_BASE = 2**32
"""Greater than all ids of brokers, which have 32 bits."""


class NetworkClient:
    """All connections of one client."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        settings: NetworkClientSettings,
        on_bug: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self.env = env
        self.timer = timer
        self.client_id = settings.client_id
        self.request_timeout_ms = settings.request_timeout_ms
        self.max_idle_ms = settings.connections_max_idle_ms
        self.max_pending = settings.max_pending
        self.max_response_bytes = MAX_RESPONSE_BYTES
        self.buffers = settings.buffers
        self.states = ClusterConnectionStates(
            ExponentialBackoff(
                settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, env.random
            ),
            ExponentialBackoff(
                settings.socket_connection_setup_timeout_ms,
                settings.socket_connection_setup_timeout_max_ms,
                env.random,
            ),
        )
        self.in_flight = InFlightRequests(settings.max_in_flight)
        self.metrics = NodeMetrics(None)
        """The traffic with all nodes, also those that left the cluster."""
        self.api_versions_version = NEWEST
        """The version of ApiVersions that was last answered; negotiation begins with it."""
        self.cluster_id: str | None = None
        """The expected cluster id, sent to nodes in ApiVersions; None while unknown."""
        self.features: dict[str, int] = {}
        """The levels of the cluster's features, by the newest answer to ApiVersions."""
        self.features_epoch = -1
        """How new `features` are."""
        self.sent = 0
        """The number of requests sent so far; also the last correlation id."""
        self.bugs = 0
        self.closed = False
        self._leave_old_address = settings.leave_old_address
        self._on_bug = on_bug
        self._nodes: dict[int, NodeConnection] = {}
        self._listeners: list[ConnectionListener] = []

    # Nodes.

    def listen(self, listener: ConnectionListener) -> None:
        """Add a listener."""
        self._listeners.append(listener)

    def update_nodes(self, nodes: Mapping[int, Node]) -> None:
        """Set the cluster's nodes, and drop the others. Connections to coordinators stay."""
        for node in nodes.values():
            name = "bootstrap server" if node.id < 0 else f"broker {node.id}"
            self._add_or_move(node.id, name, node.host, node.port)
        for node_id, connection in list(self._nodes.items()):
            if node_id not in nodes and not is_coordinator(node_id):
                connection.leave()

    def coordinator(self, node: Node) -> int:
        """Add a connection of its own to a coordinator; return the id to send to."""
        node_id = COORDINATOR_BASE + node.id
        self._add_or_move(node_id, f"coordinator, broker {node.id}", node.host, node.port)
        return node_id

    def _add_or_move(self, node_id: int, name: str, host: str, port: int) -> None:
        known = self._nodes.get(node_id)
        if known is None:
            self._nodes[node_id] = NodeConnection(self, node_id, name, host, port)
        else:
            known.leaving = False
            if (known.host, known.port) != (host, port):
                known.move(host, port, now=self._leave_old_address)

    @property
    def node_ids(self) -> list[int]:
        """The ids of the cluster's nodes, without coordinators and nodes that leave."""
        return [
            node_id
            for node_id, connection in self._nodes.items()
            if not connection.leaving and not is_coordinator(node_id)
        ]

    def node_metrics(self, node_id: int) -> NodeMetrics | None:
        """Return the metrics of a node; None if it is not part of the cluster."""
        connection = self._nodes.get(node_id)
        return None if connection is None else connection.metrics

    @property
    def metrics_by_node(self) -> dict[int, NodeMetrics]:
        """The metrics of the present nodes by id, with those of coordinators. Any thread."""
        return {each.node_id: each.metrics for each in list(self._nodes.values())}

    # Requests.

    def send(
        self,
        node_id: int,
        request: Any,
        handler: RequestHandler,
        *,
        timeout_ms: int | None = None,
        expects_response: bool = True,
        first: bool = False,
    ) -> ClientRequest:
        """Send a request (or a `RequestBuilder`) as soon as the connection allows.

        `timeout_ms`, by default the request timeout, limits the time until it is sent, and again
        the time until the response. `first`: it leaves before all others that wait for the node.
        """
        if timeout_ms is None:
            timeout_ms = self.request_timeout_ms
        call = ClientRequest(
            node_id, request, handler, self.timer.now_ms, timeout_ms, expects_response
        )
        connection = self._nodes.get(node_id)
        if self.closed:
            self.fail_soon(call, ClientClosed("the client is closed"))
        elif connection is None:
            self.fail_soon(call, Disconnected(f"broker {node_id} is not part of the cluster"))
        else:
            connection.send(call, first)
        return call

    def ready(self, node_id: int) -> bool:
        """True if a request to the node would leave at once; if not, connect or wait.

        Listeners get `node_ready` or `node_disconnected` later. For an unknown node this returns
        False, and there is no event.
        """
        connection = self._nodes.get(node_id)
        if connection is None or self.closed:
            return False
        if connection.can_send():
            return True
        connection.ready_requested = True
        connection.connect_or_wait()
        return False

    def is_ready(self, node_id: int) -> bool:
        """True if a request to the node would leave at once."""
        connection = self._nodes.get(node_id)
        return connection is not None and connection.can_send()

    def versions(self, node_id: int) -> NodeApiVersions | None:
        """Return the versions that the node supports; None while it is not connected."""
        connection = self._nodes.get(node_id)
        return connection.versions if connection is not None and connection.ready else None

    def least_loaded_node(self) -> int | None:
        """Return the best node for a request that any node can answer; None while all are in
        back-off.

        That is the ready node with the fewest requests, else a node that is being connected, else
        the one whose last attempt is oldest.
        """
        ids = self.node_ids
        now_ms = self.timer.now_ms
        offset = self.env.random.getrandbits(31) % len(ids) if ids else 0
        best: tuple[int, int] | None = None
        found: int | None = None
        for index in range(len(ids)):
            node_id = ids[(offset + index) % len(ids)]
            rank = self._rank(node_id, now_ms)
            if rank is not None and (best is None or rank < best):
                best, found = rank, node_id
        return found

    def other_node(self, node_id: int | None) -> int | None:
        """Return another node that most likely answers at once; None if there is none.

        That is a ready node that owes no answer, else one whose last connection did not fail.
        """
        now_ms = self.timer.now_ms
        unproven: int | None = None
        for other in self.node_ids:
            if other == node_id:
                continue
            rank = self._rank(other, now_ms)
            if rank == (0, 0):
                return other
            if rank is not None and rank[0] > 1 and not self.states.has_failed(other):
                unproven = other
        return unproven

    def _rank(self, node_id: int, now_ms: int) -> tuple[int, int] | None:
        """Return the rank of a node, where less is better; None: not now."""
        states = self.states
        if states.state(node_id) == READY:
            delay_ms = states.throttle_delay_ms(node_id, now_ms)
            if delay_ms:
                return None
            return 0, self.in_flight.count(node_id) + len(self._nodes[node_id].pending)
        if states.can_connect(node_id, now_ms):
            attempted_ms = states.attempted_ms(node_id)
            return 2, -1 if attempted_ms == NEVER_TRIED else attempted_ms
        return None if states.is_disconnected(node_id) else (1, 0)

    def connection_delay_ms(self, node_id: int) -> int:
        """Return the ms until the node may be connected, or its throttling ends; 0 if neither
        waits."""
        now_ms = self.timer.now_ms
        delay_ms = self.states.connection_delay_ms(node_id, now_ms)
        return delay_ms or self.states.throttle_delay_ms(node_id, now_ms)

    def api_versions_request(self, node_id: int) -> ApiVersionsRequest:
        """Return the first request of a new connection."""
        known = self.cluster_id is not None and node_id >= 0
        broker_id = node_id - COORDINATOR_BASE if is_coordinator(node_id) else node_id
        return ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME,
            client_software_version=VERSION,
            cluster_id=self.cluster_id if known else None,
            node_id=broker_id if known else -1,
        )

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection of a node. Its requests fail and its back-off begins."""
        connection = self._nodes.get(node_id)
        if connection is not None:
            connection.disconnect(f"{connection}: {reason}")

    def close(self) -> None:
        """Close all connections and fail all requests, also later ones."""
        if self.closed:
            return
        self.closed = True
        error = ClientClosed("the client was closed before the answer came")
        for connection in list(self._nodes.values()):
            connection.abandon(error)

    # For the connections.

    def finish(self, call: ClientRequest, response: Any, error: KafkaError | None) -> None:
        """End a request. An exception of its handler is reported as a bug."""
        try:
            call.finish(response, error)
        except Exception as bug:
            self._report_bug(f"handling the end of {call.request!r}", bug)

    def fail_soon(self, call: ClientRequest, error: KafkaError) -> None:
        """End an unsent request after the current event."""
        self.env.call_soon(lambda: self.finish(call, None, error))

    def features_seen(self, versions: NodeApiVersions) -> None:
        """Take over the features that a node knows, if they are newer."""
        if versions.features_epoch > self.features_epoch:
            self.features_epoch = versions.features_epoch
            self.features = versions.features

    def connection_ready(self, connection: NodeConnection) -> None:
        connection.ready_requested = False
        for listener in self._listeners:
            try:
                listener.node_ready(connection.node_id)
            except Exception as bug:
                self._report_bug(f"reporting that {connection} is ready", bug)

    def connection_lost(self, connection: NodeConnection, error: KafkaError) -> None:
        log.debug("%s", error)
        for listener in self._listeners:
            try:
                listener.node_disconnected(connection.node_id, error)
            except Exception as bug:
                self._report_bug(f"reporting that {connection} is lost", bug)
        if connection.leaving:
            connection.leave()

    def drop(self, connection: NodeConnection) -> None:
        if self._nodes.get(connection.node_id) is connection:
            del self._nodes[connection.node_id]
            self.states.forget(connection.node_id)
            connection.abandon(Disconnected(f"{connection} left the cluster"))

    def rebootstrap_required(self) -> None:
        for listener in self._listeners:
            listener.rebootstrap_required()

    def _report_bug(self, where: str, error: Exception) -> None:
        self.bugs += 1
        log.error("a bug while %s", where, exc_info=error)
        if self._on_bug is not None:
            self._on_bug(where, error)


def is_coordinator(node_id: int) -> bool:
    """True for an id that `NetworkClient.coordinator` returned."""
    return node_id >= COORDINATOR_BASE
