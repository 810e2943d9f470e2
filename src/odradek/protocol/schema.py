"""How a message is declared: one dataclass for all its versions.

    @struct
    class TopicProduceData:
        name: str = field(default="", until=12, ignorable=True)
        topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
        partition_data: list[PartitionProduceData]

    @message(api=0, versions=(3, 13), flexible=9)
    class ProduceRequest:
        transactional_id: str | None = field(default=None, doc="Null unless transactional.")
        acks: i16 = field(doc="0 none, 1 the leader, -1 the in-sync replicas.")
        timeout_ms: i32
        topic_data: list[TopicProduceData]

Field order is wire order. Types: `i8 i16 i32 i64 u16 u32 f64 bool str bytes UUID Records`, structs,
`list[...]` of these, and `| None` where a version allows null. The versions in a struct are those
of the message that contains it; a struct is encoded flexibly where its message is.

Two rules are checked when a class is declared or first compiled:

- A field that some version lacks has a default. A reader of that version yields the default.
- A tagged struct is `T | None`, where None means that the tag is absent. No other struct has a tag.

A declaration normally makes its own class. The messages of Produce, Fetch and Heartbeat are written
by hand as plain classes, because compiled code handles those faster (see `hot_codec`); each gets
its declaration from a second class:

    @wire_form(PartitionProduceData)
    @struct
    class PartitionProduceDataForm:
        index: i32
        records: Records | None

Readers, writers and other declarations then use `PartitionProduceData`. The form is never
instantiated. Its fields are the constructor's arguments, with the same defaults.

This module does not know how values are encoded: `codec` makes readers and writers from the
declarations.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from odradek.model.byte_ranges import ByteRange, FileSlice


def add_methods(cls: type[Any], names: list[str]) -> None:
    """Add a constructor, equality and representation to a class.

    `dataclasses` would compile three functions per class, which over a hundred classes is a
    noticeable part of a broker's start. Here only the constructor is compiled, at its first use.
    """

    def __init__(self: Any, **values: Any) -> None:
        cls.__init__ = compile_constructor(cls)
        cls.__init__(self, **values)

    if len(names) > 1:
        values_of: Callable[[Any], Any] = attrgetter(*names)
    elif names:
        values_of = attrgetter(names[0])
    else:
        values_of = type

    def __eq__(self: Any, other: object) -> bool:
        if type(other) is not cls:
            return NotImplemented
        return bool(values_of(self) == values_of(other))

    def __repr__(self: Any) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{cls.__name__}({inside})"

    cls.__init__ = __init__
    cls.__eq__ = __eq__  # type: ignore[assignment]
    cls.__repr__ = __repr__  # type: ignore[assignment]
    cls.__hash__ = None  # type: ignore[assignment]


def compile_constructor(cls: type[Any]) -> Callable[..., None]:
    """Return an `__init__` with keyword-only arguments and one assignment for each."""
    parameters, body = [], []
    scope: dict[str, Any] = {"MISSING": MISSING}
    for item in dataclasses.fields(cls):
        name = item.name
        if item.default_factory is not MISSING:
            scope[f"make_{name}"] = item.default_factory
            parameters.append(f"{name}=MISSING")
            body.append(f"self.{name} = make_{name}() if {name} is MISSING else {name}")
            continue
        if item.default is not MISSING:
            scope[f"default_{name}"] = item.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        body.append(f"self.{name} = {name}")
    arguments = "self, *, " + ", ".join(parameters) if parameters else "self"
    source = f"def __init__({arguments}):\n " + ("\n ".join(body) or "pass")
    exec(source, scope)
    made: Callable[..., None] = scope["__init__"]
    return made


T = TypeVar("T")

_forms: dict[type[Any], type[Any]] = {}


def wire_form(of: type[Any]) -> Callable[[type[T]], type[T]]:
    """Make the decorated declaration that of `of`, a class written by hand."""

    def declare(declared: type[T]) -> type[T]:
        _forms[of] = declared
        return declared

    return declare


def form_of(cls: type[Any]) -> type[Any]:
    """Return the class that declares the fields of `cls`: its form, or `cls` itself."""
    return _forms.get(cls, cls)


def is_written_by_hand(cls: type[Any]) -> bool:
    """True if another class declares its fields: instances come from its constructor only."""
    return cls in _forms


class UnsupportedVersionError(Exception):
    """This version of the message cannot carry a value that was given."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """A number of fixed width: its `struct` code and its size in bytes."""

    code: str
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """A value that is neither a number nor an array: `text`, `bytes`, `records` or `uuid`."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array of one other type."""

    element: WireType


@dataclasses.dataclass(frozen=True, slots=True)
class StructOf:
    """A nested struct."""

    cls: type[Any]


WireType = Fixed | Opaque | ArrayOf | StructOf

TEXT, BLOB, RECORDS, IDENTIFIER = Opaque("text"), Opaque("bytes"), Opaque("records"), Opaque("uuid")
BOOLEAN = Fixed("?", 1)

i8 = Annotated[int, Fixed("b", 1)]
i16 = Annotated[int, Fixed("h", 2)]
i32 = Annotated[int, Fixed("i", 4)]
i64 = Annotated[int, Fixed("q", 8)]
u16 = Annotated[int, Fixed("H", 2)]
u32 = Annotated[int, Fixed("I", 4)]
f64 = Annotated[float, Fixed("d", 8)]
Records = Annotated[bytes | ByteRange | FileSlice | Sequence[FileSlice], RECORDS]
"""Record batches: read as a `ByteRange` of the frame; written from any of these types."""

PLAIN_TYPES: dict[object, WireType] = {
    str: TEXT,
    bytes: BLOB,
    UUID: IDENTIFIER,
    bool: BOOLEAN,
}


