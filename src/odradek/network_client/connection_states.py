"""ClusterConnectionStates: the state of the connection to each node, and when to try again.

                      connecting             checking_api_versions           ready
    DISCONNECTED ──────────────────► CONNECTING ──────────────► CHECKING ──────────────► READY
       ▲     not before the back-off     │ no longer than the      │                       │
       │     has passed                  │ setup timeout           │                       │
       └────────────── disconnected ◄────┴─────────────────────────┴───────────────────────┘

- The wait before a new attempt grows from `reconnect.backoff.ms` to its maximum with each failure,
  and starts again after a connection was ready.
- The time limit of an attempt grows from `socket.connection.setup.timeout.ms` likewise, but only
  after attempts that never connected: a slow network needs time, a broken one does not.
- A node that throttles this client is ready, but gets no request until the time is over (KIP-219).
- A node that moved to another address starts as if it were new.

There are only decisions here, no connections; time is an argument.
"""

from __future__ import annotations

from odradek.network_client.backoff import ExponentialBackoff

DISCONNECTED = 0
CONNECTING = 1
CHECKING_API_VERSIONS = 2
READY = 3

NEVER_TRIED = -1


class NodeConnectionState:
    """One node's state."""

    __slots__ = (
        "address",
        "attempted_ms",
        "failed_attempts",
        "failed_connects",
        "retry_ms",
        "setup_timeout_ms",
        "state",
        "throttled_until_ms",
    )

    def __init__(self, address: tuple[str, int], setup_timeout_ms: int) -> None:
        self.state = DISCONNECTED
        self.address = address
        self.attempted_ms = NEVER_TRIED
        """When the last attempt began or the connection was lost."""
        self.retry_ms = 0
        """No attempt is made before this time."""
        self.failed_attempts = 0
        self.failed_connects = 0
        self.setup_timeout_ms = setup_timeout_ms
        self.throttled_until_ms = 0


class ClusterConnectionStates:
    """The states of all nodes by id."""

    def __init__(self, reconnect: ExponentialBackoff, setup: ExponentialBackoff) -> None:
        self.nodes: dict[int, NodeConnectionState] = {}
        self._reconnect = reconnect
        self._setup = setup

    def state(self, node_id: int) -> int:
        """Return one of the constants above; an unknown node is disconnected."""
        node = self.nodes.get(node_id)
        return DISCONNECTED if node is None else node.state

    def is_disconnected(self, node_id: int) -> bool:
        return self.state(node_id) == DISCONNECTED

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """True if connected, versions are known, and the node does not throttle."""
        node = self.nodes.get(node_id)
        return node is not None and node.state == READY and node.throttled_until_ms <= now_ms

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """True if the node is disconnected and its back-off is over."""
        node = self.nodes.get(node_id)
        return node is None or (node.state == DISCONNECTED and node.retry_ms <= now_ms)

    def connection_delay_ms(self, node_id: int, now_ms: int) -> int:
        """Return the ms until a new attempt is due; 0 if it is due, or if there is a connection."""
        node = self.nodes.get(node_id)
        if node is None or node.state != DISCONNECTED:
            return 0
        return max(0, node.retry_ms - now_ms)

    def throttle_delay_ms(self, node_id: int, now_ms: int) -> int:
        """Return the ms until the node's throttling ends."""
        node = self.nodes.get(node_id)
        return 0 if node is None else max(0, node.throttled_until_ms - now_ms)

    def has_failed(self, node_id: int) -> bool:
        """True if the last connection or attempt failed."""
        node = self.nodes.get(node_id)
        return node is not None and node.failed_attempts > 0

    def attempted_ms(self, node_id: int) -> int:
        """Return when it was last tried or lost; `NEVER_TRIED` if never."""
        node = self.nodes.get(node_id)
        return NEVER_TRIED if node is None else node.attempted_ms

    def connecting(self, node_id: int, address: tuple[str, int], now_ms: int) -> int:
        """Begin an attempt; return its time limit in ms."""
        node = self.nodes.get(node_id)
        if node is None or node.address != address:
            node = NodeConnectionState(address, self._setup.backoff_ms(0))
            self.nodes[node_id] = node
        node.state = CONNECTING
        node.attempted_ms = now_ms
        return node.setup_timeout_ms

    def checking_api_versions(self, node_id: int) -> None:
        """Note that the transport is connected and versions are being negotiated."""
        self.nodes[node_id].state = CHECKING_API_VERSIONS

    def ready(self, node_id: int) -> None:
        """Note that requests may be sent, and forget earlier failures."""
        node = self.nodes[node_id]
        node.state = READY
        node.failed_attempts = node.failed_connects = 0
        node.setup_timeout_ms = self._setup.backoff_ms(0)

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """Note that a connection or an attempt failed; waits get longer."""
        node = self.nodes[node_id]
        if node.state == CONNECTING:
            node.failed_connects += 1
            node.setup_timeout_ms = self._setup.backoff_ms(node.failed_connects)
        else:
            node.failed_connects = 0
            node.setup_timeout_ms = self._setup.backoff_ms(0)
        node.state = DISCONNECTED
        node.attempted_ms = now_ms
        node.retry_ms = now_ms + self._reconnect.backoff_ms(node.failed_attempts)
        node.failed_attempts += 1
        node.throttled_until_ms = 0

    def closed(self, node_id: int) -> None:
        """Note that the client closed an idle connection. It may be opened again at once."""
        node = self.nodes[node_id]
        node.state = DISCONNECTED
        node.throttled_until_ms = 0

    def throttle(self, node_id: int, until_ms: int) -> None:
        """Send nothing to the node until then; the latest time counts."""
        node = self.nodes[node_id]
        node.throttled_until_ms = max(node.throttled_until_ms, until_ms)

    def forget(self, node_id: int) -> None:
        """Forget a node that left the cluster."""
        self.nodes.pop(node_id, None)
