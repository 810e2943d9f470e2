"""TxnOffsetCommit (key 28, versions 0 to 5): commit offsets of a group in a transaction.

- 2: leader epochs. 3: flexible; member, generation and instance (KIP-447).
- 4: TRANSACTION_ABORTABLE (KIP-890). 5: adds the offsets to the transaction implicitly.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class TxnOffsetCommitRequestPartition:
    """The offset to commit for one partition: that of the next record to read."""

    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = field(default=-1, since=2, ignorable=True)
    committed_metadata: str | None


@struct
class TxnOffsetCommitRequestTopic:
    """One topic."""

    name: str
    partitions: list[TxnOffsetCommitRequestPartition]


@message(api=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest:
    """Commit offsets when the transaction is committed."""

    transactional_id: str
    group_id: str
    producer_id: i64
    producer_epoch: i16
    generation_id: i32 = field(default=-1, since=3)
    member_id: str = field(default="", since=3)
    group_instance_id: str | None = field(default=None, since=3)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    """The error of one partition, or none."""

    partition_index: i32
    error_code: i16


@struct
class TxnOffsetCommitResponseTopic:
    """One topic."""

    name: str
    partitions: list[TxnOffsetCommitResponsePartition]


@message(api=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse:
    """Per partition, the error or none."""

    throttle_time_ms: i32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
