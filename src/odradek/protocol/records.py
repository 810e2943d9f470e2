"""The encoding of records inside a batch: checking, reading and writing them.

One record, all varints zigzag as in protocol buffers:

    length          varint   bytes that follow
    attributes      int8     unused
    timestampDelta  varlong  to the batch's base timestamp
    offsetDelta     varint   to the batch's base offset
    keyLength       varint   negative: null
    key             bytes
    valueLength     varint   negative: null
    value           bytes
    headers         varint   count, then each: keyLength varint, key in UTF-8,
                             valueLength varint (negative: null), value

`check_records` checks every field and makes no object per record; the broker needs nothing else. A
`RecordCursor` reads records one after the other, also without objects:

    cursor = RecordCursor(data, start, end, count, base_offset, base_timestamp)
    while cursor.advance():
        cursor.offset, cursor.timestamp
        data[cursor.key : cursor.key + cursor.key_size]          negative size: null
        data[cursor.value : cursor.value + cursor.value_size]    the same
        data[cursor.headers : cursor.end_of_record]              cursor.header_count of them

A reader can stop and go on later, so a consumer can return a batch in pieces. `advance` has checked
its record, headers included, so the positions never leave it. A cursor accepts gaps between offset
deltas, because compaction leaves gaps. `read_records` makes an object of each record;
`record_columns` makes columns. `write_record` and what it calls are the inner loop of producers.

Records are read in place, from `start` to `end` of larger `bytes`. All movement is forward, so one
test at the end of a record (`pos == record_end`) proves that none of its fields ran over. Reading
past the data itself raises IndexError, which becomes `InvalidRecords`.

`check_records` is stricter than Kafka, which would store records that consumers read differently:
offset deltas must be 0, 1, 2, ...; varints that do not fit 32 bits and timestamps beyond 61 bits
are refused instead of wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

Header = tuple[str, bytes | None]

NO_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final[i64] = 1 << 61
MIN_RECORD_BYTES: Final[i64] = 7


class InvalidRecords(Exception):
    """The records section does not match its header; `index` is the invalid record's."""

    def __init__(self, reason: str, index: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index


class InvalidTimestamp(InvalidRecords):
    """A timestamp millions of years away from now."""


class Record:
    """One record: offset, timestamp in ms, key and value (None: null), headers in order."""

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


class RecordsSummary:
    """The result of `check_records`: enough to decide on a batch without its records."""

    def __init__(
        self, max_timestamp: i64, max_timestamp_delta: i64, min_timestamp: i64, null_keys: bool
    ) -> None:
        self.max_timestamp = max_timestamp
        self.max_timestamp_delta = max_timestamp_delta
        self.min_timestamp = min_timestamp
        self.null_keys = null_keys

    def add(self, timestamp: i64, offset_delta: i64) -> None:
        """Include one record's timestamp."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_delta = offset_delta
        if timestamp < self.min_timestamp and timestamp != NO_TIMESTAMP:
            self.min_timestamp = timestamp


def varint(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return the zigzag varint at `pos` (at most 32 bits) and the position after it."""
    byte: i64 = data[pos]
    pos += 1
    raw: i64 = byte & 0x7F
    shift: i64 = 7
    while byte >= 0x80:
        if shift > 28:
            raise InvalidRecords("varint is too long")
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    if raw > 0xFFFFFFFF:
        raise InvalidRecords("varint is too large")
    return (raw >> 1) ^ -(raw & 1), pos


def varlong(data: bytes, pos: i64) -> tuple[i64, i64]:
    """Return the zigzag varint at `pos` (at most 63 bits encoded) and the position after it."""
    byte: i64 = data[pos]
    pos += 1
    raw: i64 = byte & 0x7F
    shift: i64 = 7
    while byte >= 0x80:
        if shift > 56:
            raise InvalidTimestamp("timestamp delta is out of range")
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), pos


