"""Serializers: from the application's objects to the bytes of keys, values and headers.

    "auto", nothing       bytes-like as they are, text as UTF-8; all else is refused
    "bytes", bytes        bytes-like only
    "str", str            text only, as UTF-8
    "json", a type        JSON, made by msgspec (dicts, lists, structs, dataclasses, dates, ...), of
                          pydantic's models by pydantic
    "msgpack"             the same as MessagePack
    a callable            called with the object, returns bytes, text or None
    an object with        `serialize(topic, headers, data)`, for serializers that need all three

None stays null and is not given to a serializer. An object that cannot be serialized raises
`SerializationError`, before anything is queued.

Compiled, because each record passes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar, cast, final, get_origin

import msgspec
from mypy_extensions import i64

from odradek.client.errors import ConfigError, SerializationError
from odradek.protocol.records import Header

T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")

AUTO: Final[i64] = 0
BYTES_ONLY: Final[i64] = 1
TEXT_ONLY: Final[i64] = 2
CALL: Final[i64] = 3
CALL_WITH_HEADERS: Final[i64] = 4

SerializerName = Literal["auto", "bytes", "str", "json", "msgpack"]


class Serializing(Protocol[T_contra]):
    """A serializer that gets topic and headers too."""

    def serialize(
        self, topic: str, headers: Sequence[Header], data: T_contra, /
    ) -> bytes | None: ...


SerializerLike = type[T] | Callable[[T], bytes | None] | Serializing[T]
"""A serializer of objects of type T, as applications give it. (A function may also return text, but
then type checkers could not tell `str` the type from `str` the function.)"""

AnySerializer = SerializerName | SerializerLike[Any] | Callable[[Any], str | None]
"""A serializer as applications give it, whatever its type."""


@final
class Serializer:
    """Makes bytes of keys or values. `field` ("key", "value") and `name` are for messages."""

    def __init__(
        self, field: str, name: str, kind: i64, function: Callable[..., Any] | None = None
    ) -> None:
        self.field = field
        self.name = name
        self.kind = kind
        self._function = function

    def to_bytes(self, topic: str, headers: Sequence[Header], data: object) -> bytes | None:
        """Return the bytes of an object; None for None. Raises `SerializationError`."""
        if data is None:
            return None
        kind = self.kind
        if kind >= CALL:
            return self._call(topic, headers, data)
        if isinstance(data, bytes):
            if kind == TEXT_ONLY:
                raise self._refused(topic, data, "give text, or ")
            return data
        if isinstance(data, str):
            if kind == BYTES_ONLY:
                raise self._refused(topic, data, "encode it, or ")
            return self._encoded(topic, data)
        if kind != TEXT_ONLY and isinstance(data, (bytearray, memoryview)):
            return bytes(data)
        raise self._refused(topic, data, "")

    def _encoded(self, topic: str, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            what = f"the {self.field} of a record for {topic} has no UTF-8 form"
            advice = "What to do: encode it yourself, and give bytes"
            raise caused(SerializationError(f"{what}: {error}. {advice}"), error) from error

    def _call(self, topic: str, headers: Sequence[Header], data: object) -> bytes | None:
        function = self._function
        assert function is not None
        try:
            made = function(data) if self.kind == CALL else function(topic, headers, data)
        except Exception as error:
            what = (
                f"serializer {self.name} cannot serialize the {self.field} of a record for "
                f"{topic}, a {type(data).__name__}: {error}"
            )
            raise caused(SerializationError(what), error) from error
        if made is None or isinstance(made, bytes):
            return made
        if isinstance(made, str):
            return self._encoded(topic, made)
        if isinstance(made, (bytearray, memoryview)):
            return bytes(made)
        raise SerializationError(
            f"serializer {self.name} returned a {type(made).__name__} for the {self.field} of a "
            f"record for {topic}: it must return bytes, str or None"
        )

    def _refused(self, topic: str, data: object, advice: str) -> SerializationError:
        return SerializationError(
            f"serializer {self.name!r} cannot take the {self.field} of a record for {topic}, a "
            f"{type(data).__name__}. What to do: {advice}give the producer another serializer, "
            f'for example {self.field}="json"'
        )


def serializer(field: str, wanted: Any) -> Serializer:
    """Return the serializer for keys or values. Raises `ConfigError`, which lists the choices."""
    if wanted is None or wanted == "auto":
        return Serializer(field, "auto", AUTO)
    if wanted is bytes or wanted == "bytes":
        return Serializer(field, "bytes", BYTES_ONLY)
    if wanted is str or wanted == "str":
        return Serializer(field, "str", TEXT_ONLY)
    if isinstance(wanted, type) and hasattr(wanted, "__pydantic_serializer__"):
        return Serializer(field, wanted.__name__, CALL, _json_of_model)
    if wanted == "json" or isinstance(wanted, type) or get_origin(wanted) is not None:
        return Serializer(field, "json", CALL, msgspec.json.Encoder(enc_hook=_plain).encode)
    if wanted == "msgpack":
        return Serializer(field, "msgpack", CALL, msgspec.msgpack.Encoder(enc_hook=_plain).encode)
    method = getattr(wanted, "serialize", None)
    if callable(method):
        return Serializer(field, type(wanted).__name__, CALL_WITH_HEADERS, method)
    if callable(wanted):
        function = cast("Callable[..., Any]", wanted)
        name = getattr(function, "__qualname__", repr(function))
        return Serializer(field, name, CALL, function)
    raise ConfigError(
        f"{wanted!r} is no serializer of a {field}: give 'auto', 'bytes', 'str', 'json', "
        "'msgpack', a type (for JSON), a function that returns bytes, or an object with "
        "serialize(topic, headers, data)"
    )


def _json_of_model(model: Any) -> bytes:
    """Serialize a pydantic model by its documented attribute, without importing pydantic."""
    own: Any = getattr(type(model), "__pydantic_serializer__", None)
    if own is None:
        raise TypeError("it is no pydantic model")
    return cast("bytes", own.to_json(model))


def _plain(model: Any) -> object:
    """Return a pydantic model inside another object as plain data. Raises `NotImplementedError` for
    all other objects."""
    own: Any = getattr(type(model), "__pydantic_serializer__", None)
    if own is None:
        raise NotImplementedError(f"Encoding objects of type {type(model).__name__} is unsupported")
    return cast("object", own.to_python(model, mode="json"))


def headers_of(given: Any) -> list[Header]:
    """Return headers given as a mapping or as pairs of names and bytes, text or None. Raises
    `SerializationError`."""
    if isinstance(given, dict):
        pairs: Any = given.items()
    else:
        pairs = given
    found: list[Header] = []
    wrong = given
    is_text = isinstance(given, (str, bytes))
    try:
        for pair in pairs:
            if not is_text:
                wrong = pair
            if isinstance(pair, str):  # Else two letters pass as name and content.
                raise TypeError(pair)
            name, content = pair
            if isinstance(content, str):
                content = content.encode()
            elif isinstance(content, (bytearray, memoryview)):
                content = bytes(content)
            if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
                raise TypeError(pair)
            if not name.isascii():
                name.encode()  # Raises here, where the name is known.
            found.append((name, content))
    except UnicodeEncodeError as error:
        what = (
            f"{error.object!a}, in a record's headers, has no UTF-8 form: "
            f"{error.reason}. What to do: give other names, and values as bytes"
        )
        raise caused(SerializationError(what), error) from error
    except (TypeError, ValueError) as error:
        what = f"headers cannot be {wrong!r}: give a dict, or pairs, of str and bytes, str or None"
        raise caused(SerializationError(what), error) from error
    return found


def caused(error: SerializationError, cause: BaseException) -> SerializationError:
    """Set the cause of an error and return it: compiled code ignores the `from` of a `raise`."""
    error.__cause__ = cause
    return error
