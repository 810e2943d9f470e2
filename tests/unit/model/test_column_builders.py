"""Builders of columns: what they keep of values, nulls and records that were refused."""

from __future__ import annotations

import struct
from typing import TypeVar

import msgspec
import pytest

from odradek.model.column_builders import (
    BooleanBuilder,
    ColumnBuilder,
    DoubleBuilder,
    Int32Builder,
    Int64Builder,
    ListBuilder,
    NumberBuilder,
    RawTextBuilder,
    StructBuilder,
    TextBuilder,
    append_decoded,
)

Builder = TypeVar("Builder", bound=ColumnBuilder)


class Inner(msgspec.Struct):
    text: str | None = None


class Record(msgspec.Struct):
    number: int | None = None
    inner: Inner | None = None
    numbers: list[int | None] | None = None


def filled(builder: Builder, *values: object) -> Builder:
    for value in values:
        builder.append(value)
    return builder


def integers(builder: NumberBuilder) -> list[int]:
    data = builder.numbers.getvalue()
    size, code = (8, "q") if isinstance(builder, Int64Builder) else (4, "i")
    return list(struct.unpack(f"<{len(data) // size}{code}", data))


def test_integers_are_32_or_64_bits_each_and_0_for_null() -> None:
    for builder, bits in ((Int32Builder(), 31), (Int64Builder(), 63)):
        filled(builder, 7, None, -(2**bits), 2**bits - 1)
        assert integers(builder) == [7, 0, -(2**bits), 2**bits - 1]
        assert (builder.count, builder.nulls) == (4, [1])


def test_a_larger_integer_is_an_error_and_not_another_number() -> None:
    for builder, bits in ((Int32Builder(), 31), (Int64Builder(), 63)):
        with pytest.raises((OverflowError, ValueError)):
            builder.append(2**bits)


def test_doubles_are_64_bits_each_and_0_for_null() -> None:
    builder = filled(DoubleBuilder(), 1.5, None, -0.0)
    assert struct.unpack("<3d", builder.numbers.getvalue()) == (1.5, 0.0, -0.0)
    assert (builder.count, builder.nulls) == (3, [1])


def test_truth_values_are_a_byte_each() -> None:
    builder = filled(BooleanBuilder(), True, None, False)
    assert list(builder.truths.getvalue()) == [1, 0, 0]
    assert (builder.count, builder.nulls) == (3, [1])


def test_texts_are_kept_and_raw_values_become_texts() -> None:
    builder = filled(TextBuilder(), "a", None, "")
    assert builder.texts == ["a", None, ""]
    raw = filled(RawTextBuilder(), msgspec.Raw(b"1.50"), msgspec.Raw(b"null"), None)
    assert raw.texts == ["1.50", None, None]


def test_a_record_is_a_value_for_each_of_its_fields_however_deep() -> None:
    number, text, elements = Int32Builder(), TextBuilder(), Int64Builder()
    inner, numbers = StructBuilder([text]), ListBuilder(elements)
    builder = StructBuilder([number, inner, numbers])
    filled(builder, Record(1, Inner("a"), [2, None]), None, Record(), Record(3, Inner(), []))
    assert (builder.count, builder.nulls) == (4, [1])
    assert integers(number) == [1, 0, 0, 3]
    assert (inner.count, inner.nulls) == (4, [1, 2])
    assert text.texts == ["a", None, None, None]
    assert (numbers.count, numbers.nulls) == (4, [1, 2])
    assert struct.unpack("<5i", numbers.offsets.getvalue()) == (0, 2, 2, 2, 2)
    assert integers(elements) == [2, 0]


def test_a_refused_value_is_null_and_other_errors_are_raised() -> None:
    number = Int64Builder()
    builder = StructBuilder([number, StructBuilder([TextBuilder()]), ListBuilder(Int64Builder())])
    decode = msgspec.json.Decoder(Record).decode
    values = [b'{"number":1}', None, b"{", b'{"number":"1"}', b'{"inner":{"text":"\xff"}}', b"{}"]
    append_decoded(builder, decode, values)
    assert (builder.count, builder.nulls) == (6, [1, 2, 3, 4])
    assert integers(number) == [1, 0, 0, 0, 0, 0]

    def broken(value: bytes) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        append_decoded(builder, broken, [b"{}"])
