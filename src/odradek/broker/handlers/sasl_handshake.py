"""SaslHandshake: v0-1. ILLEGAL_SASL_STATE, as on each listener of Kafka without SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.protocol.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
