"""AddOffsetsToTxn (key 25, versions 0 to 4): add the offsets of a group to a transaction.

- 2: PRODUCER_FENCED. 3: flexible. 4: TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from odradek.protocol.schema import i16, i32, i64, message


@message(api=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest:
    """Add the partition that keeps the offsets of this group."""

    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    group_id: str


@message(api=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse:
    """The error, or none."""

    throttle_time_ms: i32 = 0
    error_code: i16
