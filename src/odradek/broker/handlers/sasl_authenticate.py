"""SaslAuthenticate: v0-2. ILLEGAL_SASL_STATE, as on each listener of Kafka without SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.protocol.api.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="This listener has no SASL.",
        auth_bytes=b"",
    )
