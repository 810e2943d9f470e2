"""Builders of columns: they take the values of decoded records, and fill buffers of Arrow's layout.

There is a builder for each field of a record type, as in Arrow's C++:

    StructBuilder           takes a `msgspec.Struct`; has a builder for each of its fields, in order
    ListBuilder             takes a list; has a builder for the elements
    Int32Builder, Int64Builder, DoubleBuilder       little-endian numbers
    BooleanBuilder          one byte a value
    TextBuilder             a list of `str`, RawTextBuilder: of the JSON text of values of any type

`append(None)` adds a null, to the builders of the fields too. The caller makes arrays of the
buffers: this module uses no Arrow library.

Tests: unit/model/test_column_builders.py, unit/spark/test_json_columns.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from librt.strings import BytesWriter, write_f64_le, write_i32_le, write_i64_le
from msgspec import DecodeError, Raw, Struct
from msgspec.structs import astuple
from mypy_extensions import i32, i64

NULL_TEXT: Final = b"null"


class ColumnBuilder:
    """The values so far of one column."""

    def __init__(self) -> None:
        self.count: i64 = 0
        """The number of values and nulls."""
        self.nulls: list[int] = []
        """The places of the nulls."""
        self.next: ColumnBuilder | None = None
        """The builder of the next field of the same record. A list of builders would have the type
        of each one checked at each use."""

    def append(self, value: object) -> None:
        """Add a value, or null for None."""
        raise NotImplementedError

    def note_null(self) -> None:
        """Note that the next value is a null."""
        self.nulls.append(self.count)


class NumberBuilder(ColumnBuilder):
    """A column of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = BytesWriter()
        """The numbers, 0 for null."""


class Int32Builder(NumberBuilder):
    """A column of integers of at most 32 bits."""

    def append(self, value: object) -> None:
        if value is None:
            self.note_null()
            write_i32_le(self.numbers, 0)
        else:
            write_i32_le(self.numbers, i32(cast("int", value)))
        self.count += 1


class Int64Builder(NumberBuilder):
    """A column of integers of at most 64 bits."""

    def append(self, value: object) -> None:
        if value is None:
            self.note_null()
            write_i64_le(self.numbers, 0)
        else:
            write_i64_le(self.numbers, i64(cast("int", value)))
        self.count += 1


class DoubleBuilder(NumberBuilder):
    """A column of doubles."""

    def append(self, value: object) -> None:
        if value is None:
            self.note_null()
            write_f64_le(self.numbers, 0.0)
        else:
            write_f64_le(self.numbers, cast("float", value))
        self.count += 1


class BooleanBuilder(ColumnBuilder):
    """A column of truth values."""

    def __init__(self) -> None:
        super().__init__()
        self.truths = BytesWriter()
        """1 for true, 0 for false and null."""

    def append(self, value: object) -> None:
        if value is None:
            self.note_null()
            self.truths.append(0)
        else:
            self.truths.append(1 if value is True else 0)
        self.count += 1


class TextBuilder(ColumnBuilder):
    """A column of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[object] = []
        """Each a `str` or None."""

    def append(self, value: object) -> None:
        self.texts.append(value)


class RawTextBuilder(TextBuilder):
    """A column of JSON texts, given as `msgspec.Raw`."""

    def append(self, value: object) -> None:
        text = NULL_TEXT if value is None else bytes(cast("Raw", value))
        self.texts.append(None if text == NULL_TEXT else text.decode())


class StructBuilder(ColumnBuilder):
    """A column of records."""

    def __init__(self, fields: Sequence[ColumnBuilder]) -> None:
        super().__init__()
        self.fields = list(fields)
        self._first: ColumnBuilder | None = None
        for field in reversed(self.fields):
            field.next, self._first = self._first, field

    def append(self, value: object) -> None:
        field = self._first
        if value is None:
            self.note_null()
            while field is not None:
                field.append(None)
                field = field.next
        else:
            for each in cast("tuple[object, ...]", astuple(cast("Struct", value))):
                if field is not None:
                    field.append(each)
                    field = field.next
        self.count += 1


class ListBuilder(ColumnBuilder):
    """A column of lists."""

    def __init__(self, elements: ColumnBuilder) -> None:
        super().__init__()
        self.elements = elements
        self.offsets = BytesWriter()
        """int32, one more than lists: list i has the elements from offset i to offset i + 1."""
        self._end: i64 = 0
        write_i32_le(self.offsets, 0)

    def append(self, value: object) -> None:
        if value is None:
            self.note_null()
        else:
            for element in cast("list[object]", value):
                self.elements.append(element)
                self._end += 1
        write_i32_le(self.offsets, i32(self._end))
        self.count += 1


def append_decoded(
    builder: ColumnBuilder, decode: Callable[[bytes], object], values: list[bytes | None]
) -> None:
    """Append the records that `decode` makes of the values; null for None, and for a value that it
    refuses with an error of msgspec."""
    for value in values:
        if value is None:
            builder.append(None)
            continue
        try:
            record = decode(value)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            builder.append(None)
        else:
            builder.append(record)
