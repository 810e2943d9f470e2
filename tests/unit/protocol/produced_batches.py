"""Helpers that build valid and invalid produced batches and validate them."""

from __future__ import annotations

import struct

from librt.strings import BytesWriter

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol import record_batch, records
from odradek.protocol.record_batch import is_intact
from odradek.protocol.record_batch_builder import assemble
from odradek.protocol.validate import BatchRules, InvalidBatch, ValidBatch, validate

NOW = 1_366_000_000_000
ANY = BatchRules()


def encoded(*rows: tuple[int, int, bytes | None, bytes | None]) -> bytes:
    """Return a records section of (offset delta, timestamp delta, key, value) rows."""
    writer = BytesWriter()
    for offset_delta, timestamp_delta, key, value in rows:
        records.write_record(writer, offset_delta, timestamp_delta, key, value, ())
    return writer.getvalue()


def varints(*values: int) -> bytes:
    writer = BytesWriter()
    for value in values:
        records.write_varint(writer, value)
    return writer.getvalue()


def framed(body: bytes) -> bytes:
    """Return a record with the given bytes after its length."""
    return varints(len(body)) + body


THREE = encoded((0, 0, b"k", b"a"), (1, 1, b"k", b"b"), (2, 2, b"k", b"c"))
ONE = encoded((0, 0, b"k", b"v"))


def batch(
    section: bytes = THREE,
    count: int = 3,
    *,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = NOW,
    max_timestamp: int = NOW + 2,
    producer_id: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
) -> bytes:
    return assemble(
        section,
        count,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        base_offset=base_offset,
    )


def validate_in_frame(
    data: bytes, rules: BatchRules = ANY, now_ms: int = NOW, version: int = 13
) -> ValidBatch | InvalidBatch:
    """Validate a batch in the middle of a frame."""
    return validate(ByteRange(b"head" + data + b"tail", 4, 4 + len(data)), rules, now_ms, version)


def accepted(data: bytes, rules: BatchRules = ANY, now_ms: int = NOW) -> ValidBatch:
    verdict = validate_in_frame(data, rules, now_ms)
    assert isinstance(verdict, ValidBatch), verdict
    assert is_intact(verdict.data, verdict.header)
    return verdict


def refused(
    data: bytes, rules: BatchRules = ANY, now_ms: int = NOW, version: int = 13
) -> InvalidBatch:
    verdict = validate_in_frame(data, rules, now_ms, version)
    assert isinstance(verdict, InvalidBatch), "was accepted"
    assert verdict.message
    return verdict


def error_of(data: bytes, rules: BatchRules = ANY, version: int = 13) -> ErrorCode:
    return refused(data, rules, version=version).error


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    """Return the batch with one field changed and a valid CRC."""
    field = struct.pack(form, value)
    data = data[:at] + field + data[at + len(field) :]
    return data[:17] + struct.pack(">I", record_batch.crc32c(data, 21, len(data))) + data[21:]
