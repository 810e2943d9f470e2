"""Forwarding: what only the active controller answers is sent on to it as it came (KIP-590).

    a client's frame ─► Envelope(frame, principal, address) ─► ControllerChannel ─► its controller
    the client's answer ◄──────── EnvelopeResponse(frame) ◄───────────┘

The answer inside has the client's correlation id, so it goes to the connection unread, at its place
in the order of the connection's answers. Otherwise, as in Kafka:

| how the call ended                                   | the client                             |
|------------------------------------------------------|----------------------------------------|
| this node has become the active controller           | is answered here                       |
| no controller answered within `TIMEOUT_MS`           | REQUEST_TIMED_OUT                      |
| the controller does not serve this API or version    | is disconnected                        |
| the envelope was refused, which means a broken setup | UNKNOWN_SERVER_ERROR                   |
| the broker stops                                     | is disconnected                        |

An error is answered in the form of the API (`Api.failed`), a long request in parts. Requests that
wait are bounded by their number (`controller_channel`) and by their bytes. A frame of more than
`FRAME_BYTES_MAX` is refused with POLICY_VIOLATION: no metadata record is nearly as large, and a
copy of it would hold the loop.

A broker that is the whole cluster has none: `Broker.forwarding` is None.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from odradek.broker.controller_channel import ControllerCall, ControllerChannel
from odradek.model.errors import ErrorCode, ProtocolError, error_code
from odradek.network_client.api_versions import Codec
from odradek.network_client.errors import RequestTimeout, UnsupportedVersion
from odradek.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.frame import decode_response_header, request_parts
from odradek.protocol.principal import ANONYMOUS, encode_principal
from odradek.protocol.schema import declaration

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.broker.dispatch import Dispatcher

log = logging.getLogger(__name__)
R = TypeVar("R")

TIMEOUT_MS = 60_000
"""Over all attempts; Kafka's."""
FRAME_BYTES_MAX = 8 * 1024 * 1024
WAITING_BYTES_MAX = 64 * 1024 * 1024
UNSPECIFIED = bytes(4)
ANONYMOUS_PRINCIPAL = encode_principal(ANONYMOUS)
OWN_CLIENT_ID = "broker"
LENGTH_BYTES = 4


class Forwarding:
    """The requests of this broker that wait for the active controller. Owner thread only."""

    def __init__(self, channel: ControllerChannel, is_active_here: Callable[[], bool]) -> None:
        self.channel = channel
        self._is_active_here = is_active_here
        self.waiting_bytes = 0
        """The size of the frames that wait for an answer."""

    def takes(self, dispatcher: Dispatcher, context: RequestContext, position: int) -> bool:
        """Send a request on, unless this node is the active controller. Return True if it was
        taken: it will be answered.

        A request from another node is refused instead: that node is wrong about the controller,
        and to send it on could go in circles.
        """
        if self._is_active_here():
            return False
        size = len(context.exchange.frame)
        if context.from_node:
            dispatcher.fail(context, position, ErrorCode.NOT_CONTROLLER)
        elif size > FRAME_BYTES_MAX:
            dispatcher.fail(context, position, ErrorCode.POLICY_VIOLATION)
        elif self.waiting_bytes + size > WAITING_BYTES_MAX:
            dispatcher.fail(context, position, ErrorCode.REQUEST_TIMED_OUT)
        else:
            self._forward(dispatcher, context, position, size)
        return True

    def _forward(
        self, dispatcher: Dispatcher, context: RequestContext, position: int, size: int
    ) -> None:
        exchange = context.exchange
        envelope = EnvelopeRequest(
            request_data=exchange.frame,
            request_principal=ANONYMOUS_PRINCIPAL,
            client_host_address=address_bytes(exchange.peer[0]),
        )
        self.waiting_bytes += size

        def ended(call: ControllerCall) -> None:
            self.waiting_bytes -= size
            exchange.abandoned = None
            self._answer(dispatcher, context, position, call)

        call = self.channel.send(envelope, ended, TIMEOUT_MS)

        def abandoned() -> None:
            if not call.done:
                call.cancel()
                self.waiting_bytes -= size

        exchange.abandoned = abandoned

    def _answer(
        self, dispatcher: Dispatcher, context: RequestContext, position: int, call: ControllerCall
    ) -> None:
        exchange, response = context.exchange, cast("EnvelopeResponse | None", call.response)
        try:
            if call.is_here:
                exchange.waiting = None
                dispatcher.received(exchange)
            elif isinstance(call.error, RequestTimeout):
                dispatcher.fail(context, position, ErrorCode.REQUEST_TIMED_OUT)
            elif isinstance(call.error, UnsupportedVersion):
                exchange.close_connection("the active controller is of another version")
            elif call.error is not None or response is None:
                exchange.close_connection(str(call.error))
            elif response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                key, version = context.header.api_key, context.version
                exchange.close_connection(
                    f"the active controller does not serve key {key} in version {version}"
                )
            elif response.error_code or response.response_data is None:
                log.error("%s", reason_of(call))
                dispatcher.fail(context, position, ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                self._pass_on(context, response.response_data)
        except ProtocolError as violation:
            exchange.close_connection(str(violation))

    def _pass_on(self, context: RequestContext, data: bytes) -> None:
        correlation_id, _ = decode_response_header(data, context.route.flexible_response)
        if correlation_id != context.header.correlation_id:
            raise ProtocolError(
                f"the active controller answered request {correlation_id}, "
                f"not {context.header.correlation_id}"
            )
        context.send_frame(data)

    # Requests of this broker itself.

    def call(
        self, request: object, response_type: type[R], ended: Callable[[R | None], None]
    ) -> None:
        """Let the active controller handle a request of this broker, in the newest version.

        `ended` gets the response, or None if there is none: it was logged why. It is not for
        requests that this node could answer itself: those need no envelope.
        """
        codec = Codec(type(request), declaration(type(request)).versions[1])
        parts = request_parts(codec.api_key, codec.version, 0, OWN_CLIENT_ID, codec.write(request))
        # A request has no slices of files, which the type of its parts allows.
        frame = b"".join(bytes(part) for part in parts)[LENGTH_BYTES:]  # type: ignore[arg-type]
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=ANONYMOUS_PRINCIPAL,
            client_host_address=UNSPECIFIED,
        )

        def answered(call: ControllerCall) -> None:
            answer: R | None = None
            response = cast("EnvelopeResponse | None", call.response)
            if response is None or response.response_data is None:
                log.error("no answer to %s: %s", codec.name, reason_of(call))
            else:
                try:
                    data = response.response_data
                    _, position = decode_response_header(data, codec.flexible_response)
                    answer = codec.read(data, position)
                except ProtocolError as violation:
                    log.error("no answer to %s that can be read: %s", codec.name, violation)
            ended(answer)

        self.channel.send(envelope, answered, TIMEOUT_MS)


def reason_of(call: ControllerCall) -> str:
    """Why a call has no answer inside."""
    if call.is_here:
        return "this node has become the active controller"
    if call.response is None:
        return str(call.error)
    return (
        f"the active controller refused the envelope: {error_code(call.response.error_code).name}"
    )


def address_bytes(host: str) -> bytes:
    """The 4 or 16 bytes of an IP address; those of 0.0.0.0 for the host of a simulation, which has
    only a name."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return UNSPECIFIED
