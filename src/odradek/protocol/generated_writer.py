"""Generates the writer of one version of a message, which turns dataclasses into parts.

The source of a writer is straight-line Python (abridged):

    def write(o):
     parts = []
     chunk = []
     put = chunk.append
     s3 = o.name.encode()
     n4 = len(s3) + 1
     put(ONE_BYTE_VARINTS[n4] if n4 < 128 else uvarint(n4))
     put(s3)
     for o5 in o.partitions:
      put(pack6(o5.index, o5.error_code, ...))
     parts.append(b"".join(chunk))
     return parts

Small values are joined to one part. Byte ranges of files, and record batches above
`COPIED_BYTES_MAX`, are separate parts and are not copied.

A field that this version lacks must have its default, unless it is ignorable; otherwise, and for
null where this version does not allow it, the writer raises `UnsupportedVersionError`. A number
that does not fit its field is a bug and raises `struct.error`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack
from typing import Any

from odradek.model.byte_ranges import ByteRange, FileSlice
from odradek.protocol.codegen import FunctionBuilder, layout_of
from odradek.protocol.primitives import (
    COPIED_BYTES_MAX,
    MAX_STRING_BYTES,
    ONE_BYTE_VARINTS,
    uvarint,
)
from odradek.protocol.schema import (
    RECORDS,
    TEXT,
    ArrayOf,
    Field,
    Fixed,
    Opaque,
    StructOf,
    UnsupportedVersionError,
    WireType,
    fields_of,
)

Part = bytes | memoryview | FileSlice


def compile_writer(
    cls: type[Any], version: int, sliced: bool = False
) -> tuple[Callable[[Any], list[Part]], str]:
    """Return `write(message) -> parts` for one version, and its source.

    A `sliced` writer is a generator that returns the parts.
    """
    return WriterBuilder(cls, version, sliced).function()


def unsupported(title: str, field: str) -> UnsupportedVersionError:
    """Return the error for a value that this version cannot carry."""
    return UnsupportedVersionError(f"{title} cannot carry this value of {field}")


def too_long(title: str, field: str, size: int) -> ValueError:
    """Return the error for a text longer than the protocol allows."""
    return ValueError(
        f"{title}: {field} takes {size} bytes, the protocol allows {MAX_STRING_BYTES}"
    )


def records_size(records: bytes | ByteRange | FileSlice | Sequence[FileSlice]) -> int:
    """Return the size of record batches in bytes."""
    if isinstance(records, bytes | ByteRange | FileSlice):
        return len(records)
    return sum(piece.length for piece in records)


def put_records(
    parts: list[Part],
    chunk: list[bytes],
    records: bytes | ByteRange | FileSlice | Sequence[FileSlice],
) -> None:
    """Add record batches: small ones to the chunk, large ones as separate parts after it."""
    if isinstance(records, bytes | ByteRange) and len(records) <= COPIED_BYTES_MAX:
        chunk.append(bytes(records))
        return
    if not records:
        return
    parts.append(b"".join(chunk))
    chunk.clear()
    if isinstance(records, ByteRange):
        parts.append(records.view())
    elif isinstance(records, bytes | FileSlice):
        parts.append(records)
    else:
        parts.extend(records)


def joined(parts: Sequence[Part]) -> bytes:
    """Return the parts joined to one `bytes`; byte ranges of files are read."""
    return b"".join([part.read() if isinstance(part, FileSlice) else part for part in parts])


class WriterBuilder(FunctionBuilder):
    """A writer under construction. `run` holds the fixed fields not yet packed."""

    def __init__(self, cls: type[Any], version: int, sliced: bool = False) -> None:
        super().__init__(cls, version, sliced)
        self.run: list[tuple[str, str]] = []
        self.put = "put"
        self.title = f"{cls.__name__} v{version}"
        self.scope |= {
            "ONE_BYTE_VARINTS": ONE_BYTE_VARINTS,
            "uvarint": uvarint,
            "unsupported": unsupported,
            "too_long": too_long,
            "records_size": records_size,
            "put_records": put_records,
            "pack": pack,
        }

    def function(self) -> tuple[Callable[[Any], list[Part]], str]:
        """Return the writer and its source."""
        self.emit("parts = []")
        self.begin_slices()
        self.emit("chunk = []")
        self.emit("put = chunk.append")
        self.write_struct(self.cls, "o")
        self.flush()
        self.emit("if chunk: parts.append(b''.join(chunk))")
        self.emit("return parts")
        return self.finish("def write(o):", "write")

    def pend(self, code: str, expression: str) -> None:
        """Add a fixed-width field to the run; the expression is evaluated at the next flush."""
        self.run.append((code, expression))

    def flush(self) -> None:
        """Emit code that packs the run, if there is one."""
        if not self.run:
            return
        values = [expression for _, expression in self.run if expression]
        layout = layout_of("".join(code for code, _ in self.run))
        if values:
            pack = self.constant("pack", layout.pack)
            self.emit(f"{self.put}({pack}({', '.join(values)}))")
        else:
            self.emit(f"{self.put}({layout.pack()!r})")
        self.run.clear()

    def write_struct(self, cls: type[Any], value: str) -> None:
        """Emit code that writes the fields of the struct `value`, and its tag section."""
        tagged = []
        for item in fields_of(cls):
            expression = f"{value}.{item.name}"
            if not item.present(self.version):
                self.refuse_unless_default(cls, item, expression)
            elif item.tag is not None:
                tagged.append(item)
            else:
                self.write_field(cls, item, expression)
        if not self.flexible:
            return
        if tagged:
            self.write_tags(cls, tagged, value)
        else:
            self.pend("x", "")

    def refuse_unless_default(self, cls: type[Any], item: Field, expression: str) -> None:
        """Emit a check that refuses a value this version would lose, unless it is ignorable."""
        if item.ignorable:
            return
        where = f"{cls.__name__}.{item.name}"
        different = self.differs(item, expression)
        self.emit(f"if {different}: raise unsupported({self.title!r}, {where!r})")

    def differs(self, item: Field, expression: str) -> str:
        """Return a test that a field has another value than its default."""
        if item.default is None:
            return f"{expression} is not None"
        if item.default == []:
            return f"{expression} != []"
        return f"{expression} != {self.literal(item.default)}"

    def write_field(self, cls: type[Any], item: Field, expression: str) -> None:
        """Emit code that writes one field of this version."""
        kind, where = item.type, f"{cls.__name__}.{item.name}"
        if isinstance(kind, Fixed):
            self.pend(kind.code, expression)
        elif isinstance(kind, Opaque) and kind.name == "uuid":
            self.pend("16s", f"{expression}.bytes")
        else:
            local = self.name(item.name)
            self.emit(f"{local} = {expression}")
            nullable = item.nullable(self.version)
            if item.optional and not nullable:
                self.emit(f"if {local} is None: raise unsupported({self.title!r}, {where!r})")
            self.write_variable(kind, local, where, nullable)

    def write_variable(self, kind: WireType, local: str, where: str, nullable: bool) -> None:
        """Emit code that writes a value beginning with a length, a count or a null marker."""
        if not nullable:
            self.write_content(kind, local, where)
            return
        # The pending run comes before both branches.
        self.flush()
        with self.block(f"if {local} is None:"):
            if isinstance(kind, StructOf):
                self.pend("b", "-1")
            elif self.flexible:
                self.pend("x", "")
            else:
                self.pend("h" if kind == TEXT else "i", "-1")
            self.flush()
        with self.block("else:"):
            if isinstance(kind, StructOf):
                self.pend("b", "1")
            self.write_content(kind, local, where)
            self.flush()

    def write_length(self, code: str, expression: str) -> None:
        """Emit code that writes a length or count."""
        if not self.flexible:
            self.pend(code, expression)
            self.flush()
            return
        self.flush()
        size = self.name("n")
        self.emit(f"{size} = {expression} + 1")
        self.emit(f"{self.put}(ONE_BYTE_VARINTS[{size}] if {size} < 128 else uvarint({size}))")

    def write_content(self, kind: WireType, local: str, where: str) -> None:
        """Emit code that writes a value that is not null."""
        if isinstance(kind, StructOf):
            self.write_struct(kind.cls, local)
        elif isinstance(kind, ArrayOf):
            self.write_length("i", f"len({local})")
            self.write_elements(kind.element, local, where)
        elif kind == TEXT:
            data = self.name("s")
            self.emit(f"{data} = {local}.encode()")
            self.emit(
                f"if len({data}) > {MAX_STRING_BYTES}: "
                f"raise too_long({self.title!r}, {where!r}, len({data}))"
            )
            self.write_length("h", f"len({data})")
            self.emit(f"{self.put}({data})")
        elif kind == RECORDS:
            self.write_length("i", f"records_size({local})")
            self.emit(f"put_records(parts, chunk, {local})")
        else:
            self.write_length("i", f"len({local})")
            self.emit(f"{self.put}({local})")

    def write_elements(self, element: WireType, local: str, where: str) -> None:
        """Emit code that writes the elements of an array."""
        if isinstance(element, Fixed):
            self.emit(f"if {local}: {self.put}(pack('>%d{element.code}' % len({local}), *{local}))")
            return
        if isinstance(element, Opaque) and element.name == "uuid":
            self.emit(f"{self.put}(b''.join([i.bytes for i in {local}]))")
            return
        value = self.name("o")
        with self.block(f"for {value} in {local}:"):
            self.write_content(element, value, where)
            self.flush()
            self.count_element("parts.append(b''.join(chunk)); chunk.clear()")

    def write_tags(self, cls: type[Any], tagged: list[Field], value: str) -> None:
        """Emit code that writes the tagged fields that differ from their defaults, by tag."""
        self.flush()
        tests = [f"({self.differs(item, f'{value}.{item.name}')})" for item in tagged]
        with self.block(f"if {' or '.join(tests)}:"):
            fields = self.name("tags")
            self.emit(f"{fields} = []")
            for item, test in sorted(zip(tagged, tests), key=lambda pair: pair[0].tag or 0):
                with self.block(f"if {test}:"):
                    self.write_tagged(cls, item, f"{value}.{item.name}", fields)
            self.emit(f"{self.put}(uvarint(len({fields})))")
            self.emit(f"{self.put}(b''.join({fields}))")
        with self.block("else:"):
            self.emit(f"{self.put}(b'\\0')")

    def write_tagged(self, cls: type[Any], item: Field, expression: str, fields: str) -> None:
        """Emit code that writes a tagged field into its own chunk, because its size comes first."""
        inner, outer = self.name("tag"), self.put
        self.emit(f"{inner} = []")
        self.put = f"{inner}.append"
        if isinstance(item.type, StructOf) and not item.optional:
            local = self.name(item.name)
            self.emit(f"{local} = {expression}")
            self.write_struct(item.type.cls, local)
        else:
            self.write_field(cls, item, expression)
        self.flush()
        self.put = outer
        self.emit(f"{inner} = b''.join({inner})")
        self.emit(f"{fields}.append(uvarint({item.tag}) + uvarint(len({inner})) + {inner})")
