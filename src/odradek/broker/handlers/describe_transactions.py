"""DescribeTransactions: v0. The state of transactional ids that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.coordinator.operation import CombinedReply
from odradek.protocol.api.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> CallbackResponse:
    ids = request.transactional_ids
    combined: CombinedReply[DescribedTransaction] = CombinedReply(
        len(ids),
        lambda found: context.respond(DescribeTransactionsResponse(transaction_states=found)),
    )
    for index, transactional_id in enumerate(ids):
        broker.transactions.describe(transactional_id, combined.respond(index))
    return CALLBACK_RESPONSE
