"""MetadataUpdater: keeps `Metadata` up to date by sending Metadata requests.

    due ─► least loaded node ─► MetadataRequest ─┬─ answered: image, nodes of the client ─► next due
     ▲          │ none: all are in back-off      └─ failed ─► back-off
     │          ▼
     └── the bootstrap servers besides (KIP-899), or wait for a back-off to end

At most one request is in flight. It leaves before all others that wait for the same node. A lost
connection is a reason to update: the node may have left. If the last answers changed nothing and an
update is wanted again, another node is asked: a broker that is cut off from the cluster goes on
naming itself as a leader.
Bootstrap servers are dropped as soon as the cluster has named its nodes.

While no known node can be connected, the updater asks the bootstrap servers too, and keeps the
image, which is most likely still true. It forgets the image and uses only the bootstrap servers
when a node requires that (KIP-1102, KIP-1242), and when there was no update for
`metadata.recovery.rebootstrap.trigger.ms`. It does neither with `metadata.recovery.strategy=none`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from odradek.client.errors import Disconnected, KafkaError, error_for
from odradek.client.metadata.metadata import Metadata
from odradek.config.client import ClientConfig
from odradek.model.errors import ErrorCode
from odradek.model.node import Node
from odradek.network_client.alarm import Alarm
from odradek.network_client.api_versions import RequestBuilder
from odradek.network_client.errors import ADVICE_MARK
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import ConnectionListener, NetworkClient
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.timing.timer import SystemTimer

log = logging.getLogger(__name__)

AUTO_CREATION_VERSION = 4
"""In earlier versions the request cannot forbid the creation of topics."""

WARNING_MS = 30_000
"""How often a lasting failure is logged."""


class MetadataUpdater(ConnectionListener):
    """Updates the metadata of one client, from `start` to `close`."""

    def __init__(
        self,
        timer: SystemTimer,
        config: ClientConfig,
        client: NetworkClient,
        metadata: Metadata,
        bootstrap: Sequence[tuple[str, int]],
        allow_auto_topic_creation: bool,
    ) -> None:
        self._timer = timer
        self._client = client
        self._metadata = metadata
        self._bootstrap = {
            -1 - index: Node(-1 - index, host, port) for index, (host, port) in enumerate(bootstrap)
        }
        self._may_rebootstrap = config.metadata_recovery_strategy == "rebootstrap"
        self._trigger_ms = config.metadata_recovery_rebootstrap_trigger_ms
        self._no_node_pause_ms = max(1, config.reconnect_backoff_ms)
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._alarm = Alarm(timer, self._due)
        self._in_progress = False
        self._uses_bootstrap = True
        self._asked: int | None = None
        self._trying_since_ms: int | None = None
        self._warned_ms: int | None = None
        self._closed = False

    def start(self) -> None:
        """Start with the bootstrap servers."""
        self._client.listen(self)
        self._client.update_nodes(self._bootstrap)
        self._metadata.on_request = self._schedule
        self._metadata.on_nodes = self._nodes_named
        self._metadata.request_update()

    def _nodes_named(self, nodes: Mapping[int, Node]) -> None:
        """Make nodes known that a response named beside a new leader, so that it gets requests."""
        if self._uses_bootstrap:
            nodes = {**nodes, **self._bootstrap}
        self._client.update_nodes(nodes)

    def close(self) -> None:
        self._closed = True
        self._alarm.cancel()

    def _schedule(self) -> None:
        """Set the alarm for the next update, unless a request is in flight: its end does that."""
        if not self._in_progress and not self._closed and self._metadata.fatal is None:
            self._alarm.set_for(self._timer.now_ms + self._metadata.time_to_next_update_ms())

    def _due(self) -> None:
        if self._in_progress or self._closed or self._metadata.fatal is not None:
            return
        now_ms = self._timer.now_ms
        wait_ms = self._metadata.time_to_next_update_ms()
        if wait_ms > 0:
            self._alarm.set_for(now_ms + wait_ms)
            return
        if self._trying_since_ms is None:
            self._trying_since_ms = now_ms
        elif self._trigger_ms <= now_ms - self._trying_since_ms:
            self._rebootstrap("no metadata for metadata.recovery.rebootstrap.trigger.ms")
        node_id = None
        if self._metadata.needs_other_news:
            node_id = self._client.other_node(self._asked)
        if node_id is None:
            node_id = self._client.least_loaded_node()
        if node_id is None and self._may_rebootstrap and not self._uses_bootstrap:
            self._uses_bootstrap = True
            self._client.update_nodes({**self._metadata.image.nodes, **self._bootstrap})
            node_id = self._client.least_loaded_node()
        if node_id is None:
            self._alarm.set_for(now_ms + self._no_node_pause_ms)
        else:
            self._asked = node_id
            self._send_request(node_id)

    def _send_request(self, node_id: int) -> None:
        names, token = self._metadata.topics_to_request()
        self._in_progress = True
        request = RequestBuilder(MetadataRequest, lambda version: self._request(names, version))
        self._client.send(node_id, request, lambda call: self._ended(call, token), first=True)

    def _request(self, names: list[str] | None, version: int) -> MetadataRequest:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        allow = self._allow_auto_topic_creation or version < AUTO_CREATION_VERSION
        return MetadataRequest(topics=topics, allow_auto_topic_creation=allow)

    def _ended(self, call: ClientRequest, token: int) -> None:
        self._in_progress = False
        if self._closed:
            return
        error = call.error
        if error is None:
            error = self._handle_response(call.response, call.version, token)
        if error is not None:
            self._metadata.failed(error)
            self._warn(error)
        self._schedule()

    def _handle_response(
        self, response: MetadataResponse, version: int, token: int
    ) -> KafkaError | None:
        """Take over a response; return its error, if any."""
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self.rebootstrap_required()
            return error_for(response.error_code, "asking for metadata")
        if response.error_code:
            return error_for(response.error_code, "asking for metadata")
        if not response.brokers:
            return Disconnected("the cluster has no brokers yet")
        self._metadata.updated(response, version, token)
        if self._metadata.fatal is None:
            self._trying_since_ms = self._warned_ms = None
            self._uses_bootstrap = False
            self._client.cluster_id = self._metadata.image.cluster_id
            self._client.update_nodes(self._metadata.image.nodes)
        return None

    def _warn(self, error: KafkaError) -> None:
        now_ms = self._timer.now_ms
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_MS:
            self._warned_ms = now_ms
            what, mark, advice = str(error).partition(ADVICE_MARK)
            log.warning(
                "cannot get metadata of the cluster: %s; retrying%s",
                what.rstrip("."),
                mark + advice,
                extra={"about": error},
            )

    def _rebootstrap(self, reason: str) -> None:
        self._trying_since_ms = self._timer.now_ms
        if self._may_rebootstrap:
            log.info("starting again from the bootstrap servers: %s", reason)
            self._uses_bootstrap = True
            self._client.cluster_id = None
            self._client.update_nodes(self._bootstrap)
            self._metadata.rebootstrap()

    # ConnectionListener.

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        self._metadata.request_update()

    def rebootstrap_required(self) -> None:
        self._rebootstrap("a broker requires it")
