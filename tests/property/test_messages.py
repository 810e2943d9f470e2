"""Messages of any version are read as written, and damaged ones raise only `ProtocolError`."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ProtocolError
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import fields_of, form_of
from property.message_strategies import messages

EVERY_VERSION = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for api in MESSAGES.values()
    for cls in (api.request, api.response)
    for version in range(api.versions[0], api.versions[1] + 1)
]
quick = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def plain(value: Any) -> Any:
    """Return the value with ranges of the frame replaced by their bytes, for comparison."""
    if isinstance(value, ByteRange):
        return bytes(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(form_of(type(value))):
        return [plain(getattr(value, item.name)) for item in fields_of(type(value))]
    return value


@pytest.mark.parametrize(("cls", "version"), EVERY_VERSION)
@quick
@given(data=st.data())
def test_a_message_is_read_as_it_was_written(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    frame = encode_bytes(message, version)
    assert plain(decode(cls, version, frame)) == plain(message)
    assert plain(decode(cls, version, b"head" + frame, 4)) == plain(message)


@pytest.mark.parametrize(("cls", "version"), EVERY_VERSION)
@quick
@given(data=st.data())
def test_a_truncated_message_is_a_protocol_error(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    frame = encode_bytes(data.draw(messages(cls, version)), version)
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode(cls, version, frame[:end])


@pytest.mark.parametrize(("cls", "version"), EVERY_VERSION)
@quick
@given(data=st.data())
def test_a_damaged_message_is_read_or_is_a_protocol_error(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    frame = bytearray(encode_bytes(data.draw(messages(cls, version)), version))
    spots = st.tuples(st.integers(0, max(len(frame) - 1, 0)), st.integers(0, 255))
    for position, byte in data.draw(st.lists(spots, max_size=8)):
        frame[position : position + 1] = bytes([byte])
    try:
        message = decode(cls, version, bytes(frame))
    except ProtocolError:
        return
    again = decode(cls, version, encode_bytes(message, version))
    assert plain(again) == plain(message)


@pytest.mark.parametrize(("cls", "version"), EVERY_VERSION)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(frame=st.binary(max_size=120))
def test_random_bytes_are_read_or_are_a_protocol_error(
    cls: type[Any], version: int, frame: bytes
) -> None:
    with contextlib.suppress(ProtocolError):
        decode(cls, version, frame)
