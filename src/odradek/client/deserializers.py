"""Deserializers: from the bytes of keys and values to the application's objects.

    "bytes", bytes, "auto"    the bytes as they are; also the default
    "str", str                text, from UTF-8
    "json", "msgpack"         the data of the JSON or MessagePack
    a type                    JSON, checked against that type: by pydantic for its models, also
                              inside other types, else by msgspec (structs, list[int], A | B, ...)
    a callable                called with the bytes
    an object with            `deserialize(topic, headers, data)`, for deserializers that need all
                              three

Null stays None and is not given to a deserializer.

An exception of a deserializer becomes a `DecodeError` with the raw record, raised when that record
is next. With `on_error`, that is called with it and the record is skipped. Or the record is set
aside, and no later record of its partition is returned until the dead letter is written
(`dead_letters`).

Compiled, because `bytes` and `str` are made in the loop over the records.
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
    """A deserializer that gets topic and headers too."""

    def deserialize(self, topic: str, headers: Sequence[Header], data: bytes, /) -> T_co: ...


DeserializerLike = type[T] | Callable[[bytes], T] | Deserializing[T]
"""A deserializer to type T, as applications give it, beside a `DeserializerName`."""


@final
class Deserializer:
    """Makes objects of keys or values. `name` is for messages."""

    def __init__(self, name: str, kind: i64, function: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.kind = kind
        self._function = function

    def decode(self, topic: str, headers: Sequence[Header], content: bytes | None) -> Any:
        """Return one field of a record. Raises all exceptions of the application's function."""
        if content is None or self.kind == RAW:
            return content
        if self.kind == TEXT:
            return content.decode()
        function = self._function
        assert function is not None
        if self.kind != CALL_WITH_HEADERS:
            return function(content)
        return function(topic, headers, content)

    def read(self, topic: str, cursor: RecordCursor, start: i64, size: i64) -> Any:
        """Return the field at `start` of the cursor's record; a negative size is null. Raises all
        exceptions of the application's function."""
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
    """The deserializers of keys and values, and the handling of records that cannot be decoded."""

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
        """Records that cannot be decoded are set aside for dead letters."""

    @property
    def at_once(self) -> bool:
        """True if decoding is cheap enough to be done ahead."""
        return self.key.kind <= MSGSPEC and self.value.kind <= MSGSPEC


BYTES: Final = Deserializer("bytes", RAW)


def deserializer(wanted: Any) -> Deserializer:
    """Return the deserializer for an argument. Raises `ConfigError`, which lists the choices."""
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
    # The documented attribute of pydantic's models and dataclasses; pydantic is not imported.
    validator: Any = getattr(wanted, "__pydantic_validator__", None)
    if validator is not None:
        return cast("Callable[[bytes], Any]", validator.validate_json)
    try:
        return msgspec.json.Decoder(wanted, dec_hook=_made).decode
    except TypeError as error:
        name = getattr(wanted, "__name__", repr(wanted))
        raise ConfigError(f"JSON cannot be decoded into {name}: {error}") from None


def _made(wanted: Any, plain: Any) -> Any:
    """Make a pydantic model inside another type of plain data. Raises `NotImplementedError` for all
    other types."""
    validator: Any = getattr(wanted, "__pydantic_validator__", None)
    if validator is None:
        name = getattr(wanted, "__name__", repr(wanted))
        raise NotImplementedError(f"Decoding objects of type {name} is unsupported")
    return validator.validate_json(msgspec.json.encode(plain))
