"""From the bytes of keys and values to what the application wants.

    "bytes", bytes, "auto"    as they came; so too without any
    "str", str                UTF-8
    "json", "msgpack"         whatever the JSON, or the MessagePack, says
    a type                    JSON, checked against that type: by pydantic for its models, within
                              other types too, else by msgspec (structs, list[int], A | B, ...)
    a callable                called with the bytes
    an object with            `deserialize(topic, headers, data)`, for what the bytes alone do not
                              say

Null stays None and no deserializer sees it.

What a deserializer raises becomes a `DecodeError` with the raw record in it, in that record's turn;
or, with `on_error`, that is called with it and the record is passed over; or it is set aside, and
nothing behind it is handed out before it was seen to (`dead_letters`).

A compiled leaf, for `bytes` and `str` are made in the loop over the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar, cast, final, get_origin

import msgspec
from mypy_extensions import i64

from odradek.client.errors import ConfigError, DecodeError
from odradek.protocol.records import Header, RecordCursor, read_headers

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

RAW: Final[i64] = 0
TEXT: Final[i64] = 1
MSGSPEC: Final[i64] = 2
CALL: Final[i64] = 3
CALL_WITH_HEADERS: Final[i64] = 4

DeserializerName = Literal["auto", "bytes", "str", "json", "msgpack"]


class Deserializing(Protocol[T_co]):
    """A deserializer that looks at more than the bytes."""

    def deserialize(self, topic: str, headers: Sequence[Header], data: bytes, /) -> T_co: ...


DeserializerLike = type[T] | Callable[[bytes], T] | Deserializing[T]
"""What users may give, beside a `DeserializerName`."""


@final
class Deserializer:
    """How one field becomes an object. `name` is for messages."""

    def __init__(self, name: str, kind: i64, function: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.kind = kind
        self._function = function

    def read(self, topic: str, cursor: RecordCursor, start: i64, size: i64) -> Any:
        """The field of the cursor's record that is at `start`; negative size: null. Raises
        whatever a user's function raises."""
        if size < 0:
            return None
        content = cursor.data[start : start + size]
        if self.kind == RAW:
            return content
        if self.kind == TEXT:
            return content.decode()
        function = self._function
        assert function is not None
        if self.kind != CALL_WITH_HEADERS:
            return function(content)
        headers = read_headers(cursor.data, cursor.headers, cursor.header_count)
        return function(topic, headers, content)


@final
class Deserializers:
    """Those of keys and of values, and what is done with what cannot be decoded."""

    def __init__(
        self,
        key: Deserializer,
        value: Deserializer,
        on_error: Callable[[DecodeError], object] | None = None,
        *,
        set_aside: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.on_error = on_error
        self.set_aside = set_aside
        """What cannot be decoded is kept, for somebody to see to it before what is behind it."""

    @property
    def at_once(self) -> bool:
        """Whether decoding is cheap enough to be done ahead of need."""
        return self.key.kind <= MSGSPEC and self.value.kind <= MSGSPEC


BYTES: Final = Deserializer("bytes", RAW)


def deserializer(wanted: Any) -> Deserializer:
    """The deserializer a user means. Raises `ConfigError` with what there is."""
    if wanted is None or wanted is bytes or wanted in ("bytes", "auto"):
        return BYTES
    if wanted is str or wanted == "str":
        return Deserializer("str", TEXT)
    if wanted == "json":
        return Deserializer("json", MSGSPEC, msgspec.json.Decoder().decode)
    if wanted == "msgpack":
        return Deserializer("msgpack", MSGSPEC, msgspec.msgpack.Decoder().decode)
    method = getattr(wanted, "deserialize", None)
    if callable(method) and not isinstance(wanted, type):
        return Deserializer(type(wanted).__name__, CALL_WITH_HEADERS, method)
    if isinstance(wanted, type) or get_origin(wanted) is not None:
        return Deserializer(getattr(wanted, "__name__", repr(wanted)), MSGSPEC, _json_of(wanted))
    if callable(wanted):
        function = cast("Callable[..., Any]", wanted)
        return Deserializer(getattr(function, "__qualname__", repr(function)), CALL, function)
    raise ConfigError(
        f"{wanted!r} is no deserializer: give 'bytes', 'str', 'json', 'msgpack', a type to decode "
        "JSON into, a function of the bytes, or an object with deserialize(topic, headers, data)"
    )


def _json_of(wanted: Any) -> Callable[[bytes], Any]:
    # What pydantic documents of its models and dataclasses, so that it need not be imported here.
    validator: Any = getattr(wanted, "__pydantic_validator__", None)
    if validator is not None:
        return cast("Callable[[bytes], Any]", validator.validate_json)
    try:
        return msgspec.json.Decoder(wanted, dec_hook=_made).decode
    except TypeError as error:
        name = getattr(wanted, "__name__", repr(wanted))
        raise ConfigError(f"JSON cannot be decoded into {name}: {error}") from None


def _made(wanted: Any, plain: Any) -> Any:
    """A model of pydantic's within something else, of what the JSON says. Raises
    `NotImplementedError` for all others."""
    validator: Any = getattr(wanted, "__pydantic_validator__", None)
    if validator is None:
        name = getattr(wanted, "__name__", repr(wanted))
        raise NotImplementedError(f"Decoding objects of type {name} is unsupported")
    return validator.validate_json(msgspec.json.encode(plain))
