"""Many records to send at once: an object that gives the bytes of each.

    ListInput      Python objects, serialized one by one
    ColumnInput    columns in Arrow's memory layout

The bytes of a record are made when it is sent and are garbage once it is encoded. Of columns, no
object stays per record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from odradek.client.errors import SerializationError
from odradek.client.serializers import Serializer
from odradek.protocol.records import NO_HEADERS, Header, encode_headers

NO_PARTITION: Final[i64] = -1
NO_TIMESTAMP: Final[i64] = -1
NULL_SIZE: Final[i64] = -1
NO_SLICE: Final[i64] = -2
NO_HEADER_LIST: Final[list[Header]] = []


class RecordInput:
    """`count` records; the parts of a record may be asked for in any order."""

    def __init__(self, count: i64) -> None:
        self.count = count

    def key(self, index: i64) -> bytes | None:
        raise NotImplementedError

    def value(self, index: i64) -> bytes | None:
        raise NotImplementedError

    def headers(self, index: i64) -> bytes:
        """Return the encoded headers."""
        return NO_HEADERS

    def partition(self, index: i64) -> i64:
        """Return the record's own partition; -1: any."""
        return NO_PARTITION

    def timestamp_ms(self, index: i64) -> i64:
        """Return the record's own timestamp; -1: now."""
        return NO_TIMESTAMP


@final
class ListInput(RecordInput):
    """Objects with their serializers. `keys` None: no record has a key."""

    def __init__(
        self,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None,
        key: Serializer,
        value: Serializer,
        headers: list[Header],
    ) -> None:
        self._values = listed("values", values)
        self._keys = None if keys is None else listed("keys", keys)
        super().__init__(len(self._values))
        if self._keys is not None and len(self._keys) != len(self._values):
            raise ValueError(f"{len(self._keys)} keys for {self.count} values: give as many")
        self._topic = topic
        self._key = key
        self._value = value
        self._pairs = headers
        self._headers = encode_headers(headers) if headers else NO_HEADERS

    def key(self, index: i64) -> bytes | None:
        keys = self._keys
        return None if keys is None else self._key.to_bytes(self._topic, self._pairs, keys[index])

    def value(self, index: i64) -> bytes | None:
        return self._value.to_bytes(self._topic, self._pairs, self._values[index])

    def headers(self, index: i64) -> bytes:
        return self._headers


def listed(what: str, given: Any) -> list[object]:
    """Return the keys or values as a list. Raises `TypeError` for text, bytes and dicts: their
    letters or keys would be sent as records."""
    if isinstance(given, (str, bytes, bytearray, dict)):
        raise TypeError(
            f"a {type(given).__name__} is one, not the {what} of many records. What to do: give a "
            f"list of {what}, or send() one record"
        )
    return given if isinstance(given, list) else list(given)


@final
class Validity:
    """Which values are not null: a bitmap from bit `offset` on; b"" if no value is null, or all
    values are (`all_null`)."""

    def __init__(self, bitmap: bytes, offset: i64, all_null: bool = False) -> None:
        self._bitmap = bitmap
        self._offset = offset
        self._all_null = all_null
        self._has_bitmap = len(bitmap) > 0

    def is_null(self, index: i64) -> bool:
        if not self._has_bitmap:
            return self._all_null
        at = index + self._offset
        byte: i64 = self._bitmap[at >> 3]
        return (byte >> (at & 7)) & 1 == 0


@final
class Edges:
    """The offsets at which n values begin and end: n + 1 integers of 32 or 64 bits, of which the
    first is `base`."""

    def __init__(self, offsets: bytes, base: i64, wide: bool) -> None:
        self._offsets = offsets
        self._base = base
        self._wide = wide

    def at(self, index: i64) -> i64:
        """Return the begin of value `index`, which is the end of the one before. Raises
        `IndexError`."""
        if self._wide:
            return read_i64_le(self._offsets, index * 8) - self._base
        return i64(read_i32_le(self._offsets, index * 4)) - self._base


