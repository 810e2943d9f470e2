"""Record batches, format v2: the same bytes on the wire from producers, on disk and to consumers.

    offset  size
         0     8  baseOffset             of the first record; stamped by the leader
         8     4  batchLength            bytes after this field: the batch has 12 more
        12     4  partitionLeaderEpoch   stamped by the leader
        16     1  magic                  2
        17     4  crc                    CRC-32C of everything from `attributes` to the end
        21     2  attributes             see below
        23     4  lastOffsetDelta
        27     8  baseTimestamp          ms; the delete horizon, if that bit is set
        35     8  maxTimestamp           ms; the append time, if the timestamp type says so
        43     8  producerId             -1: not idempotent
        51     2  producerEpoch
        53     4  baseSequence
        57     4  records                count
        61        records, compressed as a whole (see `records`, `compression`)

    attributes  bits 0-2 compression type, 3 timestamp type (1: LogAppendTime), 4 transactional,
                5 control, 6 base timestamp is compaction's delete horizon, others unused

Base offset and leader epoch lie outside the CRC: a leader sets them with `stamp` and writes the
rest of the batch unchanged. Only another maximum timestamp or timestamp type (LogAppendTime) needs
a new CRC: `with_max_timestamp`.

This module reads, iterates and stamps. `record_batch_builder` builds batches, `validate` checks
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fastcrc.crc32 import iscsi
from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64

from odradek.protocol import compression
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.records import (
    NO_TIMESTAMP,
    InvalidRecords,
    Record,
    RecordCursor,
    read_records,
)

MAGIC: Final = 2
LOG_OVERHEAD: Final[i64] = 12
HEADER_BYTES: Final[i64] = 61
STAMP_BYTES: Final[i64] = 16
CRC_START: Final[i64] = 21

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

MAX_SECTION_BYTES: Final = (1 << 31) - 1
CRC_COPIED_BYTES: Final[i64] = 4096
"""Up to this size a part of a buffer is copied for its CRC: a view of it takes longer."""

crc_of: Final[Callable[[bytes | memoryview], int]] = iscsi
"""CRC-32C, which the library calls by its other name."""


class CorruptBatch(Exception):
    """The bytes at `position` are not the header of a v2 batch."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at position {position}")
        self.position = position
        self.reason = reason


UNREADABLE: Final = (CorruptBatch, InvalidRecords, CorruptCompression, SectionTooLarge)
"""All exceptions that reading batches and their records can raise."""


class RecordBatchHeader:
    """The header fields of the batch at `position` of its data.

    `size` is that of the whole batch, `end` the position of the next batch.
    """

    def __init__(self, data: bytes, position: i64) -> None:
        """Read 61 bytes, unchecked. Raises IndexError if there are fewer."""
        self.position = position
        self.base_offset = read_i64_be(data, position)
        self.batch_length: int = read_i32_be(data, position + 8)
        self.partition_leader_epoch: int = read_i32_be(data, position + 12)
        self.magic: int = data[position + 16]
        signed_crc: int = read_i32_be(data, position + 17)
        self.crc = signed_crc & 0xFFFFFFFF
        self.attributes: int = read_i16_be(data, position + 21)
        self.last_offset_delta: int = read_i32_be(data, position + 23)
        self.base_timestamp = read_i64_be(data, position + 27)
        self.max_timestamp = read_i64_be(data, position + 35)
        self.producer_id = read_i64_be(data, position + 43)
        self.producer_epoch: int = read_i16_be(data, position + 51)
        self.base_sequence: int = read_i32_be(data, position + 53)
        self.count: int = read_i32_be(data, position + 57)

    @property
    def size(self) -> i64:
        return self.batch_length + LOG_OVERHEAD

    @property
    def end(self) -> i64:
        return self.position + self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> i64:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> i64:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> i64:
        """The sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression_type(self) -> int:
        """The codec's id (0-7; 0-4 are `CompressionType`)."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    def __repr__(self) -> str:
        return (
            f"RecordBatchHeader({self.base_offset}..{self.last_offset} at {self.position}, "
            f"size={self.size}, count={self.count}, attributes={self.attributes:#x}, "
            f"leader_epoch={self.partition_leader_epoch}, producer_id={self.producer_id}, "
            f"producer_epoch={self.producer_epoch}, base_sequence={self.base_sequence})"
        )


