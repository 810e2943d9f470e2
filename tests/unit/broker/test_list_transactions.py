"""ListTransactions and DescribeTransactions of a broker in memory."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.protocol.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from unit.broker.memory_broker import MemoryBroker


def listed(**filters: object) -> ListTransactionsResponse:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    for name, value in filters.items():
        setattr(request, name, value)
    return MemoryBroker().call(request, 2, ListTransactionsResponse)


def test_a_broker_without_transactions_lists_none() -> None:
    response = listed()
    assert (response.error_code, response.transaction_states) == (0, [])


def test_names_that_are_no_states_are_returned_once() -> None:
    response = listed(state_filters=["Ongoing", "Lost", "ongoing", "Lost"])
    assert response.unknown_state_filters == ["Lost", "ongoing"]


def test_a_pattern_that_is_no_regular_expression_is_refused() -> None:
    response = listed(transactional_id_pattern="my-(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
