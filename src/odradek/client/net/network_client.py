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

from odradek import __version__
from odradek.client.errors import ClientClosed, Disconnected, KafkaError
from odradek.client.metadata.cluster_image import Node
from odradek.client.net.api_versions import NEWEST, NodeApiVersions
from odradek.client.net.backoff import ExponentialBackoff
from odradek.client.net.channel import MAX_RESPONSE_BYTES
from odradek.client.net.connection_states import NEVER_TRIED, READY, ClusterConnectionStates
from odradek.client.net.in_flight_requests import ClientRequest, InFlightRequests, RequestHandler
from odradek.client.net.node_connection import NodeConnection
from odradek.config.client import ClientConfig
from odradek.model.env import Env
from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.timing.timer import SystemTimer


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionListener:
    """Told about connections, never from within a call to the client."""

    def node_ready(self, node_id: int) -> None:
        """Requests to the node leave at once now (again)."""

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        """It could not be connected to, or the connection was lost; its requests have failed."""

    def rebootstrap_required(self) -> None:
        """A node says that it is not of the cluster, or not the node, it was taken for."""


__all__ = ["ConnectionListener", "NetworkClient"]

log = logging.getLogger(__name__)

SOFTWARE_NAME = "odradek-python"
COORDINATOR_BASE = 2**32
"""Above all ids of brokers, which have 32 bits."""


class NetworkClient:
    """All connections of one client."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        config: ClientConfig,
        *,
        max_in_flight: int = 100,
        on_bug: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self.env = env
        self.timer = timer
        self.client_id = config.client_id
        self.request_timeout_ms = config.request_timeout_ms
        self.max_idle_ms = config.connections_max_idle_ms
        self.max_response_bytes = MAX_RESPONSE_BYTES
        self.states = ClusterConnectionStates(
            ExponentialBackoff(
                config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, env.random
            ),
            ExponentialBackoff(
                config.socket_connection_setup_timeout_ms,
                config.socket_connection_setup_timeout_max_ms,
                env.random,
            ),
        )
        self.in_flight = InFlightRequests(max_in_flight)
        self.api_versions_version = NEWEST
        """The version of ApiVersions that was last answered: where negotiation begins."""
        self.cluster_id: str | None = None
        """What nodes are told that they are taken for; None while unknown."""
        self.sent = 0
        """Requests sent so far; also the last correlation id."""
        self.bugs = 0
        self.closed = False
        self._on_bug = on_bug
        self._nodes: dict[int, NodeConnection] = {}
        self._listeners: list[ConnectionListener] = []

    # Nodes.

    def listen(self, listener: ConnectionListener) -> None:
        """Tell it about connections from now on."""
        self._listeners.append(listener)

    def update_nodes(self, nodes: Mapping[int, Node]) -> None:
        """These are the cluster's nodes now; coordinators are none of its business."""
        for node in nodes.values():
            name = "bootstrap server" if node.id < 0 else f"broker {node.id}"
            self._add_or_move(node.id, name, node.host, node.port)
        for node_id, connection in list(self._nodes.items()):
            if node_id not in nodes and not is_coordinator(node_id):
                connection.leave()

    def coordinator(self, node: Node) -> int:
        """A connection of its own to a node that coordinates something; the id to send to."""
        node_id = COORDINATOR_BASE + node.id
        self._add_or_move(node_id, f"coordinator, broker {node.id}", node.host, node.port)
        return node_id

    def _add_or_move(self, node_id: int, name: str, host: str, port: int) -> None:
        known = self._nodes.get(node_id)
        if known is None:
            self._nodes[node_id] = NodeConnection(self, node_id, name, host, port)
        else:
            # A node that moved is met at its new address when the connection is next opened.
            known.host, known.port, known.leaving = host, port, False

    @property
    def node_ids(self) -> list[int]:
        """The cluster's nodes, without coordinators and those that leave."""
        return [
            node_id
            for node_id, connection in self._nodes.items()
            if not connection.leaving and not is_coordinator(node_id)
        ]

    # Requests.

    def send(
        self,
        node_id: int,
        request: Any,
        handler: RequestHandler,
        *,
        timeout_ms: int | None = None,
        expects_response: bool = True,
    ) -> ClientRequest:
        """Send a request (or a `RequestBuilder`), when the connection is there and its turn comes.

        `timeout_ms`, by default the request timeout, is how long it may wait to be sent, and then
        again how long the answer may take.
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
            connection.send(call)
        return call

    def ready(self, node_id: int) -> bool:
        """Whether a request to the node would leave at once; if not, see to it that it will.

        `node_ready` or `node_disconnected` is told when that has been seen to. False, and nothing
        is told, for a node that is not known.
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
        """Whether a request to the node would leave at once."""
        connection = self._nodes.get(node_id)
        return connection is not None and connection.can_send()

    def versions(self, node_id: int) -> NodeApiVersions | None:
        """What the node understands; None while it is not connected."""
        connection = self._nodes.get(node_id)
        return connection.versions if connection is not None and connection.ready else None

    def least_loaded_node(self) -> int | None:
        """A node to ask what any node can answer: the ready one with the least in flight, else one
        that is being connected to, else the one that was tried longest ago; None while all are
        in back-off.
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

    def _rank(self, node_id: int, now_ms: int) -> tuple[int, int] | None:
        """How well the node would do, the less the better; None: not now."""
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
        """How long until the node may be connected to again, or stops throttling; 0 if it may."""
        now_ms = self.timer.now_ms
        delay_ms = self.states.connection_delay_ms(node_id, now_ms)
        return delay_ms or self.states.throttle_delay_ms(node_id, now_ms)

    def api_versions_request(self, node_id: int) -> ApiVersionsRequest:
        """What a new connection says first."""
        known = self.cluster_id is not None and node_id >= 0
        broker_id = node_id - COORDINATOR_BASE if is_coordinator(node_id) else node_id
        return ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME,
            client_software_version=__version__,
            cluster_id=self.cluster_id if known else None,
            node_id=broker_id if known else -1,
        )

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the connection of a node; its requests fail, its back-off begins."""
        connection = self._nodes.get(node_id)
        if connection is not None:
            connection.disconnect(f"{connection}: {reason}")

    def close(self) -> None:
        """Close all connections; what is not answered fails. Nothing can be sent any more."""
        if self.closed:
            return
        self.closed = True
        error = ClientClosed("the client was closed before the answer came")
        for connection in list(self._nodes.values()):
            connection.abandon(error)

    # For the connections.

    def finish(self, call: ClientRequest, response: Any, error: KafkaError | None) -> None:
        """End a request, and survive its handler."""
        try:
            call.finish(response, error)
        except Exception as bug:
            self._report_bug(f"handling the end of {call.request!r}", bug)

    def fail_soon(self, call: ClientRequest, error: KafkaError) -> None:
        """End a request that was not sent."""
        self.env.call_soon(lambda: self.finish(call, None, error))

    def connection_ready(self, connection: NodeConnection) -> None:
        connection.ready_requested = False
        for listener in self._listeners:
            try:
                listener.node_ready(connection.node_id)
            except Exception as bug:
                self._report_bug(f"telling that {connection} is ready", bug)

    def connection_lost(self, connection: NodeConnection, error: KafkaError) -> None:
        log.debug("%s", error)
        for listener in self._listeners:
            try:
                listener.node_disconnected(connection.node_id, error)
            except Exception as bug:
                self._report_bug(f"telling that {connection} is lost", bug)
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
    """Whether an id is one that `NetworkClient.coordinator` gave."""
    return node_id >= COORDINATOR_BASE