def batches(data: bytes, start: int = 0, end: int | None = None) -> Iterator[RecordBatchHeader]:
    """Yield the headers of the batches in `data[start:end]`, in order.

    Stops where the rest is shorter than a header, or than its batch (a torn tail, or a fetch cut at
    its limit); the last header's `end` is where it stopped. Raises `CorruptBatch` for an invalid
    header. CRCs are not checked: see `is_intact`.
    """
    limit: i64 = len(data) if end is None else end
    position: i64 = start
    while limit - position >= HEADER_BYTES:
        header = RecordBatchHeader(data, position)
        if header.magic != MAGIC:
            raise CorruptBatch(position, f"magic {header.magic}")
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD:
            raise CorruptBatch(position, f"batch length {header.batch_length}")
        position = header.end
        if position > limit:
            return
        yield header


def crc32c(data: bytes, start: i64, end: i64) -> int:
    """Return the CRC-32C of `data[start:end]`."""
    if end - start <= CRC_COPIED_BYTES:
        return crc_of(data[start:end])
    return crc_of(memoryview(data)[start:end])


def is_intact(data: bytes, header: RecordBatchHeader) -> bool:
    """True if the whole batch is in `data` and its CRC matches its header."""
    end = header.end
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD or end > len(data):
        return False
    return crc32c(data, header.position + CRC_START, end) == header.crc


def stamp(data: bytes, start: i64, base_offset: i64, leader_epoch: int) -> bytes:
    """Return the batch's first 16 bytes with this base offset and leader epoch.

    The rest of the batch, CRC included, stays valid unchanged.
    """
    writer = BytesWriter()
    write_i64_be(writer, base_offset)
    write_i32_be(writer, read_i32_be(data, start + 8))
    write_i32_be(writer, leader_epoch)
    return writer.getvalue()


def with_max_timestamp(
    data: bytes, header: RecordBatchHeader, max_timestamp: int, log_append_time: bool
) -> bytes:
    """Return the batch with this maximum timestamp and timestamp type, and a new CRC."""
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT
    if log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    pos = header.position
    writer = BytesWriter()
    write_i16_be(writer, attributes)
    writer.write(data[pos + 23 : pos + 35])
    write_i64_be(writer, max_timestamp)
    writer.write(data[pos + 43 : header.end])
    body = writer.getvalue()
    return data[pos : pos + 17] + crc32c(body, 0, len(body)).to_bytes(4, "big") + body


def with_producer_state(
    data: bytes, producer_id: i64, producer_epoch: int, base_sequence: int
) -> bytes:
    """Return a batch with this producer id, epoch and sequence, and a new CRC."""
    writer = BytesWriter()
    writer.write(data[CRC_START:43])
    write_i64_be(writer, producer_id)
    write_i16_be(writer, producer_epoch)
    write_i32_be(writer, base_sequence)
    writer.write(data[57:])
    body = writer.getvalue()
    return data[:17] + crc_of(body).to_bytes(4, "big") + body


def records_section(
    data: bytes, header: RecordBatchHeader, max_bytes: int = MAX_SECTION_BYTES
) -> tuple[bytes, int, int]:
    """Return the batch's decompressed records as (bytes, start, end).

    Uncompressed records stay where they are in `data`. Raises `compression.SectionTooLarge` beyond
    `max_bytes`, `compression.CorruptCompression` for invalid compressed data.
    """
    start = header.position + HEADER_BYTES
    if header.compression_type == 0:
        return data, start, header.end
    section = compression.decompress(header.compression_type, data[start : header.end], max_bytes)
    return section, 0, len(section)


def cursor_of(
    data: bytes, header: RecordBatchHeader, max_bytes: int = MAX_SECTION_BYTES
) -> RecordCursor:
    """Return a cursor before the first of the batch's records.

    With LogAppendTime each record has the append time, as in Kafka. Raises `InvalidRecords` and the
    errors of `records_section`.
    """
    section, start, end = records_section(data, header, max_bytes)
    append_time = header.max_timestamp if header.is_log_append_time else NO_TIMESTAMP
    return RecordCursor(
        section, start, end, header.count, header.base_offset, header.base_timestamp, append_time
    )


def records_of(
    data: bytes, header: RecordBatchHeader, max_bytes: int = MAX_SECTION_BYTES
) -> Iterator[Record]:
    """Yield the batch's records. Raises the errors of `cursor_of` and `records.read_records`."""
    return read_records(cursor_of(data, header, max_bytes))
