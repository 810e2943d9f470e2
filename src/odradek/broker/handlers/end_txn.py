"""EndTxn: v0-5. See `coordinator.transaction.end_txn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.model.errors import ErrorCode
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_WITH_FENCED = 2


def handle(broker: Broker, context: RequestContext, request: EndTxnRequest) -> CallbackResponse:
    def respond(response: EndTxnResponse) -> None:
        fenced = response.error_code == ErrorCode.PRODUCER_FENCED
        if fenced and context.version < FIRST_VERSION_WITH_FENCED:
            response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        context.respond(response)

    broker.transactions.end_txn(request, context.version, context.connection_number, respond)
    return CALLBACK_RESPONSE
