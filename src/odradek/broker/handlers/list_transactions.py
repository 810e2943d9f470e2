"""ListTransactions: v0-2. The transactional ids that this broker coordinates.

Names that are no states are returned. The pattern must be a regular expression of RE2's syntax,
which matches whole ids. While a partition of `__transaction_state` is being loaded the response is
COORDINATOR_LOAD_IN_PROGRESS, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.coordinator.transaction.id_pattern import IdPattern, InvalidPattern
from odradek.coordinator.transaction.listing import TransactionFilter
from odradek.model.errors import ErrorCode
from odradek.protocol.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | CallbackResponse:
    try:
        text = request.transactional_id_pattern
        pattern = IdPattern(text) if text else None
    except InvalidPattern:
        return ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION,
            unknown_state_filters=[],
            transaction_states=[],
        )
    selected = TransactionFilter(request, pattern, broker.clock.wall_ms())
    broker.transactions.list(selected, context.respond)
    return CALLBACK_RESPONSE
