"""The records of a batch one after the other, without an object for each: where their fields are.

    cursor = RecordCursor(data, start, end, count, base_offset, base_timestamp)
    while cursor.advance():
        cursor.offset, cursor.timestamp
        data[cursor.key : cursor.key + cursor.key_size]          negative size: null
        data[cursor.value : cursor.value + cursor.value_size]    the same
        data[cursor.headers : cursor.end_of_record]              cursor.header_count of them

A reader stops where it likes and goes on later: that is how a consumer hands out a batch in
pieces. `advance` has checked the record it stands on, headers included, so who follows the
positions never leaves it. Offset deltas may have gaps, as compaction leaves them. The encoding is
described in `records`.

A compiled leaf: what makes objects of records (`decode`, the consumer) and what makes columns of
them (`record_columns`) is built on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from mypy_extensions import i64

from odradek.protocol.records import (
    Header,
    InvalidRecords,
    Record,
    check_bounds,
    check_headers,
    varint,
    varlong,
)


@final
class RecordCursor:
    """Stands before the first of the `count` records in `data[start:end]`.

    `append_time` other than -1 (LogAppendTime) takes the place of every timestamp. Raises
    `InvalidRecords` for bounds that cannot be.
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
        """Which record this stands on."""
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
        """To the next record; False after the last. Raises `InvalidRecords` for one that is not
        right, and for bytes after the last.
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
    """The `count` headers at `pos`, which a cursor has checked."""
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


def decode(cursor: RecordCursor) -> Iterator[Record]:
    """The records behind where the cursor stands, one object each, lazily.

    Raises `InvalidRecords` when it comes to a record that is not right.
    """
    data = cursor.data
    while cursor.advance():
        key = None if cursor.key_size < 0 else data[cursor.key : cursor.key + cursor.key_size]
        at = cursor.value
        value = None if cursor.value_size < 0 else data[at : at + cursor.value_size]
        headers = read_headers(data, cursor.headers, cursor.header_count)
        yield Record(cursor.offset, cursor.timestamp, key, value, headers)
