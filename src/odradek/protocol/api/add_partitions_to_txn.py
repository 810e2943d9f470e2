"""AddPartitionsToTxn (key 24, versions 0 to 5): add partitions to a transaction, or verify them.

- 2: PRODUCER_FENCED. 3: flexible; the last one of clients.
- 4: of brokers only (KIP-890): several transactions, and those that are only to be verified.
- 5: TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str
    partitions: list[i32]


@struct
class AddPartitionsToTxnTransaction:
    """One transaction, with the partitions to add to it."""

    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    verify_only: bool = field(
        default=False, doc="True to ask for what is in the transaction, and add nothing."
    )
    topics: list[AddPartitionsToTxnTopic]


@message(api=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest:
    """One transaction up to version 3, several from version 4."""

    transactions: list[AddPartitionsToTxnTransaction] = field(factory=list, since=4)
    v3_and_below_transactional_id: str = field(default="", until=3)
    v3_and_below_producer_id: i64 = field(default=0, until=3)
    v3_and_below_producer_epoch: i16 = field(default=0, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(factory=list, until=3)


@struct
class AddPartitionsToTxnPartitionResult:
    """The error of one partition, or none."""

    partition_index: i32
    partition_error_code: i16


@struct
class AddPartitionsToTxnTopicResult:
    """The results of one topic."""

    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    """The results of one transaction."""

    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(api=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse:
    """Per partition, the error or none."""

    throttle_time_ms: i32 = 0
    error_code: i16 = field(default=0, since=4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(factory=list, since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        factory=list, until=3
    )