def check_bounds(data: bytes, start: i64, end: i64, base_timestamp: i64) -> None:
    """Check the bounds of a records section before its first record is read.

    With them no sum of positions, offsets or timestamps exceeds 64 bits.
    """
    if end > len(data) or start < 0:
        raise InvalidRecords("records run past the end of the data")
    if base_timestamp > MAX_TIMESTAMP or base_timestamp < -MAX_TIMESTAMP:
        raise InvalidTimestamp(f"base timestamp {base_timestamp} is out of range", 0)


def check_records(
    data: bytes, start: i64, end: i64, count: i64, base_timestamp: i64
) -> RecordsSummary:
    """Check all `count` records in `data[start:end]`: structure, offset deltas, no bytes left over.

    Raises `InvalidRecords`. The caller checks the timestamps; -1 (none) does not count as the
    minimum.
    """
    check_bounds(data, start, end, base_timestamp)
    result = RecordsSummary(-1, 0, MAX_TIMESTAMP, False)
    pos = start
    index: i64 = 0
    try:
        while index < count:
            pos = _check_record(data, pos, end, index, base_timestamp, result)
            index += 1
    except IndexError:
        raise InvalidRecords("a record runs past the end of the data", index) from None
    except InvalidRecords as error:
        error.index = index
        raise
    if pos != end:
        raise InvalidRecords("bytes remain after the declared number of records")
    return result


def _check_record(
    data: bytes, pos: i64, end: i64, index: i64, base_timestamp: i64, result: RecordsSummary
) -> i64:
    """Check one record; return where the next one begins.

    A broker spends its time here on large batches. A call takes longer than reading a varint of
    one or two bytes, as most are, so these are read inline. The return value is `record_end`,
    known from the length alone, so the processor can begin with the next record while it still
    checks this one.
    """
    raw: i64 = data[pos]
    more: i64 = data[pos + 1]
    if raw >= 0x80 and more < 0x80:
        length = ((raw & 0x7F | more << 7) >> 1) ^ -(raw & 1)
        pos += 2
    else:
        length, pos = varint(data, pos)
    record_end = pos + length
    if length < 0 or record_end > end:
        raise InvalidRecords(f"record of {length} bytes runs past the end of the batch", index)
    raw = data[pos + 1]
    if raw < 0x80:
        delta = (raw >> 1) ^ -(raw & 1)
        pos += 2
    else:
        delta, pos = varlong(data, pos + 1)
    result.add(base_timestamp + delta, index)
    raw, more = data[pos], data[pos + 1]
    if raw >= 0x80 and more < 0x80:
        offset_delta = ((raw & 0x7F | more << 7) >> 1) ^ -(raw & 1)
        pos += 2
    else:
        offset_delta, pos = varint(data, pos)
    if offset_delta != index:
        raise InvalidRecords(f"offset delta {offset_delta} where {index} is due", index)
    raw = data[pos]
    if raw < 0x80:
        size = (raw >> 1) ^ -(raw & 1)
        pos += 1
    else:
        size, pos = varint(data, pos)
    if size < 0:
        result.null_keys = True
    else:
        pos += size
    size, pos = varint(data, pos)
    if size > 0:
        pos += size
    if data[pos] == 0:
        pos += 1
    else:
        headers, pos = varint(data, pos)
        pos = check_headers(data, pos, record_end, headers, index)
    if pos != record_end:
        raise InvalidRecords("the fields of a record do not add up to its length", index)
    return record_end


def check_headers(data: bytes, pos: i64, end: i64, headers: i64, index: i64) -> i64:
    """Check the headers at `pos`; return the position after them. Raises `InvalidRecords`."""
    if headers < 0 or headers > end - pos:
        raise InvalidRecords(f"invalid number of record headers {headers}", index)
    while headers > 0:
        size, pos = varint(data, pos)
        if size < 0:
            raise InvalidRecords(f"invalid negative header key size {size}", index)
        pos += size
        size, pos = varint(data, pos)
        if size > 0:
            pos += size
        if pos > end:
            raise InvalidRecords("a record header runs past the end of its record", index)
        headers -= 1
    return pos


