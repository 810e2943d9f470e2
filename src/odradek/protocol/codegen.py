"""Generates Python source: lines, indentation, constants, and runs of fixed-width fields.

`generated_reader` and `generated_writer` build straight-line Python from declarations with it. A
*sliced* function is a generator that yields after every `SLICE_ELEMENTS` elements of arrays, for
messages so long that others have to be served meanwhile. The builder provides unique local names, a
scope for the constants that the source refers to, and one `struct.Struct` per format. The finished
source is kept in `linecache`, so that a traceback shows its lines.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, NamedTuple

from odradek.protocol.primitives import (
    REQUEST_OBJECTS_MAX,
    RESPONSE_OBJECTS_MAX,
    UNDIVIDED_OBJECTS_MAX,
)
from odradek.protocol.schema import (
    ArrayOf,
    Fixed,
    Opaque,
    StructOf,
    WireType,
    declaration,
    fields_of,
)

SLICE_ELEMENTS = 500
"""Elements that a sliced function reads or writes at a time: at most a few milliseconds."""

_layouts: dict[str, Layout] = {}


class Layout(NamedTuple):
    """A `Struct` with its methods bound once, so that a constant is one object."""

    size: int
    pack: Callable[..., bytes]
    unpack_from: Callable[..., tuple[Any, ...]]


class FunctionBuilder:
    """Collects the source of one function, then compiles it."""

    def __init__(self, cls: type[Any], version: int, sliced: bool = False) -> None:
        self.cls = cls
        self.version = version
        self.sliced = sliced
        self.flexible = declaration(cls).is_flexible(version)
        self.lines: list[str] = []
        self.depth = 1
        self.scope: dict[str, Any] = {}
        self._names = 0

    def emit(self, line: str) -> None:
        """Append one line at the current indentation."""
        self.lines.append(" " * self.depth + line)

    def begin_slices(self) -> None:
        """Emit the count of the elements in this slice."""
        if self.sliced:
            self.emit(f"slice_left = {SLICE_ELEMENTS}")
            self.emit("if False: yield")

    def count_element(self, at_end: str = "") -> None:
        """Emit the end of an element: after the last one of a slice the function runs `at_end` and
        yields.
        """
        if self.sliced:
            self.emit("slice_left -= 1")
            with self.block("if not slice_left:"):
                if at_end:
                    self.emit(at_end)
                self.emit("yield")
                self.emit(f"slice_left = {SLICE_ELEMENTS}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines emitted inside the `with` block under `head`."""
        self.emit(head)
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, stem: str) -> str:
        """Return a local name that no other part of the function uses."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: Any) -> str:
        """Return the name by which the function refers to `value`, an object of its scope."""
        for known, other in self.scope.items():
            if other is value:
                return known
        known = self.name(stem)
        self.scope[known] = value
        return known

    def literal(self, value: Any) -> str:
        """Return an expression for a default; a mutable default is new at each evaluation."""
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return repr(value)
        if value == []:
            return "[]"
        return self.constant("default", value)

    def finish(self, head: str, kind: str) -> tuple[Callable[..., Any], str]:
        """Compile the collected lines under `head`; return the function and its source."""
        source = "\n".join([head, *self.lines, ""])
        filename = f"<{kind} {self.cls.__name__} v{self.version}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(compile(source, filename, "exec"), self.scope)
        made: Callable[..., Any] = self.scope[kind]
        return made, source


def layout_of(codes: str) -> Layout:
    """Return the big-endian layout of a run of fixed-width fields."""
    found = _layouts.get(codes)
    if found is None:
        made = Struct(">" + codes)
        found = _layouts[codes] = Layout(made.size, made.pack, made.unpack_from)
    return found


def minimum_size(kind: WireType, version: int, flexible: bool, tagged: bool = False) -> int:
    """Return the fewest bytes a value can take: the bound on a count before it is trusted."""
    if isinstance(kind, Fixed):
        return kind.size
    if isinstance(kind, ArrayOf):
        return 1 if flexible else 4
    if isinstance(kind, Opaque):
        if kind.name == "uuid":
            return 16
        return 1 if flexible else 2 if kind.name == "text" else 4
    assert isinstance(kind, StructOf)
    size = 1 if flexible else 0
    for item in fields_of(kind.cls):
        if item.present(version) and item.tag is None:
            nested = isinstance(item.type, StructOf) and item.nullable(version)
            size += 1 if nested else minimum_size(item.type, version, flexible)
    return size


def objects_max(cls: type[Any]) -> int:
    """Return how many objects a message may contain: see `primitives`."""
    if cls.__name__ in UNDIVIDED_OBJECTS_MAX:
        return UNDIVIDED_OBJECTS_MAX[cls.__name__]
    return RESPONSE_OBJECTS_MAX if cls.__name__.endswith("Response") else REQUEST_OBJECTS_MAX
