"""ListTransactions (key 66, versions 0 to 2): the transactions of this coordinator (KIP-664).

- 1: filter by duration (KIP-994). 2: filter by a pattern of transactional ids (KIP-1152).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@message(api=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest:
    """List transactions; an empty filter matches all."""

    state_filters: list[str]
    producer_id_filters: list[i64]
    duration_filter: i64 = field(
        default=-1, since=1, doc="Only those that run longer, in ms; negative for all."
    )
    transactional_id_pattern: str | None = field(
        default=None, since=2, doc="A regular expression; null or empty for all."
    )


@struct
class ListedTransaction:
    """One transaction."""

    transactional_id: str
    producer_id: i64
    transaction_state: str


@message(api=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse:
    """The transactions, and the names in the filter that are no states."""

    throttle_time_ms: i32 = 0
    error_code: i16
    unknown_state_filters: list[str]
    transaction_states: list[ListedTransaction]
