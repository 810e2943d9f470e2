"""Generates the reader of one version of a message, which turns bytes into dataclasses.

The source of a reader is straight-line Python (a struct in an array, flexible, abridged):

    def read(data, pos):
     end = len(data)
     left = 200000
     try:
      acks2, timeout_ms3 = unpack4(data, pos)
      pos += 6
      n5 = data[pos]
      if n5 > 127: n5, pos = read_uvarint(data, pos)
      else: pos += 1
      n5 -= 1
      left -= n5
      if n5 < 0 or left < 0 or n5 * 4 > end - pos: raise bad_count(...)
      topic_data6 = []
      for _ in range(n5):
       ...
       o9 = new(TopicProduceData)
       o9.name = name7

Adjacent fields of fixed width, and the length before a string or an array in the non-flexible
encoding, share one `unpack_from`. A count may not exceed what the remaining bytes can hold at the
element's smallest size, nor may the decoded elements exceed the limit for one message; a length may
not exceed the remaining bytes. `struct` and indexing check the end of the frame for the rest, so
the whole body is in one `try` that turns their errors into `ProtocolError`. Bytes after a response
or a record are an error too. `records` become a `ByteRange` of the frame, `bytes` a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as struct_error
from struct import unpack_from
from typing import Any

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ProtocolError
from odradek.protocol.codegen import FunctionBuilder, layout_of, minimum_size, objects_max
from odradek.protocol.primitives import (
    MAX_STRING_BYTES,
    read_uvarint,
    skip_tags,
    too_many_tags,
    uuid_of,
)
from odradek.protocol.schema import (
    RECORDS,
    TEXT,
    ArrayOf,
    Field,
    Fixed,
    Opaque,
    StructOf,
    WireType,
    fields_of,
    is_open_ended,
    is_written_by_hand,
)

Compiled = tuple[Callable[[bytes, int], Any], str]


def compile_reader(
    cls: type[Any], version: int, open_ended: bool | None = None, sliced: bool = False
) -> Compiled:
    """Return `read(frame, pos) -> message` for one version, and its source.

    `open_ended` None is as declared. A `sliced` reader is a generator that returns the message.
    """
    return ReaderBuilder(cls, version, open_ended, sliced).function()


def bad_length(where: str, length: int, remaining: int) -> ProtocolError:
    """Return the error for a length or count that the frame cannot hold."""
    return ProtocolError(f"{where} has length {length}, {remaining} bytes are left")


def trailing_bytes(name: str, extra: int) -> ProtocolError:
    """Return the error for bytes after the end of the message."""
    return ProtocolError(f"{name} is followed by {extra} bytes more")


class ReaderBuilder(FunctionBuilder):
    """Builds a reader. `run` holds the fixed-width fields not yet unpacked."""

    def __init__(
        self,
        cls: type[Any],
        version: int,
        open_ended: bool | None = None,
        sliced: bool = False,
    ) -> None:
        super().__init__(cls, version, sliced)
        self.open_ended = is_open_ended(cls) if open_ended is None else open_ended
        self.run: list[tuple[str, str]] = []
        self.scope |= {
            "new": object.__new__,
            "ByteRange": ByteRange,
            "ProtocolError": ProtocolError,
            "read_uvarint": read_uvarint,
            "skip_tags": skip_tags,
            "uuid_of": uuid_of,
            "bad_length": bad_length,
            "trailing_bytes": trailing_bytes,
            "too_many_tags": too_many_tags,
            "struct_error": struct_error,
            "unpack_from": unpack_from,
        }

    def function(self) -> tuple[Callable[[bytes, int], Any], str]:
        """Return the reader and its source."""
        title = f"{self.cls.__name__} v{self.version}"
        self.emit("end = len(data)")
        self.emit(f"left = {objects_max(self.cls)}")
        self.begin_slices()
        with self.block("try:"):
            result = self.read_struct(self.cls)
            if not self.open_ended:
                # Bytes after a request are skipped: librdkafka 2.16 sends three too many.
                self.emit(f"if pos != end: raise trailing_bytes({title!r}, end - pos)")
            self.emit(f"return {result}")
        with self.block("except (struct_error, IndexError):"):
            self.emit(
                f"raise ProtocolError({title + ' runs past the end of the frame'!r}) from None"
            )
        with self.block("except UnicodeDecodeError:"):
            self.emit(f"raise ProtocolError({title + ' has text that is not UTF-8'!r}) from None")
        return self.finish("def read(data, pos):", "read")

    def pend(self, code: str, target: str) -> None:
        """Add a fixed-width field to the run."""
        self.run.append((code, target))

    def flush(self) -> None:
        """Emit code that unpacks the run, if there is one."""
        if not self.run:
            return
        layout = layout_of("".join(code for code, _ in self.run))
        unpack = self.constant("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in self.run)
        self.emit(f"{targets}, = {unpack}(data, pos)")
        self.emit(f"pos += {layout.size}")
        self.run.clear()

    def read_struct(self, cls: type[Any]) -> str:
        """Emit code that reads a struct and builds it; return the name of its local variable."""
        present = [item for item in fields_of(cls) if item.present(self.version)]
        values: dict[str, str] = {}
        converted: list[str] = []
        for item in present:
            if item.tag is None:
                values[item.name] = self.read_field(cls, item, converted)
        self.flush()
        if self.flexible:
            tagged = [item for item in present if item.tag is not None]
            self.read_tags(cls, tagged, values)
        result = self.name("o")
        made = self.constant("C", cls)
        for item in fields_of(cls):
            value = values.get(item.name)
            if value is None:
                values[item.name] = self.literal(item.default)
            elif value in converted:
                values[item.name] = f"uuid_of({value})"
        if is_written_by_hand(cls):
            arguments = (f"{item.name}={values[item.name]}" for item in fields_of(cls))
            self.emit(f"{result} = {made}({', '.join(arguments)})")
            return result
        self.emit(f"{result} = new({made})")
        for item in fields_of(cls):
            self.emit(f"{result}.{item.name} = {values[item.name]}")
        return result

    def read_field(self, cls: type[Any], item: Field, converted: list[str]) -> str:
        """Emit code that reads one field; return its local variable, assigned by the next flush."""
        kind, target = item.type, self.name(item.name)
        where = f"{cls.__name__}.{item.name}"
        if isinstance(kind, Fixed):
            self.pend(kind.code, target)
            return target
        if isinstance(kind, Opaque) and kind.name == "uuid":
            self.pend("16s", target)
            converted.append(target)
            return target
        self.read_variable(kind, target, where, item.nullable(self.version))
        return target

    def read_variable(self, kind: WireType, target: str, where: str, nullable: bool) -> None:
        """Emit code that reads a value beginning with a length, a count or a null marker."""
        if isinstance(kind, StructOf):
            self.read_nullable_struct(kind.cls, target, where, nullable)
            return
        short = kind == TEXT
        size = self.read_length("h" if short else "i")
        if nullable:
            with self.block(f"if {size} == -1:"):
                self.emit(f"{target} = None")
            with self.block("else:"):
                self.read_content(kind, target, size, where)
        else:
            self.read_content(kind, target, size, where)

    def read_length(self, code: str) -> str:
        """Emit code that reads a length or count, -1 for null; return its local variable."""
        size = self.name("n")
        if not self.flexible:
            self.pend(code, size)
            self.flush()
            return size
        self.flush()
        self.read_varint(size)
        self.emit(f"{size} -= 1")
        return size

    def read_varint(self, target: str) -> None:
        """Emit code that reads an unsigned varint; one byte is the usual case."""
        self.emit(f"{target} = data[pos]")
        self.emit(f"if {target} > 127: {target}, pos = read_uvarint(data, pos)")
        self.emit("else: pos += 1")

    def read_content(self, kind: WireType, target: str, size: str, where: str) -> None:
        """Emit code that reads `size` bytes or elements."""
        if isinstance(kind, ArrayOf):
            self.read_array(kind.element, target, size, where)
            return
        stop = self.name("e")
        self.emit(f"{stop} = pos + {size}")
        limit = f" or {size} > {MAX_STRING_BYTES}" if kind == TEXT and self.flexible else ""
        self.emit(
            f"if {size} < 0 or {stop} > end{limit}: raise bad_length({where!r}, {size}, end - pos)"
        )
        if kind == TEXT:
            self.emit(f"{target} = data[pos:{stop}].decode()")
        elif kind == RECORDS:
            self.emit(f"{target} = ByteRange(data, pos, {stop})")
        else:
            self.emit(f"{target} = data[pos:{stop}]")
        self.emit(f"pos = {stop}")

    def read_array(self, element: WireType, target: str, count: str, where: str) -> None:
        """Emit code that checks the bounds and reads `count` elements."""
        smallest = minimum_size(element, self.version, self.flexible)
        assert smallest > 0, f"{where}: an element without bytes has no bound"
        self.emit(f"left -= {count}")
        self.emit(
            f"if {count} < 0 or left < 0 or {count} * {smallest} > end - pos: "
            f"raise bad_length({where!r}, {count}, end - pos)"
        )
        if isinstance(element, Fixed):
            self.emit(
                f"{target} = list(unpack_from('>%d{element.code}' % {count}, data, pos))"
                f" if {count} else []"
            )
            self.emit(f"pos += {count} * {element.size}")
            return
        if isinstance(element, Opaque) and element.name == "uuid":
            stop = self.name("e")
            self.emit(f"{stop} = pos + {count} * 16")
            self.emit(f"{target} = [uuid_of(data[i:i + 16]) for i in range(pos, {stop}, 16)]")
            self.emit(f"pos = {stop}")
            return
        self.emit(f"{target} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(element, StructOf):
                value = self.read_struct(element.cls)
            else:
                value = self.name("v")
                self.read_variable(element, value, where, nullable=False)
            self.emit(f"{target}.append({value})")
            self.count_element()

    def read_nullable_struct(self, cls: type[Any], target: str, where: str, nullable: bool) -> None:
        """Emit code that reads a struct field; a nullable one has a null marker in front."""
        if not nullable:
            self.flush()
            self.emit(f"{target} = {self.read_struct(cls)}")
            return
        marker = self.name("m")
        self.pend("b", marker)
        self.flush()
        with self.block(f"if {marker} < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.emit(f"{target} = {self.read_struct(cls)}")

    def read_tags(self, cls: type[Any], tagged: list[Field], values: dict[str, str]) -> None:
        """Emit code that reads known tagged fields and skips the others."""
        if not tagged:
            self.emit("if data[pos]: pos, left = skip_tags(data, pos, left)")
            self.emit("else: pos += 1")
            return
        for item in tagged:
            values[item.name] = self.name(item.name)
            self.emit(f"{values[item.name]} = {self.literal(item.default)}")
        count, tag, size, stop = (self.name(stem) for stem in ("n", "t", "n", "e"))
        self.read_varint(count)
        self.emit(f"left -= {count}")
        self.emit(f"if left < 0: raise too_many_tags({count})")
        with self.block(f"for _ in range({count}):"):
            self.read_varint(tag)
            self.read_varint(size)
            self.emit(f"{stop} = pos + {size}")
            self.emit(f"if {stop} > end: raise bad_length('a tagged field', {size}, end - pos)")
            word = "if"
            for item in tagged:
                with self.block(f"{word} {tag} == {item.tag}:"):
                    self.read_tagged(cls, item, values[item.name], stop)
                word = "elif"
            self.emit(f"else: pos = {stop}")

    def read_tagged(self, cls: type[Any], item: Field, target: str, stop: str) -> None:
        """Emit code that reads one known tagged field, which must have exactly its stated size."""
        converted: list[str] = []
        value = self.read_field(cls, item, converted)
        self.flush()
        self.emit(f"{target} = uuid_of({value})" if converted else f"{target} = {value}")
        where = f"{cls.__name__}.{item.name}"
        self.emit(f"if pos != {stop}: raise bad_length({where!r}, {stop}, pos)")
