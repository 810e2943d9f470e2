"""Requests to the nodes of a cluster: one connection per node, opened when needed, versions
negotiated on each.

    send(node, request) ─► Pending ─► receive(pending) ─► response     several may be under way
    call(node, request)  = both

The first exchange on a connection is ApiVersions: each request then travels in the highest version
that both sides know. A node that fails is forgotten and connected to again at its next use, no
sooner than a back-off after its last failure (doubling from `reconnect_backoff_ms` to
`reconnect_backoff_max_ms`).

Nodes are known by id once `update_nodes` was told; bootstrap addresses have the ids -1, -2 … as in
Kafka.

It retries nothing: whether a request may be repeated is known to those who send it (`calls`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from odradek.client.simple.connection import Connection, Disconnected, any_readable
from odradek.model.errors import ErrorCode
from odradek.model.spans import FileSlice
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.compile import decode, encode
from odradek.protocol.frame import request_parts
from odradek.protocol.header import decode_response_header, response_is_flexible
from odradek.protocol.schema import declaration

R = TypeVar("R")
SOFTWARE_NAME = "odradek-python"


class UnsupportedVersion(RuntimeError):
    """The node and this client have no version of an API in common."""


@dataclass(slots=True)
class Node:
    """An address and how it fares."""

    host: str
    port: int
    connection: Connection | None = None
    versions: Mapping[int, tuple[int, int]] | None = None
    failures: int = 0
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class Pending(Generic[R]):
    """A request under way."""

    node_id: int
    connection: Connection
    correlation_id: int
    api_key: int
    version: int
    response_type: type[R]
    deadline: float


class NetworkClient:
    """For one thread. Raises `Disconnected`, `UnsupportedVersion` and `ProtocolError`."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "odradek",
        software_version: str = "0",
        request_timeout_ms: int = 30_000,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1000,
    ) -> None:
        self.client_id = client_id
        self.software_version = software_version
        self.request_timeout_ms = request_timeout_ms
        self.reconnect_backoff_ms = reconnect_backoff_ms
        self.reconnect_backoff_max_ms = reconnect_backoff_max_ms
        self.bootstrap = [Node(*address) for address in parse_addresses(bootstrap_servers)]
        self.nodes: dict[int, Node] = {}
        self.reset_to_bootstrap()

    def reset_to_bootstrap(self) -> None:
        """Forget the cluster's own addresses: for when none of them answers any more."""
        self.update_nodes({})

    def update_nodes(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        """What the cluster says about itself; nodes whose address stays keep their connection."""
        kept: dict[int, Node] = {}
        for node_id, (host, port) in addresses.items():
            known = self.nodes.get(node_id)
            same = known is not None and (known.host, known.port) == (host, port)
            kept[node_id] = known if same and known is not None else Node(host, port)
        if not kept:
            kept = {-1 - index: node for index, node in enumerate(self.bootstrap)}
        for node in self.nodes.values():
            if not any(node is other for other in kept.values()):
                disconnect(node)
        self.nodes = kept

    def any_node(self) -> int:
        """A node to ask what any node can answer: a connected one, else the one that failed least
        recently."""
        return min(
            self.nodes,
            key=lambda i: (self.nodes[i].connection is None, self.nodes[i].not_before, i),
        )

    def send(
        self,
        node_id: int,
        request: Any,
        response_type: type[R],
        *,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Pending[R]:
        """Send `request`; its response is due within `timeout_ms` (default: the request
        timeout)."""
        allowed = self.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + allowed / 1000
        node = self._connected(node_id)
        assert node.connection is not None
        version = self._version(node, request, max_version)
        return self._send(node_id, node.connection, request, version, response_type, deadline)

    def receive(self, pending: Pending[R]) -> R:
        """The response, which must be the oldest one due from its node."""
        try:
            data = pending.connection.receive(pending.correlation_id, pending.deadline)
            flexible = response_is_flexible(pending.api_key, pending.version)
            _, position = decode_response_header(data, flexible)
            return decode(pending.response_type, pending.version, data, position)
        except BaseException:
            # Also on KeyboardInterrupt: half a response may be in the socket.
            self._failed(pending.node_id, pending.connection)
            raise

    def call(
        self,
        node_id: int,
        request: Any,
        response_type: type[R],
        *,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """`send` and `receive`."""
        return self.receive(
            self.send(
                node_id, request, response_type, max_version=max_version, timeout_ms=timeout_ms
            )
        )

    def first_ready(self, pending: Sequence[Pending[Any]], timeout_ms: int) -> bool:
        """Whether a response to any of these has begun to arrive, waiting up to `timeout_ms`."""
        return any_readable([one.connection for one in pending], timeout_ms)

    def abandon(self, pending: Pending[Any]) -> None:
        """The response will not be read: close its connection. The node itself has not failed."""
        pending.connection.close()

    def version_of(self, node_id: int, request_type: type[Any]) -> int:
        """The version in which `request_type` would travel to the node (connects if needed)."""
        return self._version(self._connected(node_id), request_type, None)

    def close(self) -> None:
        for node in [*self.nodes.values(), *self.bootstrap]:
            disconnect(node)

    def _version(self, node: Node, request: Any, max_version: int | None) -> int:
        declared = declaration(request if isinstance(request, type) else type(request))
        low, high = (node.versions or {}).get(declared.api, (0, -1))
        lowest = max(low, declared.versions[0])
        highest = min(high, declared.versions[1])
        if max_version is not None:
            highest = min(highest, max_version)
        if highest < lowest:
            raise UnsupportedVersion(
                f"{node.host}:{node.port} has versions {low} to {high} of API {declared.api}, "
                f"this client {declared.versions[0]} to {declared.versions[1]}"
            )
        return highest

    def _connected(self, node_id: int) -> Node:
        node = self.nodes.get(node_id)
        if node is None:
            raise Disconnected(f"node {node_id} is not known")
        if node.connection is not None and not node.connection.closed:
            return node
        pause = node.not_before - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        try:
            node.connection = Connection(node.host, node.port, timeout_ms=self.request_timeout_ms)
            node.versions = self._negotiate(node_id, node.connection)
        except Exception:
            self._failed(node_id, node.connection)
            raise
        node.failures = 0
        return node

    def _negotiate(self, node_id: int, connection: Connection) -> dict[int, tuple[int, int]]:
        """ApiVersions in our newest version; a broker that does not know it answers in v0 with its
        own newest."""
        version = declaration(ApiVersionsRequest).versions[1]
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=self.software_version
        )
        while True:
            deadline = time.monotonic() + self.request_timeout_ms / 1000
            pending = self._send(
                node_id, connection, request, version, ApiVersionsResponse, deadline
            )
            data = connection.receive(pending.correlation_id, deadline)
            # Header v0 whatever the version; the error code leads all versions of the body.
            _, position = decode_response_header(data, False)
            refused = int.from_bytes(data[position : position + 2], "big", signed=True)
            answer_version = 0 if refused == ErrorCode.UNSUPPORTED_VERSION else version
            answer = decode(ApiVersionsResponse, answer_version, data, position)
            ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
            if answer.error_code == ErrorCode.NONE:
                return ranges
            lower = ranges.get(pending.api_key, (0, 0))[1]
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION or lower >= version:
                raise UnsupportedVersion(
                    f"{connection.address} refused ApiVersions v{version} with {answer.error_code}"
                )
            version = lower

    def _send(
        self,
        node_id: int,
        connection: Connection,
        request: Any,
        version: int,
        response_type: type[R],
        deadline: float,
    ) -> Pending[R]:
        api_key = declaration(type(request)).api
        correlation_id = connection.correlation_id()
        body = encode(request, version)
        parts = request_parts(api_key, version, correlation_id, self.client_id, body)
        try:
            sent = connection.send([p.read() if isinstance(p, FileSlice) else p for p in parts])
        except Disconnected:
            self._failed(node_id, connection)
            raise
        return Pending(node_id, connection, sent, api_key, version, response_type, deadline)

    def _failed(self, node_id: int, connection: Connection | None) -> None:
        """Close, and remember not to come back at once."""
        if connection is not None:
            connection.close()
        node = self.nodes.get(node_id)
        if node is None or (connection is not None and node.connection is not connection):
            return
        node.connection = None
        backoff = min(self.reconnect_backoff_ms << node.failures, self.reconnect_backoff_max_ms)
        node.failures = min(node.failures + 1, 16)
        node.not_before = time.monotonic() + backoff / 1000


def disconnect(node: Node) -> None:
    if node.connection is not None:
        node.connection.close()
        node.connection = None


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port`, IPv6 hosts in brackets. Raises `ValueError`."""
    found = []
    for address in filter(None, (part.strip() for part in text.split(","))):
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{address!r} is not host:port")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not found:
        raise ValueError("no bootstrap address was given")
    return found