@final
class RecordCursor:
    """Reads the `count` records in `data[start:end]` one by one; starts before the first.

    `append_time` other than -1 (LogAppendTime) replaces every timestamp. Raises `InvalidRecords`
    for invalid bounds.
    """

    def __init__(
        self,
        data: bytes,
        start: i64,
        end: i64,
        count: i64,
        base_offset: i64,
        base_timestamp: i64,
        append_time: i64 = -1,
    ) -> None:
        check_bounds(data, start, end, base_timestamp)
        self.data = data
        self.end = end
        self.count = count
        self.index: i64 = -1
        """The number of the current record, from 0."""
        self.offset: i64 = -1
        self.timestamp: i64 = -1
        self.key: i64 = 0
        self.key_size: i64 = -1
        self.value: i64 = 0
        self.value_size: i64 = -1
        self.headers: i64 = 0
        self.header_count: i64 = 0
        self.end_of_record = start
        self._base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._append_time = append_time

    def advance(self) -> bool:
        """Move to the next record; False after the last.

        Raises `InvalidRecords` for an invalid record, and for bytes after the last one.
        """
        index = self.index + 1
        if index >= self.count:
            if self.end_of_record != self.end:
                raise InvalidRecords("bytes remain after the declared number of records")
            return False
        try:
            self._read(index)
        except IndexError:
            raise InvalidRecords("a record runs past the end of the data", index) from None
        self.index = index
        return True

    def _read(self, index: i64) -> None:
        data = self.data
        length, pos = varint(data, self.end_of_record)
        end = pos + length
        if length < 0 or end > self.end:
            raise InvalidRecords(f"record of {length} bytes runs past the end of the batch", index)
        timestamp_delta, pos = varlong(data, pos + 1)
        offset_delta, pos = varint(data, pos)
        size, pos = varint(data, pos)
        self.key = pos
        self.key_size = size
        if size > 0:
            pos += size
        size, pos = varint(data, pos)
        self.value = pos
        self.value_size = size
        if size > 0:
            pos += size
        headers, pos = varint(data, pos)
        self.headers = pos
        self.header_count = headers
        if headers != 0:
            pos = check_headers(data, pos, end, headers, index)
        if pos != end:
            raise InvalidRecords("the fields of a record do not add up to its length", index)
        append_time = self._append_time
        self.offset = self._base_offset + offset_delta
        self.timestamp = append_time if append_time >= 0 else self._base_timestamp + timestamp_delta
        self.end_of_record = end


def read_headers(data: bytes, pos: i64, count: i64) -> list[Header]:
    """Return the `count` headers at `pos`, which a cursor has checked."""
    headers: list[Header] = []
    while count > 0:
        size, pos = varint(data, pos)
        name = data[pos : pos + size].decode("utf-8", "replace")
        size, pos = varint(data, pos + size)
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[pos : pos + size]))
            pos += size
        count -= 1
    return headers


def read_records(cursor: RecordCursor) -> Iterator[Record]:
    """Yield the records after the cursor's position.

    Raises `InvalidRecords` when it reaches an invalid record.
    """
    data = cursor.data
    while cursor.advance():
        key = None if cursor.key_size < 0 else data[cursor.key : cursor.key + cursor.key_size]
        at = cursor.value
        value = None if cursor.value_size < 0 else data[at : at + cursor.value_size]
        headers = read_headers(data, cursor.headers, cursor.header_count)
        yield Record(cursor.offset, cursor.timestamp, key, value, headers)


