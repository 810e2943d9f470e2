"""The records inside a batch: their encoding, and what reads them one by one.

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

A compiled leaf: the inner loop of the broker and of the clients. `walk` checks every field and
makes no object per record; the broker needs nothing else. `record_cursor` reads records one after
the other, `record_columns` makes columns of them, `record_writer` writes. Records are read in
place, from `start` to `end` of larger `bytes`.

Bounds. All movement is forward, so one test at the end of a record (`pos == record_end`) proves
that none of its fields ran over. Reading past the data itself raises IndexError, which becomes
`InvalidRecords` at the door.

Stricter than Kafka, where it would store what readers understand differently: offset deltas must
be 0, 1, 2, ...; varints that do not fit 32 bits and timestamps beyond 61 bits are refused instead
of wrapped.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

Header = tuple[str, bytes | None]

NO_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final[i64] = 1 << 61
MIN_RECORD_BYTES: Final[i64] = 7


class InvalidRecords(Exception):
    """The records section does not hold what its header says; `index` is the record in
    question."""

    def __init__(self, reason: str, index: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index


class InvalidTimestamp(InvalidRecords):
    """A timestamp that no clock shows: millions of years away."""


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


class Walk:
    """What `walk` saw: enough to decide on a batch without looking at its records again."""

    def __init__(
        self, max_timestamp: i64, max_timestamp_delta: i64, min_timestamp: i64, null_keys: bool
    ) -> None:
        self.max_timestamp = max_timestamp
        self.max_timestamp_delta = max_timestamp_delta
        self.min_timestamp = min_timestamp
        self.null_keys = null_keys

    def see(self, timestamp: i64, offset_delta: i64) -> None:
        """Take in one record's timestamp."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_delta = offset_delta
        if timestamp < self.min_timestamp and timestamp != NO_TIMESTAMP:
            self.min_timestamp = timestamp


def varint(data: bytes, pos: i64) -> tuple[i64, i64]:
    """The zigzag varint at `pos` (at most 32 bits) and the position after it."""
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
    """The zigzag varint at `pos`, at most 63 bits before zigzag, and the position after it."""
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
    """What every reader of a records section makes sure of before its first record.

    With it no sum of positions, offsets or timestamps leaves 64 bits.
    """
    if end > len(data) or start < 0:
        raise InvalidRecords("records run past the end of the data")
    if base_timestamp > MAX_TIMESTAMP or base_timestamp < -MAX_TIMESTAMP:
        raise InvalidTimestamp(f"base timestamp {base_timestamp} is out of range", 0)


def walk(data: bytes, start: i64, end: i64, count: i64, base_timestamp: i64) -> Walk:
    """Check all `count` records in `data[start:end]`: structure, offset deltas 0, 1, ..., nothing
    left over.

    Raises `InvalidRecords`. Timestamps are for the caller to judge: -1 (none) does not count as
    the minimum.
    """
    check_bounds(data, start, end, base_timestamp)
    result = Walk(-1, 0, MAX_TIMESTAMP, False)
    pos = start
    index: i64 = 0
    try:
        while index < count:
            pos = _walk_one(data, pos, end, index, base_timestamp, result)
            index += 1
    except IndexError:
        raise InvalidRecords("a record runs past the end of the data", index) from None
    except InvalidRecords as error:
        error.index = index
        raise
    if pos != end:
        raise InvalidRecords("bytes remain after the declared number of records")
    return result


def _walk_one(
    data: bytes, pos: i64, end: i64, index: i64, base_timestamp: i64, result: Walk
) -> i64:
    """Check one record; where the next one begins.

    Here a broker spends its time on large batches. A call takes longer than reading a varint of
    one or two bytes, which most are, so these are read where they stand. And what is returned is
    `record_end`, known from the length alone: so the processor can begin with the next record
    while it still checks this one.
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
    result.see(base_timestamp + delta, index)
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
    """Check as many headers from `pos`; the position after them. Raises `InvalidRecords`."""
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
