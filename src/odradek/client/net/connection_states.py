"""ClusterConnectionStates: how the connection to each node fares, and when to try again.

                      connecting             checking_api_versions           ready
    DISCONNECTED ──────────────────► CONNECTING ──────────────► CHECKING ──────────────► READY
       ▲     not before the back-off     │ no longer than the      │                       │
       │     has passed                  │ setup timeout           │                       │
       └────────────── disconnected ◄────┴─────────────────────────┴───────────────────────┘

- The wait before a new attempt grows from `reconnect.backoff.ms` to its maximum with each failure,
  and starts again when a connection was ready.
- How long an attempt may take grows from `socket.connection.setup.timeout.ms` likewise, but only
  with attempts that never connected: a slow network needs time, a broken one needs none.
- A node that throttles this client is ready, but is sent nothing until the time is over (KIP-219).
- A node that moved to another address starts as if it were new.

Only decisions, no connections; time is an argument.
"""

from __future__ import annotations

from odradek.client.net.backoff import ExponentialBackoff

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
        """When the last attempt began, or the connection was lost."""
        self.retry_ms = 0
        """Not to be connected to before this."""
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
        """One of the constants above; a node never heard of is disconnected."""
        node = self.nodes.get(node_id)
        return DISCONNECTED if node is None else node.state

    def is_disconnected(self, node_id: int) -> bool:
        return self.state(node_id) == DISCONNECTED

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Connected, versions known, and not throttled."""
        node = self.nodes.get(node_id)
        return node is not None and node.state == READY and node.throttled_until_ms <= now_ms

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Whether a new attempt is due: disconnected, and the back-off is over."""
        node = self.nodes.get(node_id)
        return node is None or (node.state == DISCONNECTED and node.retry_ms <= now_ms)

    def connection_delay_ms(self, node_id: int, now_ms: int) -> int:
        """How long until a new attempt is due; 0 if it is, or if there is a connection."""
        node = self.nodes.get(node_id)
        if node is None or node.state != DISCONNECTED:
            return 0
        return max(0, node.retry_ms - now_ms)

    def throttle_delay_ms(self, node_id: int, now_ms: int) -> int:
        """How long the node wants to be left alone."""
        node = self.nodes.get(node_id)
        return 0 if node is None else max(0, node.throttled_until_ms - now_ms)

    def attempted_ms(self, node_id: int) -> int:
        """When it was last tried or lost; `NEVER_TRIED` if never."""
        node = self.nodes.get(node_id)
        return NEVER_TRIED if node is None else node.attempted_ms

    def connecting(self, node_id: int, address: tuple[str, int], now_ms: int) -> int:
        """An attempt begins; how long it may take, in milliseconds."""
        node = self.nodes.get(node_id)
        if node is None or node.address != address:
            node = NodeConnectionState(address, self._setup.backoff_ms(0))
            self.nodes[node_id] = node
        node.state = CONNECTING
        node.attempted_ms = now_ms
        return node.setup_timeout_ms

    def checking_api_versions(self, node_id: int) -> None:
        """There is a connection; the node is being asked what it understands."""
        self.nodes[node_id].state = CHECKING_API_VERSIONS

    def ready(self, node_id: int) -> None:
        """Requests may be sent. Earlier failures are forgotten."""
        node = self.nodes[node_id]
        node.state = READY
        node.failed_attempts = node.failed_connects = 0
        node.setup_timeout_ms = self._setup.backoff_ms(0)

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """The connection is gone, or never was; waits get longer."""
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
        """This side closed an idle connection: no failure, it may be opened again at once."""
        node = self.nodes[node_id]
        node.state = DISCONNECTED
        node.throttled_until_ms = 0

    def throttle(self, node_id: int, until_ms: int) -> None:
        """The node wants to be left alone until then; the latest such wish counts."""
        node = self.nodes[node_id]
        node.throttled_until_ms = max(node.throttled_until_ms, until_ms)

    def forget(self, node_id: int) -> None:
        """The node is no longer part of the cluster."""
        self.nodes.pop(node_id, None)
