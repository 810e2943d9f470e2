"""InitProducerId (key 22, versions 0 to 6): a producer id and epoch.

- 2: flexible. 3: the current id and epoch, to recover from INVALID_PRODUCER_EPOCH (KIP-360).
- 4: PRODUCER_FENCED. 5: TRANSACTION_ABORTABLE (KIP-890).
- 6: two-phase commit (KIP-939); Kafka 4.4 marks it unstable, brokers advertise up to 5.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message


@message(api=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest:
    """Requests a producer id; with a transactional id, also fences its earlier producers."""

    transactional_id: str | None
    transaction_timeout_ms: i32
    producer_id: i64 = field(default=-1, since=3, doc="-1 for a new one.")
    producer_epoch: i16 = field(default=-1, since=3)
    enable_2pc: bool = field(default=False, since=6)
    keep_prepared_txn: bool = field(
        default=False, since=6, doc="Keep the open transaction instead of aborting it."
    )


@message(api=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse:
    """The id and epoch to produce with."""

    throttle_time_ms: i32 = 0
    error_code: i16
    producer_id: i64 = -1
    producer_epoch: i16
    ongoing_txn_producer_id: i64 = field(default=-1, since=6, doc="-1 for no open transaction.")
    ongoing_txn_producer_epoch: i16 = field(default=-1, since=6)
