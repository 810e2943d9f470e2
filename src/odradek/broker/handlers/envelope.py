"""Envelope: v0. A request of a client, sent on by another broker (KIP-590).

The active controller handles it as if the client had sent it here, and puts the answer into an
envelope. The errors of the envelope tell the broker that sent it what to do:

| error                             | when                                                         |
|-----------------------------------|--------------------------------------------------------------|
| NOT_CONTROLLER                    | this node is not the active controller, or no longer when    |
|                                   | the request was decided: try another node                    |
| UNSUPPORTED_VERSION               | the request cannot be read or is not served in its version   |
| INVALID_REQUEST                   | no request that is sent on, or no IP address                 |
| PRINCIPAL_DESERIALIZATION_FAILURE | the principal cannot be read                                 |
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.broker.request_metrics import ApiMetrics, error_paths
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode
from odradek.protocol.frame import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    response_is_flexible,
)
from odradek.protocol.principal import decode_principal

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext, RequestExchange
    from odradek.network.connection import Exchange

LENGTH_BYTES = 4


def handle(
    broker: Broker, context: RequestContext, request: EnvelopeRequest
) -> EnvelopeResponse | CallbackResponse:
    if not broker.is_active_controller():
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        decode_principal(request.request_principal or b"")
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        host = str(ipaddress.ip_address(request.client_host_address))
    except ValueError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        header, _ = decode_request_header(request.request_data)
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not is_sent_on(header.api_key):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    inner = EnvelopeExchange(broker, context, header, request.request_data, host)
    try:
        broker.node.sockets.received(cast("Exchange", inner))
    except ProtocolError:
        inner.close_connection("it cannot be read")
    return CALLBACK_RESPONSE


def is_sent_on(key: int) -> bool:
    """True for an API that only the active controller answers."""
    from odradek.broker.apis import APIS  # late: the table imports this module

    api = APIS.get(key)
    return api is not None and api.of_controller


class EnvelopeExchange:
    """The exchange of the request inside: its answer is that to the envelope."""

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        header: RequestHeader,
        frame: bytes,
        host: str,
    ) -> None:
        self.frame = frame
        self.peer = (host, 0)
        self.waiting: object = None
        self._broker = broker
        self._context = context
        self._header = header
        self._outer: RequestExchange = context.exchange
        self.connection = self._outer.connection
        self._controller = broker.active_controller()

    @property
    def answered(self) -> bool:
        return self._outer.answered

    @property
    def abandoned(self) -> Callable[[], None] | None:
        """The callback that completes the request if the broker that sent it on disconnects."""
        return self._outer.abandoned

    @abandoned.setter
    def abandoned(self, abandoned: Callable[[], None] | None) -> None:
        self._outer.abandoned = abandoned

    def respond(self, parts: Sequence[Any]) -> None:
        """Answer the envelope with this answer, unless that says that it was not decided."""
        data = b"".join(parts)[LENGTH_BYTES:]
        if self._broker.active_controller() != self._controller and self._is_refusal(data):
            self._end(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
        else:
            self._end(EnvelopeResponse(response_data=data))

    def no_response(self) -> None:
        """No API that is sent on goes without a response."""
        raise AssertionError(f"key {self._header.api_key} has a response")

    def close_connection(self, reason: str) -> None:
        """Refuse a request that cannot be read: the other broker then disconnects its client."""
        self._end(EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))

    def end_connection(self, reason: str) -> None:
        """Only requests that are answered by any broker end a connection."""
        raise AssertionError(f"key {self._header.api_key} is the controller's")

    def hold(self) -> None:
        self._outer.hold()

    def release(self) -> None:
        self._outer.release()

    def _end(self, response: EnvelopeResponse) -> None:
        self._context.respond(response)

    def _is_refusal(self, data: bytes) -> bool:
        """True if the answer has NOT_CONTROLLER, at any of its places for an error."""
        key, version = self._header.api_key, self._header.api_version
        kind = MESSAGES[key].response
        _, position = decode_response_header(data, response_is_flexible(key, version))
        found = ApiMetrics("inside")
        paths = error_paths(kind)
        if paths is not None:
            paths.count(decode(kind, version, data, position), found)
        return ErrorCode.NOT_CONTROLLER in found.errors
