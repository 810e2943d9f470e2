"""EndTxn: v0-5. See `coordinator.transaction.end_txn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.broker.producer_fenced import error_for_version
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: EndTxnRequest) -> CallbackResponse:
    def respond(response: EndTxnResponse) -> None:
        response.error_code = error_for_version(response.error_code, context.version)
        context.respond(response)

    broker.transactions.end_txn(request, context.version, context.connection_number, respond)
    return CALLBACK_RESPONSE
