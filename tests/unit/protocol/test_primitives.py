"""Primitive encodings at their limits."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.model.errors import ProtocolError
from odradek.protocol.primitives import (
    KNOWN_IDS_MAX,
    read_uvarint,
    skip_tags,
    uuid_of,
    uvarint,
)

EDGES = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16383, "ff7f"),
    (16384, "808001"),
    (2**31 - 1, "ffffffff07"),
    (2**32 - 1, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "written"), EDGES)
def test_an_unsigned_varint_is_read_as_written(value: int, written: str) -> None:
    assert uvarint(value).hex() == written
    assert read_uvarint(b"xx" + bytes.fromhex(written) + b"yy", 2) == (
        value,
        2 + len(written) // 2,
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x1f"],
    ids=["empty", "unfinished", "unfinished at 4 bytes", "6 bytes", "33 bits"],
)
def test_an_invalid_unsigned_varint_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(data, 0)


def test_a_varint_longer_than_necessary_is_read_as_in_kafka() -> None:
    # Writers may reserve a fixed width for a length.
    assert read_uvarint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)


def test_skip_tags_skips_each_field_by_its_size() -> None:
    section = b"\x02" + b"\x00\x03abc" + b"\xe4\x58\x00"
    assert skip_tags(section + b"rest", 0, 10) == (len(section), 8)
    assert skip_tags(b"\x00", 0, 10) == (1, 10)


def test_more_tagged_fields_than_objects_are_refused() -> None:
    section = b"\x03" + b"\x00\x00" * 3
    assert skip_tags(section, 0, 3) == (len(section), 0)
    with pytest.raises(ProtocolError, match="3 tagged fields"):
        skip_tags(section, 0, 2)


@pytest.mark.parametrize(
    "section",
    [b"", b"\x01", b"\x01\x00", b"\x01\x00\x02a", b"\x02\x00\x00", b"\xff\xff\xff\xff\x0f\x00\x00"],
    ids=["none", "no tag", "no size", "short", "one of two", "4 thousand million"],
)
def test_a_tag_section_past_the_end_of_the_frame_is_refused(section: bytes) -> None:
    with pytest.raises(ProtocolError):
        skip_tags(section, 0, 1000)


def test_an_id_is_the_same_whether_cached_or_not() -> None:
    first = uuid_of(bytes(range(16)))
    assert first == UUID(bytes=bytes(range(16)))
    for value in range(KNOWN_IDS_MAX + 10):
        uuid_of(value.to_bytes(16, "big"))
    assert uuid_of(bytes(range(16))) == first
