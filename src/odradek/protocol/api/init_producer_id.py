"""InitProducerId"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message


@message(api=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest:
    """"""

    transactional_id: str | None
    transaction_timeout_ms: i32
    producer_id: i64 = field(default=-1, since=3)
    producer_epoch: i16 = field(default=-1, since=3)
    enable_2pc: bool = field(default=False, since=6)
    keep_prepared_txn: bool = field(default=False, since=6)


@message(api=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    error_code: i16
    producer_id: i64 = field(default=-1)
    producer_epoch: i16
    ongoing_txn_producer_id: i64 = field(default=-1, since=6)
    ongoing_txn_producer_epoch: i16 = field(default=-1, since=6)
