"""DescribeTransactions (key 65, version 0): the state of transactional ids (KIP-664)."""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@message(api=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    """Describe the transactions of these ids."""

    transactional_ids: list[str]


@struct
class TopicData:
    """Partitions of one topic."""

    topic: str
    partitions: list[i32]


@struct
class DescribedTransaction:
    """The transaction of one id."""

    error_code: i16
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: i32 = 0
    transaction_start_time_ms: i64 = field(default=0, doc="Since the epoch; -1 if none is open.")
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    topics: list[TopicData] = field(
        factory=list, doc="While it ends, those whose markers are not written yet."
    )


@message(api=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse:
    """The transactions, in the order of the request."""

    throttle_time_ms: i32 = 0
    transaction_states: list[DescribedTransaction]