@final
class BinaryColumn:
    """Byte strings or text."""

    def __init__(self, validity: Validity, edges: Edges, data: bytes) -> None:
        self._validity = validity
        self._edges = edges
        self.data = data

    def get(self, index: i64) -> bytes | None:
        """Return a value. Raises `SerializationError` if its edges are not those of a slice."""
        start, size = self.slice(index)
        if size == NULL_SIZE:
            return None
        if size == NO_SLICE:
            raise SerializationError(
                f"value {index} of a column ends before it begins, or outside the column's "
                f"{len(self.data)} bytes: what exported the Arrow data gave wrong offsets"
            )
        return self.data[start : start + size]

    def slice(self, index: i64) -> tuple[i64, i64]:
        """Return where in `data` a value begins, and its size; -1 for null, -2 if the edges are not
        those of a slice."""
        if self._validity.is_null(index):
            return 0, NULL_SIZE
        start, end = self._edges.at(index), self._edges.at(index + 1)
        if start < 0 or end < start or end > len(self.data):
            return 0, NO_SLICE
        return start, end - start


NULLS: Final = BinaryColumn(Validity(b"", 0, True), Edges(b"", 0, False), b"")
"""A column of nulls, of any length."""


@final
class HeadersColumn:
    """Lists of header keys and values; the edges are the limits of each record's list in both."""

    def __init__(
        self, validity: Validity, edges: Edges, keys: BinaryColumn, values: BinaryColumn
    ) -> None:
        self._validity = validity
        self._edges = edges
        self._keys = keys
        self._values = values

    def get(self, index: i64, common: list[Header]) -> bytes:
        """Return the encoded headers of one record, behind `common`. Raises `SerializationError`
        for a header without key."""
        found = common.copy()
        if self._validity.is_null(index):
            return encode_headers(found) if found else NO_HEADERS
        at = self._edges.at(index)
        end = self._edges.at(index + 1)
        while at < end:
            name = self._keys.get(at)
            if name is None:
                raise SerializationError("a row has a header whose key is null")
            found.append((name.decode(), self._values.get(at)))
            at += 1
        return encode_headers(found) if found else NO_HEADERS


@final
class NumberColumn:
    """64-bit integers; null is -1."""

    def __init__(self, validity: Validity, data: bytes) -> None:
        self._validity = validity
        self._data = data

    def get(self, index: i64) -> i64:
        return -1 if self._validity.is_null(index) else read_i64_le(self._data, index * 8)


@final
class ColumnInput(RecordInput):
    """Columns of equal length; None for a column that is missing, which is as one of nulls.
    `common_headers` are those of every record."""

    def __init__(
        self,
        count: i64,
        key: BinaryColumn | None,
        value: BinaryColumn | None,
        headers: HeadersColumn | None,
        partition: NumberColumn | None,
        timestamp: NumberColumn | None,
        common_headers: list[Header] = NO_HEADER_LIST,
    ) -> None:
        super().__init__(count)
        self._common_headers = common_headers
        self.encoded_headers = encode_headers(common_headers)
        """The headers of every record, if it is plain."""
        self.keys = NULLS if key is None else key
        self.values = NULLS if value is None else value
        self._headers = headers
        self._partition = partition
        self._timestamp = timestamp
        self.is_plain = headers is None
        """True if no record makes objects that the garbage collector follows. It could run while a
        lock is held, and with it a finalizer that sends."""

    def key(self, index: i64) -> bytes | None:
        return self.keys.get(index)

    def value(self, index: i64) -> bytes | None:
        return self.values.get(index)

    def headers(self, index: i64) -> bytes:
        column = self._headers
        return self.encoded_headers if column is None else column.get(index, self._common_headers)

    def partition(self, index: i64) -> i64:
        column = self._partition
        return NO_PARTITION if column is None else column.get(index)

    @property
    def has_keys(self) -> bool:
        """True if records may have keys."""
        return self.keys is not NULLS

    @property
    def has_partitions(self) -> bool:
        """True if records may have partitions of their own."""
        return self._partition is not None

    def timestamp_ms(self, index: i64) -> i64:
        column = self._timestamp
        return NO_TIMESTAMP if column is None else column.get(index)
