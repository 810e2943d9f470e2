"""From what the application has to the bytes of keys and values: the other side of `deserializers`.

    "auto", nothing       bytes-like as they are, text as UTF-8; anything else is refused
    "bytes", bytes        bytes-like only
    "str", str            text only, as UTF-8
    "json", a type        JSON, made by msgspec (dicts, lists, structs, dataclasses, dates, ...), of
                          pydantic's models by pydantic
    "msgpack"             the same as MessagePack
    a callable            called with the object, gives bytes, text or None
    an object with        `serialize(topic, headers, data)`, for what needs to know more

None stays null and no serializer sees it. What cannot be serialized is a `SerializationError`,
before anything was queued.

A compiled leaf: `bytes` and `str` pass through here once per record.
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
    """A serializer that looks at more than the object."""

    def serialize(
        self, topic: str, headers: Sequence[Header], data: T_contra, /
    ) -> bytes | None: ...


SerializerLike = type[T] | Callable[[T], bytes | None] | Serializing[T]
"""What users may give, and which type of objects it takes. (A function may give text too; but so
does `str`, which is a function as well as a type, and type checkers could not tell which.)"""

AnySerializer = SerializerName | SerializerLike[Any] | Callable[[Any], str | None]
"""The same, without the type."""


@final
class Serializer:
    """How one field becomes bytes. `field` ("key", "value") and `name` are for messages."""

    def __init__(
        self, field: str, name: str, kind: i64, function: Callable[..., Any] | None = None
    ) -> None:
        self.field = field
        self.name = name
        self.kind = kind
        self._function = function

    def to_bytes(self, topic: str, headers: Sequence[Header], data: object) -> bytes | None:
        """The bytes of an object; None for None. Raises `SerializationError`."""
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
            what = f"the {self.field} of a record for {topic} is not text that UTF-8 knows"
            advice = "What to do: encode it as it is meant, and give bytes"
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
            f"serializer {self.name} made a {type(made).__name__} of the {self.field} of a record "
            f"for {topic}: it must give bytes, str or None"
        )

    def _refused(self, topic: str, data: object, advice: str) -> SerializationError:
        return SerializationError(
            f"serializer {self.name!r} cannot take the {self.field} of a record for {topic}, a "
            f"{type(data).__name__}. What to do: {advice}give the producer another serializer, "
            f'for example {self.field}="json"'
        )


def serializer(field: str, wanted: Any) -> Serializer:
    """The serializer a user means for keys or values. Raises `ConfigError` with what there is."""
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
        "'msgpack', a type (for JSON), a function that makes bytes, or an object with "
        "serialize(topic, headers, data)"
    )


def _json_of_model(model: Any) -> bytes:
    """By what pydantic documents of its models and dataclasses: it need not be imported here."""
    own: Any = getattr(type(model), "__pydantic_serializer__", None)
    if own is None:
        raise TypeError("it is no model of pydantic's")
    return cast("bytes", own.to_json(model))


def _plain(model: Any) -> object:
    """A model of pydantic's within something else. Raises `NotImplementedError` for all others."""
    own: Any = getattr(type(model), "__pydantic_serializer__", None)
    if own is None:
        raise NotImplementedError(f"Encoding objects of type {type(model).__name__} is unsupported")
    return cast("object", own.to_python(model, mode="json"))


def headers_of(given: Any) -> list[Header]:
    """Headers as users may give them: a mapping, or pairs, of names to bytes, text or None."""
    if isinstance(given, dict):
        pairs: Any = given.items()
    else:
        pairs = given
    found: list[Header] = []
    wrong = given
    whole = isinstance(given, (str, bytes))
    try:
        for pair in pairs:
            if not whole:
                wrong = pair
            if isinstance(pair, str):  # Two letters are no name and content.
                raise TypeError(pair)
            name, content = pair
            if isinstance(content, str):
                content = content.encode()
            elif isinstance(content, (bytearray, memoryview)):
                content = bytes(content)
            if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
                raise TypeError(pair)
            if not name.isascii():
                name.encode()  # Here it can still be said whose it is.
            found.append((name, content))
    except UnicodeEncodeError as error:
        what = (
            f"{error.object!a}, of a record's headers, is not text that UTF-8 knows: "
            f"{error.reason}. What to do: give other names, and values as bytes"
        )
        raise caused(SerializationError(what), error) from error
    except (TypeError, ValueError) as error:
        what = f"headers cannot be {wrong!r}: give a dict, or pairs, of str and bytes, str or None"
        raise caused(SerializationError(what), error) from error
    return found


def caused(error: SerializationError, cause: BaseException) -> SerializationError:
    """The error with its cause: compiled code passes over the `from` of a `raise`."""
    error.__cause__ = cause
    return error
