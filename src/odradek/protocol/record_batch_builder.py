"""Building record batches: what producers, tests and the rewriting validator make.

`RecordBatchBuilder` takes records one by one, `build` all at once, `assemble` a records section
that is already encoded. The format stands in `record_batch.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import google_crc32c
from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from odradek.protocol import compression, record_writer
from odradek.protocol.record_batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from odradek.protocol.records import Header


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
    """A batch around a records section that is already encoded (and compressed, as `attributes`
    say)."""
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
    # In two steps, so that a large section is copied once only.
    crc: int = google_crc32c.extend(google_crc32c.value(covered), section)
    head.write(crc.to_bytes(4, "big"))
    head.write(covered)
    return head.getvalue() + section


class RecordBatchBuilder:
    """Records go in, one batch comes out. Timestamps are in ms, -1 for none.

    A producer asks `size` or `append`'s answer whether the batch is full: both are before
    compression. `writer` is where the records are collected, if that is not the builder's own;
    it must be empty.
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
        """Bytes of the batch as it stands, before compression."""
        return HEADER_BYTES + len(self._writer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: i64 = NO_TIMESTAMP,
    ) -> int:
        """Add a record; returns the batch's size so far, before compression."""
        encoded = record_writer.encode_headers(headers) if headers else record_writer.NO_HEADERS
        return self.append_raw(key, value, encoded, timestamp)

    def append_raw(
        self, key: bytes | None, value: bytes | None, encoded_headers: bytes, timestamp: i64
    ) -> i64:
        """`append` for headers that are encoded already."""
        if self.count == 0:
            self.base_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.last_offset_delta += 1
        record_writer.encode_raw(
            self._writer,
            self.last_offset_delta,
            timestamp - self.base_timestamp,
            key,
            value,
            encoded_headers,
        )
        self.count += 1
        return HEADER_BYTES + len(self._writer)

    def build(self) -> bytes:
        """The batch. The builder can go on and build again."""
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
    """A batch of (key, value, headers, timestamp in ms) in one call."""
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
