"""Splitting a batch that the broker found too large (KIP-126).

Its records are read back from the bytes that were sent and written into batches of at most half the
size, before compression; a record that is larger than that stands alone. So every split makes
progress, however the broker's limit and `batch.size` relate, and ends at the latest with batches of
one record each. The parts are sealed, and live on the memory of the batch they come from.
"""

from __future__ import annotations

from mypy_extensions import i64

from odradek.client.producer.delivery import ProduceRequestResult
from odradek.client.producer.producer_batch import ProducerBatch
from odradek.protocol.record_batch import HEADER_BYTES, RecordBatchHeader, records_of
from odradek.protocol.record_batch_builder import RecordBatchBuilder
from odradek.protocol.records import encode_headers


def split(big: ProducerBatch, codec: int, level: int | None) -> list[ProducerBatch]:
    """The parts, in order; neither callbacks nor memory are theirs yet."""
    limit: i64 = big.max_record_bytes + HEADER_BYTES
    half: i64 = big.uncompressed_bytes // 2
    if half > limit:
        limit = half
    parts: list[ProducerBatch] = []
    header = RecordBatchHeader(big.data, 0)
    for first, record in enumerate(records_of(big.data, header)):
        headers = encode_headers(record.headers)
        index: i64 = -1
        if parts:
            index = parts[-1].try_append(record.timestamp, record.key, record.value, headers)
        if index < 0:
            part = new_part(big, RecordBatchBuilder(codec, level=level), limit, first)
            part.try_append(record.timestamp, record.key, record.value, headers)
            parts.append(part)
    for part in parts:
        part.seal(None)
    return parts


def new_part(
    big: ProducerBatch, builder: RecordBatchBuilder, limit: i64, first: i64
) -> ProducerBatch:
    """An empty batch for the records of `big` from `first` on."""
    name, number = big.topic_partition
    result = ProduceRequestResult(name, number, big.result.face, big.result.lock)
    part = ProducerBatch(
        big.topic_partition, result, builder, None, limit, big.created_ms, big.ordinal + first
    )
    part.leader_epoch = big.leader_epoch
    part.last_error = big.last_error
    part.may_be_written = big.in_doubt
    return part