class FieldOptions(NamedTuple):
    """The arguments of `field` other than the default."""

    since: int
    until: int | None
    tag: int | None
    nullable_since: int | None
    ignorable: bool
    doc: str


class Field(NamedTuple):
    """One resolved field of a declaration, with the versions that carry it."""

    name: str
    type: WireType
    optional: bool
    """True if some version allows null: those from `nullable_since`."""
    default: Any
    """`MISSING` where the value must be given. A list stands for a new list each time."""
    since: int
    until: int | None
    tag: int | None
    nullable_since: int
    ignorable: bool
    doc: str

    def present(self, version: int) -> bool:
        """True if this version of the message carries the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable(self, version: int) -> bool:
        """True if this version allows null."""
        return self.optional and version >= self.nullable_since


class Declaration(NamedTuple):
    """The arguments of `message`: key, first and last version, first flexible version or None."""

    api: int
    versions: tuple[int, int]
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        """True if this version uses compact lengths and tagged fields (KIP-482)."""
        return self.flexible is not None and version >= self.flexible


def field(
    *,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    nullable_since: int | None = None,
    ignorable: bool = False,
    doc: str = "",
) -> Any:
    """Declare the properties of a field that its type does not express.

    `since`, `until`: first and last version that carry it. `tag`: its number, if it is tagged.
    `nullable_since`: first version in which null is allowed, if not all (the type says `| None`).
    `ignorable`: a value is dropped silently where a version lacks the field; otherwise writing a
    value other than the default raises `UnsupportedVersionError`.
    """
    wire = FieldOptions(since, until, tag, nullable_since, ignorable, doc)
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata={"wire": wire})
    return dataclasses.field(default=default, metadata={"wire": wire})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of messages. The constructor takes keyword arguments only."""
    made = dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)(cls)
    names = [item.name for item in dataclasses.fields(made)]  # type: ignore[arg-type]
    add_methods(made, names)
    return made


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, api: int, versions: tuple[int, int], flexible: int | None, open_ended: bool = False
) -> Callable[[type[T]], type[T]]:
    """Declare a request, a response or a record by its key, first and last version.

    `open_ended`: bytes after the message are skipped, because newer versions only append fields.
    """

    def declare(cls: type[T]) -> type[T]:
        made = struct(cls)
        made.__declaration__ = Declaration(api, versions, flexible)  # type: ignore[attr-defined]
        made.__open_ended__ = open_ended  # type: ignore[attr-defined]
        for item in dataclasses.fields(made):  # type: ignore[arg-type]
            wire = item.metadata.get("wire")
            if wire is None or (item.default, item.default_factory) != (MISSING, MISSING):
                continue
            if wire.since > versions[0] or wire.until is not None:
                raise TypeError(
                    f"{cls.__name__}.{item.name} is not in all versions and has no default"
                )
        return made

    return declare


def declaration(cls: type[Any]) -> Declaration:
    """Return the declaration of a message. Raises `AttributeError` for a struct."""
    found: Declaration = form_of(cls).__declaration__
    return found


def is_open_ended(cls: type[Any]) -> bool:
    """True if bytes after the message are skipped. After a request they always are."""
    found: bool = form_of(cls).__open_ended__
    return found or cls.__name__.endswith("Request")


_fields: dict[type[Any], tuple[Field, ...]] = {}


def fields_of(cls: type[Any]) -> tuple[Field, ...]:
    """Return the resolved fields of a declaration, in wire order."""
    found = _fields.get(cls)
    if found is None:
        found = _fields[cls] = tuple(resolve_fields(cls))
    return found


def resolve_fields(cls: type[Any]) -> Iterator[Field]:
    """Evaluate the annotations of a declaration and check its rules; yield its fields."""
    cls = form_of(cls)
    scope = vars(sys.modules[cls.__module__])
    hints = get_type_hints(cls, scope, include_extras=True)
    for item in dataclasses.fields(cls):
        wire: FieldOptions = item.metadata.get("wire") or FieldOptions(
            0, None, None, None, False, ""
        )
        resolved, optional = resolve_type(hints[item.name])
        default = item.default
        if item.default_factory is not MISSING:
            default = item.default_factory()
        if wire.nullable_since is not None and not optional:
            raise TypeError(
                f"{cls.__name__}.{item.name} has nullable_since, but its type does not admit None"
            )
        if isinstance(resolved, StructOf) and wire.tag is not None and default is not None:
            raise TypeError(f"{cls.__name__}.{item.name}: a tagged struct defaults to None")
        yield Field(
            name=item.name,
            type=resolved,
            optional=optional and not (isinstance(resolved, StructOf) and wire.tag is not None),
            default=default,
            since=wire.since,
            until=wire.until,
            tag=wire.tag,
            nullable_since=wire.since if wire.nullable_since is None else wire.nullable_since,
            ignorable=wire.ignorable,
            doc=wire.doc,
        )


def resolve_type(hint: Any) -> tuple[WireType, bool]:
    """Return the wire type of an annotation, and True if it admits None."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind: WireType = arguments[1]
        return kind, False
    if origin in (Union, UnionType):
        inner = [argument for argument in arguments if argument is not NoneType]
        if len(inner) != 1 or len(inner) == len(arguments):
            raise TypeError(f"{hint} is not a wire type")
        return resolve_type(inner[0])[0], True
    if origin is list:
        return ArrayOf(resolve_type(arguments[0])[0]), False
    if hint in PLAIN_TYPES:
        return PLAIN_TYPES[hint], False
    if isinstance(hint, type) and dataclasses.is_dataclass(form_of(hint)):
        return StructOf(hint), False
    raise TypeError(f"{hint} is not a wire type")
