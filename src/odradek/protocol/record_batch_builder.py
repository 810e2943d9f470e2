"""Building record batches: from records, and from the records that compaction keeps.

`RecordBatchBuilder` takes records one by one, `build` all at once, `assemble` an encoded records
section. The format is described in `record_batch`.

Log compaction takes records out of batches:

    all records kept   the bytes stay as they are
    `rebuild_batch`    the kept records' bytes in a new records section; offsets, sequence,
                       producer, leader epoch and the last offset delta are the old batch's,
                       `records` counts the kept records, and the maximum timestamp is theirs
    `empty_batch`      a header without records: the offset range and the last sequence of the
                       producer outlive the records

A batch with tombstones gets a *delete horizon* the first time it is compacted: the wall time after
which its tombstones may be removed. It replaces the base timestamp (attribute bit 6), and the
records' timestamp deltas are rewritten to match, so that timestamps read as before. Kafka reads and
writes the same since 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastcrc.crc32 import iscsi as crc32c
from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from odradek.protocol import compression
from odradek.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    RecordBatchHeader,
)
from odradek.protocol.records import (
    NO_HEADERS,
    NO_TIMESTAMP,
    Header,
    encode_headers,
    varint,
    varint_size,
    varlong,
    write_record_raw,
    write_record_slices,
    write_varint,
)


def assemble(
    section: bytes,
    count: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = NO_TIMESTAMP,
    max_timestamp: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """Return a batch with an encoded records section, compressed as `attributes` state."""
    body = BytesWriter()
    write_i16_be(body, attributes)
    write_i32_be(body, count - 1 if last_offset_delta is None else last_offset_delta)
    write_i64_be(body, base_timestamp)
    write_i64_be(body, max_timestamp)
    write_i64_be(body, producer_id)
    write_i16_be(body, producer_epoch)
    write_i32_be(body, base_sequence)
    write_i32_be(body, count)
    covered = body.getvalue()
    head = BytesWriter()
    write_i64_be(head, base_offset)
    write_i32_be(head, len(covered) + len(section) + 9)
    write_i32_be(head, leader_epoch)
    head.append(MAGIC)
    # In two steps, so that a large section is copied only once.
    crc: int = crc32c(section, crc32c(covered))
    head.write(crc.to_bytes(4, "big"))
    head.write(covered)
    return head.getvalue() + section


class RecordBatchBuilder:
    """Builds one batch from records. Timestamps are in ms, -1 for none.

    A producer compares `size`, or the result of `append`, with its batch size: both are sizes
    before compression. `writer` collects the records in place of the builder's own; it must be
    empty.
    """

    def __init__(
        self,
        codec: int = 0,
        *,
        level: int | None = None,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        writer: BytesWriter | None = None,
    ) -> None:
        self.codec = codec
        self.level = level
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.attributes = codec | transactional * TRANSACTIONAL_BIT | control * CONTROL_BIT
        self.count: i64 = 0
        self.last_offset_delta: i64 = -1
        self.base_timestamp: i64 = NO_TIMESTAMP
        self.max_timestamp: i64 = NO_TIMESTAMP
        self._writer = BytesWriter() if writer is None else writer

    @property
    def size(self) -> int:
        """The current size of the batch in bytes, before compression."""
        return HEADER_BYTES + len(self._writer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: i64 = NO_TIMESTAMP,
    ) -> int:
        """Add a record; return the batch's current size in bytes, before compression."""
        encoded = encode_headers(headers) if headers else NO_HEADERS
        return self.append_raw(key, value, encoded, timestamp)

    def append_raw(
        self, key: bytes | None, value: bytes | None, encoded_headers: bytes, timestamp: i64
    ) -> i64:
        """Like `append`, for headers that are already encoded."""
        delta = self._next_record(timestamp)
        write_record_raw(self._writer, self.last_offset_delta, delta, key, value, encoded_headers)
        return HEADER_BYTES + len(self._writer)

    def append_slices(
        self,
        keys: bytes,
        key: i64,
        key_size: i64,
        values: bytes,
        value: i64,
        value_size: i64,
        encoded_headers: bytes,
        timestamp: i64,
    ) -> i64:
        """Like `append_raw`, for a key and a value that `write_record_slices` takes."""
        delta = self._next_record(timestamp)
        write_record_slices(
            self._writer,
            self.last_offset_delta,
            delta,
            keys,
            key,
            key_size,
            values,
            value,
            value_size,
            encoded_headers,
        )
        return HEADER_BYTES + len(self._writer)

    def _next_record(self, timestamp: i64) -> i64:
        """Count a record; return its timestamp delta."""
        if self.count == 0:
            self.base_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.last_offset_delta += 1
        self.count += 1
        return timestamp - self.base_timestamp

    def build(self) -> bytes:
        """Return the batch. The builder can take more records and build again."""
        section = self._writer.getvalue()
        if self.codec:  # 0 is none
            section = compression.compress(self.codec, section, self.level)
        return assemble(
            section,
            self.count,
            base_offset=self.base_offset,
            leader_epoch=self.leader_epoch,
            attributes=self.attributes,
            last_offset_delta=self.last_offset_delta,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )


def build(
    contents: Sequence[tuple[bytes | None, bytes | None, Sequence[Header], int]],
    codec: int = 0,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytes:
    """Return a batch of (key, value, headers, timestamp in ms) records."""
    builder = RecordBatchBuilder(
        codec,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    for key, value, headers, timestamp in contents:
        builder.append(key, value, headers, timestamp)
    return builder.build()


KEPT_BITS = COMPRESSION_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def rebuild_batch(
    header: RecordBatchHeader,
    section: bytes,
    kept: list[tuple[int, int]],
    max_timestamp: int,
    delete_horizon_ms: int,
) -> bytes:
    """Return the batch with only the records at the positions `kept` of its decompressed `section`.

    `max_timestamp` is the kept records'; with LogAppendTime the batch keeps its own.
    `delete_horizon_ms` -1: the batch has none.
    """
    attributes = header.attributes & KEPT_BITS
    base_timestamp = header.base_timestamp
    if delete_horizon_ms >= 0:
        attributes |= DELETE_HORIZON_BIT
    if delete_horizon_ms >= 0 and delete_horizon_ms != base_timestamp:
        records = _shift_timestamps(section, kept, base_timestamp - delete_horizon_ms)
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


def _shift_timestamps(section: bytes, kept: list[tuple[int, int]], difference_ms: int) -> bytes:
    """Return the kept records with timestamp deltas larger by `difference_ms`."""
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


def empty_batch(header: RecordBatchHeader) -> bytes:
    """Return the batch without its records."""
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
