"""ListTransactions: v0-2. No transaction is listed, as this broker coordinates none.

FindCoordinator refuses transactional ids, so that no client can begin one. The filters are checked
as in Kafka: names that are no states are returned, and the pattern must be a regular expression of
RE2's syntax.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.protocol.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

STATES = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    )
)


def handle(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    if not is_re2(request.transactional_id_pattern or ""):
        return ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION,
            unknown_state_filters=[],
            transaction_states=[],
        )
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES]
    return ListTransactionsResponse(
        error_code=0, unknown_state_filters=unknown, transaction_states=[]
    )


MAX_PATTERN_LENGTH = 1_000
"""Compiling a pattern takes about a microsecond for each character."""
QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
ONE_CHARACTER = re.compile(
    r"\\(?:[pP](?:[A-Z]|\{\^?[A-Z][A-Za-z_]*\})|[zC]|[^A-Za-z0-9])|\[\^?\]?[^\]]*\]"
)
NOT_IN_RE2 = re.compile(r"\(\?(?:[=!>(#]|<[=!]|P=)|\\[1-9Z]|[*+?}]\+")


def is_re2(pattern: str) -> bool:
    """True if this is a regular expression of RE2, up to rare differences from Python's.

    Unicode classes are accepted by the form of their names.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        return False
    plain = QUOTED.sub(lambda match: re.escape(match[1]), pattern)
    plain = ONE_CHARACTER.sub("x", plain)
    if NOT_IN_RE2.search(plain):
        return False
    try:
        re.compile(plain)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
