"""Decodes record batches into columns, in buffers of Arrow's memory layout.

No object is made per record. The columns are `bytes` that any Arrow library wraps without a copy;
this module uses no Arrow library. All integers are little-endian.

    offsets, timestamps      int64 each
    key, value               a `BinaryColumn` each, for an Arrow `binary`
    headers                  Arrow `list<struct<key: utf8, value: binary>>`
        header_offsets       int32, one more than records, into the two below
        header_key, header_value     a `BinaryColumn` each

The bytes of keys and values stay in the received buffers until the column is complete: a column
records the edges of its values there (`BinaryChunk`), and the Arrow library or `finish` copies them
once, all together:

    BinaryBuffers
        validity             one bit per value, least significant first; 0: null
        offsets              int32, one more than values: value i is data[offsets[i]:offsets[i+1]]
        data

The int32 offsets limit one set of columns to 2 GiB of keys, of values and of headers: callers stop
by `data_bytes` long before that.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, write_i32_le, write_i64_le
from mypy_extensions import i64

from odradek.protocol.record_batch import MAX_SECTION_BYTES, RecordBatchHeader, cursor_of
from odradek.protocol.records import RecordCursor, varint

MAX_DATA_BYTES: Final[i64] = (1 << 31) - 1
MAX_COUNT: Final[i64] = (1 << 31) - 1
EDGE_BYTES: Final = 4


class BinaryBuffers:
    """One finished column of byte strings in Arrow's `binary` (or `utf8`) layout."""

    def __init__(
        self, count: int, null_count: int, validity: bytes, offsets: bytes, data: bytes
    ) -> None:
        self.count = count
        self.null_count = null_count
        self.validity = validity
        self.offsets = offsets
        self.data = data


class BinaryChunk:
    """Consecutive values of a column that lie in one buffer.

    Value i is data[edges[2 * i]:edges[2 * i + 1]]; the int32 edges never decrease.
    """

    def __init__(self, data: bytes, edges: bytes) -> None:
        self.data = data
        self.edges = edges

    @property
    def count(self) -> int:
        return len(self.edges) // (2 * EDGE_BYTES)


@final
class BinaryColumn:
    """Collects a column of byte strings, any of which may be null."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.null_count: i64 = 0
        self.length: i64 = 0
        self._chunks: list[BinaryChunk] = []
        self._data = b""
        self._edges = BytesWriter()
        self._last_edge: i64 = 0
        self._validity = BytesWriter()
        self._bits: i64 = 0

    def append(self, data: bytes, pos: i64, size: i64) -> None:
        """Add `data[pos:pos + size]`; a negative size adds a null."""
        bit = self.count & 7
        end = pos
        if size < 0:
            self.null_count += 1
        else:
            self._bits |= 1 << bit
            end += size
            self.length += size
            if self.length > MAX_DATA_BYTES:
                raise OverflowError("a column holds at most 2 GiB")
        if data is not self._data or pos < self._last_edge:
            self._end_chunk()
            self._data = data
        first: int = pos
        last: int = end
        write_i32_le(self._edges, first)
        write_i32_le(self._edges, last)
        self._last_edge = end
        if bit == 7:
            byte: int = self._bits
            self._validity.append(byte)
            self._bits = 0
        self.count += 1

    def _end_chunk(self) -> None:
        edges = self._edges.getvalue()
        if edges:
            self._chunks.append(BinaryChunk(self._data, edges))
            self._edges = BytesWriter()

    def chunks(self) -> list[BinaryChunk]:
        """Return the chunks of the values added so far, in order."""
        self._end_chunk()
        return self._chunks

    def validity(self) -> bytes:
        """Return one bit per value added so far, least significant first; 0: null."""
        validity = self._validity.getvalue()
        if self.count & 7:
            bits: int = self._bits
            validity += bits.to_bytes(1, "little")
        return validity

    def finish(self) -> BinaryBuffers:
        """Return the buffers of the values added so far, copied value by value."""
        data, offsets = BytesWriter(), BytesWriter()
        length = 0
        write_i32_le(offsets, length)
        for chunk in self.chunks():
            for index in range(0, len(chunk.edges), 2 * EDGE_BYTES):
                start: int = read_i32_le(chunk.edges, index)
                end: int = read_i32_le(chunk.edges, index + EDGE_BYTES)
                data.write(chunk.data[start:end])
                length += end - start
                write_i32_le(offsets, length)
        return BinaryBuffers(
            self.count, self.null_count, self.validity(), offsets.getvalue(), data.getvalue()
        )


@final
class RecordColumns:
    """Collects the columns of records, batch after batch.

    After an `InvalidRecords` the columns contain a part of that batch and must be discarded.
    """

    def __init__(self, with_headers: bool = True) -> None:
        self.with_headers = with_headers
        self.count: i64 = 0
        self.key = BinaryColumn()
        self.value = BinaryColumn()
        self.header_key = BinaryColumn()
        self.header_value = BinaryColumn()
        self._offsets = BytesWriter()
        self._timestamps = BytesWriter()
        self._header_offsets = BytesWriter()
        write_i32_le(self._header_offsets, 0)

    @property
    def data_bytes(self) -> int:
        """The total size of the keys, values and headers added so far, in bytes."""
        return self._data_bytes()

    @property
    def offsets(self) -> bytes:
        return self._offsets.getvalue()

    @property
    def timestamps(self) -> bytes:
        return self._timestamps.getvalue()

    @property
    def header_offsets(self) -> bytes:
        return self._header_offsets.getvalue()

    def append_batch(
        self,
        data: bytes,
        header: RecordBatchHeader,
        first_offset: i64,
        end_offset: i64,
        max_bytes: int = MAX_SECTION_BYTES,
    ) -> None:
        """Add the batch's records with `first_offset <= offset < end_offset`.

        The caller skips control batches. Raises the errors of `append` and
        `record_batch.records_section`.
        """
        self.append(cursor_of(data, header, max_bytes), first_offset, end_offset)

    def append(
        self,
        cursor: RecordCursor,
        first_offset: i64,
        end_offset: i64,
        max_count: i64 = MAX_COUNT,
        max_data_bytes: i64 = MAX_DATA_BYTES,
    ) -> bool:
        """Add the records after the cursor with `first_offset <= offset < end_offset`.

        Stops when the columns have `max_count` records or more than `max_data_bytes`. Returns True
        if the cursor reached its end. Raises `InvalidRecords`.
        """
        data = cursor.data
        while self.count < max_count and self._data_bytes() <= max_data_bytes:
            if not cursor.advance():
                return True
            offset = cursor.offset
            if first_offset <= offset < end_offset:
                write_i64_le(self._offsets, offset)
                write_i64_le(self._timestamps, cursor.timestamp)
                self.key.append(data, cursor.key, cursor.key_size)
                self.value.append(data, cursor.value, cursor.value_size)
                if self.with_headers and cursor.header_count > 0:
                    self._append_headers(data, cursor.headers, cursor.header_count)
                header_count: int = self.header_key.count
                write_i32_le(self._header_offsets, header_count)
                self.count += 1
        return False

    def _data_bytes(self) -> i64:
        headers = self.header_key.length + self.header_value.length
        return self.key.length + self.value.length + headers

    def _append_headers(self, data: bytes, pos: i64, count: i64) -> None:
        """Add headers that a cursor has checked."""
        while count > 0:
            size, pos = varint(data, pos)
            self.header_key.append(data, pos, size)
            size, pos = varint(data, pos + size)
            self.header_value.append(data, pos, size)
            if size > 0:
                pos += size
            count -= 1
