"""Reading the batches of a `.log` file in order, with or without verifying their checksums.

The file is read forward in large chunks. A batch larger than a chunk is checksummed piece by piece,
so a header with a wrong length costs time but no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from odradek.model.env import File
from odradek.protocol import record_batch
from odradek.protocol.record_batch import HEADER_BYTES, MAGIC, CorruptBatch, RecordBatchHeader

MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
"""How far an offset may be above the base offset of its segment."""
SCAN_BYTES = 1 << 20
LOOK_UP_BYTES = 8 << 10
CRC_START = int(record_batch.CRC_START)
HEADER = int(HEADER_BYTES)


class BadBatch(Exception):
    """There is no sound batch at `position`; all batches before it are sound."""

    def __init__(self, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{reason} at position {position}, where offset {offset} is expected")
        self.position = position
        self.offset = offset
        self.reason = reason


def walk(
    file: File,
    start: int,
    end: int,
    expected: int,
    *,
    base_offset: int | None = None,
    verify: bool = False,
    gaps: bool = True,
    chunk_bytes: int = LOOK_UP_BYTES,
) -> Iterator[tuple[int, RecordBatchHeader]]:
    """Yield (position, header) of every batch in `start..end` of the file.

    `expected` is the lowest offset that the first batch may have. No offset may be 2^31 or more
    above `base_offset`, which is the segment's and defaults to `expected`. With `verify` checksums
    are verified. Without `gaps` every batch must begin where the one before it ends: the base
    offset is not under the checksum, and only compaction leaves gaps. Raises `BadBatch` where the
    next batch is not sound or cut short; `OSError` if reading fails.
    """
    file.pin()  # recovery walks on workers, and only a pinned file is safe there
    try:
        highest = (expected if base_offset is None else base_offset) + MAX_RELATIVE_OFFSET
        yield from _walk(file, start, end, expected, highest, verify, gaps, chunk_bytes)
    finally:
        file.unpin()


def read_batches(
    file: File, size: int, expected: int, end_offset: int, chunk_bytes: int
) -> Iterator[tuple[bytes, list[RecordBatchHeader]]]:
    """Yield verified whole batches, in pieces of about `chunk_bytes`, of the first `size` bytes.

    `expected` is the lowest offset that the first batch may have, `end_offset` the end of the last
    one. Both are checked because base offsets are not under the checksum: lost batches must not be
    taken for a gap. Raises `BadBatch`; `OSError` if reading fails.
    """
    position = 0
    while position < size:
        data = file.read(position, min(chunk_bytes, size - position))
        if len(data) >= HEADER:
            whole = RecordBatchHeader(data, 0).size
            if chunk_bytes < whole <= size - position:
                data = file.read(position, whole)
        headers = _sound_headers(data, position, expected, end_offset)
        yield data, headers
        position += headers[-1].end
        expected = headers[-1].next_offset
    if expected != end_offset:
        raise BadBatch(size, expected, f"it ends before offset {end_offset}")


def _sound_headers(
    data: bytes, position: int, expected: int, end_offset: int
) -> list[RecordBatchHeader]:
    """Return the headers of the whole batches at the front of `data`, at least one."""
    headers: list[RecordBatchHeader] = []
    try:
        for header in record_batch.batches(data):
            at = position + header.position
            if not expected <= header.base_offset <= header.last_offset < end_offset:
                raise BadBatch(at, expected, f"offset {header.base_offset}")
            if not record_batch.is_intact(data, header):
                raise BadBatch(at, expected, "checksum mismatch")
            headers.append(header)
            expected = header.next_offset
    except CorruptBatch as bad:
        raise BadBatch(position + bad.position, expected, bad.reason) from bad
    if not headers:
        raise BadBatch(position, expected, f"only {len(data)} bytes of a batch")
    return headers


def _walk(
    file: File,
    start: int,
    end: int,
    expected: int,
    highest: int,
    verify: bool,
    gaps: bool,
    chunk_bytes: int,
) -> Iterator[tuple[int, RecordBatchHeader]]:
    position = start
    chunk_start, chunk = start, b""
    while position < end:
        at = position - chunk_start
        if at + HEADER > len(chunk):
            chunk_start, chunk, at = (
                position,
                file.read(position, min(chunk_bytes, end - position)),
                0,
            )
            if len(chunk) < HEADER:
                raise BadBatch(position, expected, f"only {end - position} bytes of a batch")
        header = RecordBatchHeader(chunk, at)
        size = header.batch_length + 12
        base_offset = header.base_offset
        reason = None
        if (
            header.magic != MAGIC
            or size < HEADER
            or position + size > end
            or header.last_offset_delta < 0
            or base_offset < expected
            or base_offset + header.last_offset_delta > highest
            or (base_offset != expected and not gaps)
        ):
            reason = _problem_of(header, size, end - position)
        elif verify:
            if at + size > len(chunk) and size <= chunk_bytes:
                chunk_start, chunk, at = (
                    position,
                    file.read(position, min(chunk_bytes, end - position)),
                    0,
                )
                header = RecordBatchHeader(chunk, 0)
            if _crc(file, position, chunk, at, size) != header.crc:
                reason = "checksum mismatch"
        if reason is not None:
            raise BadBatch(position, expected, reason)
        yield position, header
        expected = base_offset + header.last_offset_delta + 1
        position += size


def _problem_of(header: RecordBatchHeader, size: int, available: int) -> str:
    """Return why a header cannot be that of the next batch."""
    if header.magic != MAGIC:
        return f"magic {header.magic}"
    if size < HEADER or header.last_offset_delta < 0:
        return f"impossible header ({header.batch_length} bytes)"
    if size > available:
        return f"only {available} of the {size} bytes of a batch"
    return f"offset {header.base_offset}"


def _crc(file: File, position: int, chunk: bytes, at: int, size: int) -> int:
    if at + size <= len(chunk):
        return record_batch.crc32c(chunk, at + CRC_START, at + size)
    crc = 0
    offset, end = position + CRC_START, position + size
    while offset < end:
        piece = file.read(offset, min(SCAN_BYTES, end - offset))
        if not piece:
            break
        crc = crc32c(piece, crc)
        offset += len(piece)
    return crc
