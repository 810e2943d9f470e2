"""WriteTxnMarkers: v1-2. See `broker.transaction_markers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.broker.transaction_markers import MarkerWriter
from odradek.broker.transaction_service import MARKER_TIMEOUT_MS
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> CallbackResponse:
    from_client = not context.from_node
    MarkerWriter(broker, request, from_client, MARKER_TIMEOUT_MS, context.respond).run()
    return CALLBACK_RESPONSE
