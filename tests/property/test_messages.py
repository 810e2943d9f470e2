"""Messages of any version are read as written, and damaged ones raise only `ProtocolError`."""

from __future__ import annotations

import contextlib
import dataclasses
from random import Random
from typing import Any

import pytest

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ProtocolError
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import fields_of, form_of
from property.random_messages import random_messages

every_version = pytest.mark.parametrize(
    ("cls", "version"),
    [
        pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
        for api in MESSAGES.values()
        for cls in (api.request, api.response)
        for version in range(api.versions[0], api.versions[1] + 1)
    ],
)


def plain(value: Any) -> Any:
    """Return the value in a form that can be compared: ranges of the frame as their bytes, and
    floats as text, because a NaN does not equal itself."""
    if isinstance(value, ByteRange):
        return bytes(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(form_of(type(value))):
        return [plain(getattr(value, item.name)) for item in fields_of(type(value))]
    return value


@every_version
def test_a_message_is_read_as_it_was_written(cls: type[Any], version: int) -> None:
    for _, message in random_messages(cls, version, 12):
        frame = encode_bytes(message, version)
        assert plain(decode(cls, version, frame)) == plain(message)
        assert plain(decode(cls, version, b"head" + frame, 4)) == plain(message)


@every_version
def test_a_truncated_message_is_a_protocol_error(cls: type[Any], version: int) -> None:
    for _, message in random_messages(cls, version, 6):
        frame = encode_bytes(message, version)
        for end in range(len(frame)):
            with pytest.raises(ProtocolError):
                decode(cls, version, frame[:end])


@every_version
def test_a_damaged_message_is_read_or_is_a_protocol_error(cls: type[Any], version: int) -> None:
    for random, message in random_messages(cls, version, 24):
        frame = bytearray(encode_bytes(message, version))
        for _ in range(random.randint(1, 8)):
            position = random.randrange(max(len(frame), 1))
            frame[position : position + 1] = random.randbytes(1)
        try:
            read = decode(cls, version, bytes(frame))
        except ProtocolError:
            continue
        again = decode(cls, version, encode_bytes(read, version))
        assert plain(again) == plain(read)


@every_version
def test_random_bytes_are_read_or_are_a_protocol_error(cls: type[Any], version: int) -> None:
    random = Random(f"{cls.__name__}-{version}")
    for length in range(120):
        frame = random.randbytes(length)
        for bits in (0xFF, 0x03):  # Small bytes are plausible lengths, and reach deeper.
            with contextlib.suppress(ProtocolError):
                decode(cls, version, bytes(byte & bits for byte in frame))
