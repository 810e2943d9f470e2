"""ListTransactions lists nothing and checks its filters."""

from __future__ import annotations

import pytest

from odradek.broker.handlers.list_transactions import is_re2
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


def test_there_are_no_transactions() -> None:
    response = listed()
    assert (response.error_code, response.transaction_states) == (0, [])


def test_names_that_are_no_states_are_returned_once() -> None:
    response = listed(state_filters=["Ongoing", "Lost", "ongoing", "Lost"])
    assert response.unknown_state_filters == ["Lost", "ongoing"]


def test_a_pattern_that_is_no_regular_expression_is_refused() -> None:
    response = listed(transactional_id_pattern="my-(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "pattern",
    ["", "my-.*", "a{2", r"\Qa.b(\E*", r"\pL+\p{Greek}", r"\*+", "[*+]+", "(?P<n>a)", "a+?", r"\z"],
)
def test_patterns_of_re2_are_accepted(pattern: str) -> None:
    assert is_re2(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(", "[a", "*", "\\", "a**", "a++", "(?=a)", "(?<!a)b", r"(a)\1", r"\q", "a" * 1_001],
)
def test_other_patterns_are_refused(pattern: str) -> None:
    assert not is_re2(pattern)
