"""Serializers of keys, values and headers, and the errors of refused ones."""

from __future__ import annotations

import pydantic
import pytest

from odradek.client.errors import ConfigError, SerializationError
from odradek.client.serializers import headers_of, serializer


def made(wanted: object, data: object) -> bytes | None:
    return serializer("value", wanted).to_bytes("t", [], data)


@pytest.mark.parametrize(
    ("wanted", "data", "expected"),
    [
        (None, b"x", b"x"),
        ("auto", "é", "é".encode()),
        ("auto", bytearray(b"x"), b"x"),
        ("auto", memoryview(b"x"), b"x"),
        ("bytes", b"x", b"x"),
        (bytes, b"x", b"x"),
        ("str", "x", b"x"),
        (str, "x", b"x"),
        ("json", {"a": [1, None]}, b'{"a":[1,null]}'),
        (dict, {"a": 1}, b'{"a":1}'),
        (lambda data: str(data), 7, b"7"),
        (lambda data: None, 7, None),
        (lambda data: bytearray(b"y"), 7, b"y"),
        ("json", None, None),
        ("msgpack", {"a": [1, None]}, b"\x81\xa1a\x92\x01\xc0"),
        ("str", None, None),
    ],
)
def test_each_serializer_makes_its_bytes(wanted, data, expected):
    assert made(wanted, data) == expected


class Item(pydantic.BaseModel):
    id: int


class Priced(Item):
    price: float = 1.5


@pydantic.dataclasses.dataclass
class Checked:
    id: int


def test_pydantic_models_are_serialized_by_pydantic():
    assert made(Item, Item(id=1)) == b'{"id":1}'
    assert made(Item, Priced(id=1)) == b'{"id":1,"price":1.5}', "all that it has"
    assert made(Checked, Checked(1)) == b'{"id":1}'
    assert made("json", [Item(id=1), {"of": Checked(2)}]) == b'[{"id":1},{"of":{"id":2}}]'
    assert made("msgpack", Item(id=1)) == b"\x81\xa2id\x01"
    with pytest.raises(SerializationError, match=r"serializer Item .* no pydantic model"):
        made(Item, {"id": 1})


def test_generic_types_are_serialized_as_json():
    assert made(list[int], [1, 2]) == b"[1,2]"


def test_a_serializer_object_gets_topic_and_headers():
    class Tagging:
        def serialize(self, topic, headers, data):
            return f"{topic} {headers} {data}".encode()

    found = serializer("key", Tagging()).to_bytes("orders", [("h", b"v")], 7)
    assert found == b"orders [('h', b'v')] 7"


@pytest.mark.parametrize(
    ("wanted", "data"),
    [
        ("auto", 7),
        ("auto", {"a": 1}),
        ("bytes", "text"),
        ("str", b"bytes"),
        ("str", 7),
        ("json", object()),
        (lambda data: 7, "x"),
        ("auto", "\ud800"),
    ],
)
def test_objects_of_the_wrong_type_are_refused(wanted, data):
    with pytest.raises(SerializationError, match="value of a record for t"):
        made(wanted, data)


@pytest.mark.parametrize(
    ("wanted", "data", "advice"),
    [
        ("str", b"bytes", "give text, or give the producer another serializer"),
        ("bytes", "text", "encode it, or give the producer another serializer"),
        ("auto", 7, "give the producer another serializer"),
    ],
)
def test_the_advice_of_a_refusal_is_one_sentence(wanted, data, advice):
    with pytest.raises(SerializationError) as told:
        made(wanted, data)
    expected = f'What to do: {advice}, for example value="json"'
    assert str(told.value).endswith(expected)


def test_the_exception_of_a_function_is_the_cause():
    with pytest.raises(SerializationError) as caught:
        made(lambda data: data["missing"], {})
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_argument_that_is_no_serializer_is_refused():
    with pytest.raises(ConfigError, match="'jsn' is no serializer of a key"):
        serializer("key", "jsn")
    with pytest.raises(ConfigError, match="is no serializer of a value"):
        serializer("value", Item(id=7))


@pytest.mark.parametrize(
    "given",
    [
        {"a": b"1", "b": "2", "c": None},
        [("a", b"1"), ("b", "2"), ("c", None)],
        (("a", bytearray(b"1")), ("b", memoryview(b"2")), ("c", None)),
    ],
)
def test_headers_may_be_a_mapping_or_pairs(given):
    assert headers_of(given) == [("a", b"1"), ("b", b"2"), ("c", None)]


@pytest.mark.parametrize("given", [{"a": 1}, [(b"a", b"1")], ["ab", "c"], [("a",)], 7])
def test_wrong_headers_are_refused(given):
    with pytest.raises(SerializationError, match="give a dict, or pairs"):
        headers_of(given)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("abc", "'abc'"),
        (b"abc", "b'abc'"),
        ([("name",)], r"\('name',\)"),
        ([("name", b"1", 2)], r"\('name', b'1', 2\)"),
        (["ab"], "'ab'"),
        ([1], "1"),
        ({"name": 5}, r"\('name', 5\)"),
        ({b"name": b"v"}, r"\(b'name', b'v'\)"),
        (5, "5"),
    ],
)
def test_refused_headers_are_shown_as_they_were_given(given, what):
    advice = "give a dict, or pairs, of str and bytes, str or None"
    with pytest.raises(SerializationError, match=f"^headers cannot be {what}: {advice}$"):
        headers_of(given)
