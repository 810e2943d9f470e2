"""Handshake: from an address to a usable connection, by connecting and negotiating versions.

    connect ─► connected ─► ApiVersions ─► answered ───────────► handshake_done(channel, versions)
       │                        │  ▲           │
       │                        │  └── refused ┘  (see `api_versions`)
       └── setup timeout ───────┴── request timeout, closed, violation ─► handshake_failed(reason)

It ends with exactly one of the two, unless it is stopped before. A `NodeConnection` makes one for
each attempt. Security protocols belong here, between connecting and negotiating.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from odradek.model.env import SYSTEM_BUFFERS, Network, SocketBuffers, Transport
from odradek.model.errors import ErrorCode, ProtocolError, error_code
from odradek.network_client.api_versions import (
    Codec,
    NodeApiVersions,
    decode_api_versions,
    next_version,
)
from odradek.network_client.channel import Channel
from odradek.network_client.network_metrics import NodeMetrics
from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.frame import decode_response_header, request_parts
from odradek.timing.timer import SystemTimer
from odradek.timing.timer_task import TimerTask


class HandshakeOwner(Protocol):
    """The `NodeConnection` that gets the result."""

    @property
    def metrics(self) -> NodeMetrics:
        """What counts the traffic with the node."""
        ...

    def connected(self) -> None:
        """The transport is connected; versions are not negotiated yet."""
        ...

    def handshake_done(self, channel: Channel, versions: NodeApiVersions, version: int) -> None:
        """The connection is usable. `version` is the version of ApiVersions that was answered."""
        ...

    def handshake_failed(self, reason: str, code: ErrorCode) -> None:
        """The attempt failed. `code` is the node's error, or NONE."""
        ...


class Handshake:
    """One attempt. All times in milliseconds."""

    def __init__(
        self,
        owner: HandshakeOwner,
        network: Network,
        timer: SystemTimer,
        client_id: str,
        request: ApiVersionsRequest,
        version: int,
        request_timeout_ms: int,
        max_response_bytes: int,
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> None:
        self._owner = owner
        self._network = network
        self._timer = timer
        self._client_id = client_id
        self._request = request
        self._version = version
        self._request_timeout_ms = request_timeout_ms
        self._max_response_bytes = max_response_bytes
        self._buffers = buffers
        self._channel: Channel | None = None
        self._give_up: Callable[[], None] | None = None
        self._deadline: TimerTask | None = None
        self._correlation_id = 0
        self._over = False

    def begin(self, host: str, port: int, setup_timeout_ms: int) -> None:
        """Connect. The owner is not called before this returns."""
        text = f"no connection within {setup_timeout_ms} ms"
        self._deadline = self._timer.call_later(setup_timeout_ms, lambda: self._fail(text))
        self._give_up = self._network.connect(
            host,
            port,
            self._connected,
            lambda error: self._fail(error.strerror or str(error)),
            self._buffers,
        )

    def stop(self) -> None:
        """Give up without calling the owner."""
        self._over = True
        if self._give_up is not None:
            self._give_up()
        if self._deadline is not None:
            self._deadline.cancel()
        if self._channel is not None:
            self._channel.close()

    def _connected(self, transport: Transport) -> None:
        self._give_up = None
        assert self._deadline is not None
        self._deadline.cancel()
        text = f"no answer to ApiVersions within {self._request_timeout_ms} ms"
        self._deadline = self._timer.call_later(self._request_timeout_ms, lambda: self._fail(text))
        self._owner.connected()
        self._channel = Channel(
            self._network,
            transport,
            self._received,
            self._fail,
            self._owner.metrics,
            self._max_response_bytes,
        )
        self._send_request()

    def _send_request(self) -> None:
        assert self._channel is not None
        codec = Codec(ApiVersionsRequest, self._version)
        body = codec.write(self._request)
        size = self._channel.send(
            request_parts(codec.api_key, self._version, self._correlation_id, self._client_id, body)
        )
        self._owner.metrics.request_sent(size, self._timer.now_ms)

    def _received(self, frame: bytes) -> None:
        self._owner.metrics.response_received(self._timer.now_ms)
        try:
            correlation_id, _ = decode_response_header(frame, False)
            if correlation_id != self._correlation_id:
                raise ProtocolError(
                    f"it answers request {correlation_id}, not {self._correlation_id}"
                )
            answer = decode_api_versions(frame, self._version)
        except ProtocolError as violation:
            self._fail(f"its answer to ApiVersions cannot be read: {violation}")
            return
        code = error_code(answer.error_code)
        lower = next_version(answer, self._version)
        if code == ErrorCode.NONE:
            self._succeed(
                NodeApiVersions(
                    answer.api_keys, answer.finalized_features, answer.finalized_features_epoch
                )
            )
        elif lower is not None and code in (
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.INVALID_REQUEST,
        ):
            self._version = lower
            self._correlation_id += 1
            self._send_request()
        else:
            self._fail(f"it refused ApiVersions v{self._version}: {code.name}", code)

    def _succeed(self, versions: NodeApiVersions) -> None:
        assert self._channel is not None and self._deadline is not None
        self._deadline.cancel()
        channel, self._channel = self._channel, None
        self._over = True
        self._owner.handshake_done(channel, versions, self._version)

    def _fail(self, reason: str, code: ErrorCode = ErrorCode.NONE) -> None:
        if not self._over:
            self.stop()
            self._owner.handshake_failed(reason, code)
