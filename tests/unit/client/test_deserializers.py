"""Deserializers as applications give them, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pydantic
import pytest

from odradek.client.deserializers import Deserializers, deserializer
from odradek.client.errors import ConfigError
from odradek.protocol.record_batch_builder import build
from odradek.protocol.records import Header, RecordCursor


def read(wanted: object, value: bytes | None) -> object:
    """Return the result for a value."""
    section = build([(None, value, [("schema", b"7")], 0)])[61:]
    cursor = RecordCursor(section, 0, len(section), 1, 0, 0)
    assert cursor.advance()
    return deserializer(wanted).read("orders", cursor, cursor.value, cursor.value_size)


@dataclass
class Order:
    id: int
    item: str = "pen"


@dataclass
class Undecidable:
    """JSON does not say which of the two an object is."""

    of: Order | dict[str, int]


class BySchema:
    """A deserializer that uses headers."""

    def deserialize(self, topic: str, headers: Sequence[Header], data: bytes, /) -> str:
        return f"{topic}/{dict(headers)['schema']!r}/{data!r}"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, b"12"),
        (bytes, b"12"),
        ("bytes", b"12"),
        ("auto", b"12"),
        (str, "12"),
        ("str", "12"),
        ("json", 12),
        (int, 12),
        (len, 2),
        (lambda data: data[::-1], b"21"),
        (BySchema(), "orders/b'7'/b'12'"),
    ],
)
def test_each_deserializer_makes_its_object(wanted: object, expected: object) -> None:
    assert read(wanted, b"12") == expected


def test_message_pack_is_decoded() -> None:
    assert read("msgpack", b"\x81\xa1a\x92\x01\xc0") == {"a": [1, None]}


def test_json_is_checked_against_the_type() -> None:
    assert read(Order, b'{"id": 5}') == Order(5, "pen")
    with pytest.raises(ValueError, match="Expected `int`"):
        read(Order, b'{"id": "five"}')


class Model(pydantic.BaseModel):
    id: int


@pydantic.dataclasses.dataclass
class Checked:
    id: int


def test_pydantic_models_are_made_by_pydantic() -> None:
    assert read(Model, b'{"id": "5"}') == Model(id=5)
    assert read(Checked, b'{"id": 5}') == Checked(5)
    with pytest.raises(ValueError, match="valid integer"):
        read(Model, b'{"id": "five"}')


class Strict(pydantic.BaseModel, strict=True):
    at: datetime


class Unknown:
    """msgspec can make nothing of it, nor pydantic."""


def test_pydantic_models_inside_other_types_are_made_by_pydantic() -> None:
    assert read(list[Model], b'[{"id": "5"}]') == [Model(id=5)]
    assert read(Model | None, b'{"id": 5}') == Model(id=5)
    assert read(Model | None, b"null") is None
    assert read(dict[str, Strict], b'{"a": {"at": "2026-01-01T00:00:00Z"}}') == {
        "a": Strict(at=datetime(2026, 1, 1, tzinfo=UTC))
    }
    with pytest.raises(ValueError, match=r"valid integer(.|\n)*\$\[0\]"):
        read(list[Model], b'[{"id": "five"}]')
    with pytest.raises(NotImplementedError, match="Unknown"):
        read(list[Unknown], b"[{}]")


def test_generic_types_are_types_and_not_callables() -> None:
    assert read(list[int], b"[1, 2]") == [1, 2]
    assert read(int | None, b"null") is None
    with pytest.raises(ValueError, match="Expected `array`"):
        read(list[int], b"12")


@pytest.mark.parametrize("wanted", [None, "str", "json", Order, len, BySchema()])
def test_null_is_read_as_none_by_every_deserializer(wanted: object) -> None:
    assert read(wanted, None) is None


def test_an_argument_that_is_no_deserializer_is_refused() -> None:
    with pytest.raises(ConfigError, match="'avro' is no deserializer: give 'bytes'"):
        deserializer("avro")
    with pytest.raises(ConfigError, match="JSON cannot be decoded into Undecidable"):
        deserializer(Undecidable)


def test_only_cheap_deserializers_decode_ahead() -> None:
    cheap = Deserializers(deserializer("str"), deserializer("json"))
    assert cheap.at_once
    assert not Deserializers(deserializer("str"), deserializer(len)).at_once
