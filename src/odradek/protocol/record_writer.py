"""Writing records, one by one, in the encoding that `records` describes.

A compiled leaf: the inner loop of every producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from odradek.protocol.records import Header

MAX_OVERHEAD_BYTES: Final[i64] = 31
"""What a record takes beside the contents of its fields, at most: length 5, attributes 1, deltas
10 and 5, sizes of key and value 5 each."""
NO_HEADERS: Final = b"\0"
"""What `encode_headers` makes of none."""


def write_varint(writer: BytesWriter, value: i64) -> None:
    """Zigzag varint of `value`, which fits 63 bits."""
    raw: i64 = (value << 1) ^ (value >> 63)
    byte: int  # not i64: only an int goes to the compiled `append`, an i64 to a method call
    while raw > 0x7F:
        byte = (raw & 0x7F) | 0x80
        writer.append(byte)
        raw >>= 7
    byte = raw
    writer.append(byte)


def varint_size(value: i64) -> i64:
    """How many bytes `write_varint` writes."""
    raw: i64 = (value << 1) ^ (value >> 63)
    size: i64 = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


def size_upper_bound(key: bytes | None, value: bytes | None, encoded_headers: bytes) -> i64:
    """What `encode_raw` writes at most, wherever in a batch the record comes to stand."""
    size: i64 = MAX_OVERHEAD_BYTES + len(encoded_headers)
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    return size


def encode(
    writer: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
) -> None:
    """Append one record."""
    encoded = encode_headers(headers) if headers else NO_HEADERS
    encode_raw(writer, offset_delta, timestamp_delta, key, value, encoded)


def encode_raw(
    writer: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    encoded_headers: bytes,
) -> None:
    """Append one record whose headers are encoded already."""
    length: i64 = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
    length += _field_size(key) + _field_size(value) + len(encoded_headers)
    write_varint(writer, length)
    writer.append(0)
    write_varint(writer, timestamp_delta)
    write_varint(writer, offset_delta)
    _write_field(writer, key)
    _write_field(writer, value)
    writer.write(encoded_headers)


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
    """The headers of a record, their number first."""
    writer = BytesWriter()
    write_varint(writer, len(headers))
    for name, content in headers:
        _write_field(writer, name.encode())
        _write_field(writer, content)
    return writer.getvalue()
