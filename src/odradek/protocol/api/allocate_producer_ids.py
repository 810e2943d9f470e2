"""AllocateProducerIds (key 67, version 0): a broker gets a block of producer ids (KIP-730)."""

from __future__ import annotations

from odradek.protocol.schema import i16, i32, i64, message


@message(api=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest:
    """The broker that needs producer ids."""

    broker_id: i32
    broker_epoch: i64 = -1


@message(api=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsResponse:
    """The block: its first producer id and their number."""

    throttle_time_ms: i32 = 0
    error_code: i16
    producer_id_start: i64
    producer_id_len: i32
