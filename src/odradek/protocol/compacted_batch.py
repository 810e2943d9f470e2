"""A record batch with some of its records taken out: what log compaction writes.

    kept whole     the bytes as they were
    `rebuilt`      the kept records' bytes in a new records section; offsets, sequence, producer,
                   leader epoch and the last offset delta are the old batch's, `records` counts what
                   is left, and the maximum timestamp is that of what is left
    `emptied`      a header without records: the range of offsets, and the last sequence of its
                   producer, outlive the records

A batch with tombstones gets a *delete horizon* the first time it is compacted: the wall time from
which on its tombstones may go. It takes the place of the base timestamp (attribute bit 6), and the
records' timestamp deltas are written anew to match, so that timestamps read as before. Kafka from
3.1 on reads and writes the same.
"""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64

from odradek.protocol import compression
from odradek.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    RecordBatchHeader,
)
from odradek.protocol.record_batch_builder import assemble
from odradek.protocol.record_writer import varint_size, write_varint
from odradek.protocol.records import varint, varlong

KEPT_BITS = COMPRESSION_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def rebuilt(
    header: RecordBatchHeader,
    section: bytes,
    kept: list[tuple[int, int]],
    max_timestamp: int,
    delete_horizon_ms: int,
) -> bytes:
    """The batch with those records of its decompressed `section` that lie at `kept`.

    `max_timestamp` is theirs, as the batch's own timestamps have it; with LogAppendTime the batch's
    stays. `delete_horizon_ms` -1: it has none.
    """
    attributes = header.attributes & KEPT_BITS
    base_timestamp = header.base_timestamp
    if delete_horizon_ms >= 0:
        attributes |= DELETE_HORIZON_BIT
    if delete_horizon_ms >= 0 and delete_horizon_ms != base_timestamp:
        records = _moved(section, kept, base_timestamp - delete_horizon_ms)
        base_timestamp = delete_horizon_ms
    else:
        records = b"".join([section[start:end] for start, end in kept])
    return assemble(
        compression.compress(header.compression_type, records),
        len(kept),
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if header.is_log_append_time else max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _moved(section: bytes, kept: list[tuple[int, int]], difference_ms: int) -> bytes:
    """The records with timestamp deltas that are larger by `difference_ms`."""
    writer = BytesWriter()
    for start, end in kept:
        _, position = varint(section, start)
        attributes = section[position]
        delta, position = varlong(section, position + 1)
        moved: i64 = delta + difference_ms
        write_varint(writer, 1 + varint_size(moved) + end - position)
        writer.append(attributes)
        write_varint(writer, moved)
        writer.write(section[position:end])
    return writer.getvalue()


def emptied(header: RecordBatchHeader) -> bytes:
    """The batch without any record."""
    return assemble(
        b"",
        0,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & KEPT_BITS & ~COMPRESSION_MASK,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