MAX_OVERHEAD_BYTES: Final[i64] = 31
"""The most a record takes besides the contents of its fields: length 5, attributes 1, deltas 10 and
5, sizes of key and value 5 each."""
MAX_SIZE_BY_WORDS: Final[i64] = 0 if __file__.endswith(".py") else 128
"""Slices up to this size are written by words: compiled, that is faster than by an object of their
own."""
NO_HEADERS: Final = b"\0"
"""What `encode_headers` returns for no headers."""


def write_varint(writer: BytesWriter, value: i64) -> None:
    """Write the zigzag varint of `value`, which fits 63 bits."""
    raw: i64 = (value << 1) ^ (value >> 63)
    byte: int  # not i64: only an int goes to the compiled `append`, an i64 to a method call
    while raw > 0x7F:
        byte = (raw & 0x7F) | 0x80
        writer.append(byte)
        raw >>= 7
    byte = raw
    writer.append(byte)


def varint_size(value: i64) -> i64:
    """Return how many bytes `write_varint` writes."""
    raw: i64 = (value << 1) ^ (value >> 63)
    size: i64 = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


def size_upper_bound(key: bytes | None, value: bytes | None, encoded_headers: bytes) -> i64:
    """Return the most that `write_record_raw` writes for a record, at any place in a batch."""
    size: i64 = MAX_OVERHEAD_BYTES + len(encoded_headers)
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    return size


def write_record(
    writer: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
) -> None:
    """Write a record whose headers are pairs; `write_record_raw` takes them encoded."""
    encoded = encode_headers(headers) if headers else NO_HEADERS
    write_record_raw(writer, offset_delta, timestamp_delta, key, value, encoded)


def write_record_raw(
    writer: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    encoded_headers: bytes,
) -> None:
    """Write one record whose headers are already encoded."""
    length: i64 = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
    length += _field_size(key) + _field_size(value) + len(encoded_headers)
    write_varint(writer, length)
    writer.append(0)
    write_varint(writer, timestamp_delta)
    write_varint(writer, offset_delta)
    _write_field(writer, key)
    _write_field(writer, value)
    writer.write(encoded_headers)


def write_record_slices(
    writer: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    keys: bytes,
    key: i64,
    key_size: i64,
    values: bytes,
    value: i64,
    value_size: i64,
    encoded_headers: bytes,
) -> None:
    """Write one record whose key is `keys[key:key + key_size]` and whose value is a slice of
    `values`; a negative size is null."""
    length: i64 = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
    length += varint_size(key_size) + varint_size(value_size) + len(encoded_headers)
    if key_size > 0:
        length += key_size
    if value_size > 0:
        length += value_size
    write_varint(writer, length)
    writer.append(0)
    write_varint(writer, timestamp_delta)
    write_varint(writer, offset_delta)
    write_varint(writer, key_size)
    if key_size > 0:
        _write_slice(writer, keys, key, key_size)
    write_varint(writer, value_size)
    if value_size > 0:
        _write_slice(writer, values, value, value_size)
    writer.write(encoded_headers)


def _write_slice(writer: BytesWriter, data: bytes, at: i64, size: i64) -> None:
    end = at + size
    if size > MAX_SIZE_BY_WORDS:
        writer.write(data[at:end])
        return
    while at + 8 <= end:
        write_i64_le(writer, read_i64_le(data, at))
        at += 8
    while at < end:
        byte: int = data[at]
        writer.append(byte)
        at += 1


def _field_size(content: bytes | None) -> i64:
    if content is None:
        return 1
    size: i64 = len(content)
    return varint_size(size) + size


def _write_field(writer: BytesWriter, content: bytes | None) -> None:
    if content is None:
        writer.append(1)
    else:
        write_varint(writer, len(content))
        writer.write(content)


def encode_headers(headers: Sequence[Header]) -> bytes:
    """Return the encoded headers of a record, preceded by their number."""
    writer = BytesWriter()
    write_varint(writer, len(headers))
    for name, content in headers:
        _write_field(writer, name.encode())
        _write_field(writer, content)
    return writer.getvalue()
