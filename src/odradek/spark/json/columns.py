"""Decodes a batch of JSON values to columns: a struct for each value, and its error.

    values ─► msgspec, by a type made of the schema ─► builders of columns ─► structs
                 └─ refused, or in doubt ─► `records`, one by one

msgspec is stricter than Spark's parser, and refuses what does not match the type: a number with a
fraction for an int, single quotes, NaN. Where Spark's result may differ from msgspec's, the record
is in doubt (`beyond_limits`, `overridden`, `SparkConversion`). Only refused and doubtful records go
to `records`. Of a field that occurs twice, msgspec keeps the last value: `error` does not tell of
an earlier time, date or decimal that could not be converted.

Without compiled leaves a record of 19 fields takes some 4 us instead of 1.7, most of it in the
builders.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as sql
from pyspark.sql.pandas.types import to_arrow_schema

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
from odradek.spark.json.records import RecordParser
from odradek.spark.json.schema import CORRUPT_RECORD, nullable
from odradek.spark.json.times import Zone
from odradek.spark.json.tokens import MAX_DEPTH, MAX_NAME_LENGTH, MAX_NUMBER_LENGTH

RowMask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]

ROWS_AT_ONCE = 1000
"""So many values are copied out of Arrow's buffer before they are decoded."""

NUMBER_BYTES = np.isin(np.arange(256), list(b"0123456789+-.eE"))
QUOTE, BACKSLASH = ord('"'), ord("\\")
OPENING, CLOSING = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)
HALF_OF_A_FLOAT = np.uint64(0x1000_0000)
BELOW_A_FLOAT = np.uint64(0x1FFF_FFFF)
"""The bits of a double that a float has not; half of the last one that it has."""

DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = rf"{DATE}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?"
AFTER_THE_TABLES = pa.scalar(datetime(2038, 1, 1), pa.timestamp("us"))
"""Arrow does not apply the rule for the years after a zone's table of changes."""
OFFSET = "(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"

NOT_CONVERTED = (
    *(sql.TimestampType, sql.TimestampNTZType, sql.DateType, sql.BinaryType, sql.DecimalType),
)
READ_AS_TEXT = (sql.StringType, *NOT_CONVERTED)
AS_READ = (
    *(sql.BooleanType, sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType),
    sql.StringType,
)


class JsonColumns:
    """Decodes values by one schema. `zone` is called for timestamps without a zone."""

    def __init__(self, schema: sql.StructType, zone: Zone) -> None:
        kind = nullable(schema)
        assert isinstance(kind, sql.StructType)
        self.type: pa.DataType = arrow_type(kind)
        self.zone = zone
        self.corrupt_record = CORRUPT_RECORD if CORRUPT_RECORD in kind.names else None
        self.records = RecordParser(kind, zone, self.corrupt_record)
        self.kind = sql.StructType([f for f in kind.fields if f.name != self.corrupt_record])
        self.read_type = reading_type(self.kind) if self.kind.fields else None
        self.decoder = decoder_of(self.kind) if self.read_type is not None else None
        kinds = NOT_CONVERTED if self.corrupt_record is not None else (sql.BinaryType,)
        self.converted_later = sorted(
            json.dumps(name, ensure_ascii=False) for name in names_of(self.kind, kinds)
        )
        """Fields that a record must not have twice: those of binary, where Jackson goes on within
        a string that is no Base64; all that are converted after msgspec, if the record's text is
        wanted when one cannot be."""

    def decode(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return structs of the schema, null for null and empty values; and errors, null for
        values that were decoded completely."""
        absent = values.is_null().to_numpy(zero_copy_only=False)
        if self.decoder is None:
            structs, alone = pa.nulls(len(values), self.type), ~absent
        else:
            structs, alone = self.decode_together(values, absent)
        rows = np.flatnonzero(alone)
        if not len(rows):
            return structs, pa.nulls(len(values), pa.string())
        decoded = [self.records.parse(values[int(row)].as_py()) for row in rows]
        order = np.arange(len(values))
        order[rows] = len(values) + np.arange(len(rows))
        others = pa.array([struct for struct, _ in decoded], self.type)
        errors: list[str | None] = [None] * len(values)
        for row, (_, error) in zip(rows.tolist(), decoded, strict=True):
            errors[row] = error
        return (
            pa.concat_arrays([structs, others]).take(pa.array(order)),
            pa.array(errors, pa.string()),
        )

    def decode_together(self, values: pa.Array, absent: RowMask) -> tuple[pa.Array, RowMask]:
        """Return the structs of the values that msgspec reads as Spark does, and a mask of the
        others."""
        alone = undecodable(values) | beyond_limits(values) | self.overridden(values)
        structs = self.read(values, alone)
        alone |= structs.is_null().to_numpy(zero_copy_only=False)
        conversion = SparkConversion(self.zone, len(values))
        structs = conversion.root(structs, self.kind, self.type)
        return structs, (alone | conversion.doubtful) & ~absent

    def read(self, values: pa.Array, skipped: RowMask) -> pa.Array:
        """Return a struct for each value, null for null, skipped, and what msgspec refuses."""
        assert self.decoder is not None
        builder = builder_of(self.kind)
        for start in range(0, len(values), ROWS_AT_ONCE):
            some = values.slice(start, ROWS_AT_ONCE).to_pylist()
            for row in np.flatnonzero(skipped[start : start + ROWS_AT_ONCE]).tolist():
                some[row] = None
            append_decoded(builder, self.decoder.decode, some)
        return array_of(builder, self.read_type)

    def overridden(self, values: pa.Array) -> RowMask:
        """Return a mask of the values in which a field of `self.converted_later` may occur twice:
        msgspec keeps the last value, and an earlier one that cannot be converted is not seen."""
        rows: RowMask = np.zeros(len(values), bool)
        if self.converted_later:
            for name in self.converted_later:
                rows |= matching(values, f"{re.escape(name)}(?s:.*){re.escape(name)}")
            rows |= matching(values, r"\\[u/]")  # A name may be escaped.
        return rows


class SparkConversion:
    """Converts what msgspec has read to Spark's results, and notes the rows where it cannot."""

    def __init__(self, zone: Zone, rows: int) -> None:
        self.zone = zone
        self.doubtful: RowMask = np.zeros(rows, bool)

    def root(self, structs: pa.Array, kind: sql.StructType, target: pa.StructType) -> pa.Array:
        """Return structs with the type of the schema, with the field for corrupt records."""
        if structs.type == target and is_as_read(kind):
            return structs
        rows = np.arange(len(structs))
        read = {
            field.name: self.column(structs.field(index), field.dataType, rows)
            for index, field in enumerate(kind.fields)
        }
        columns = [
            read[field.name] if field.name in read else pa.nulls(len(structs), field.type)
            for field in target
        ]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=structs.is_null())

    def column(self, array: pa.Array, kind: sql.DataType, rows: Indices) -> pa.Array:
        """Return a column with the type of the schema; `rows` has the record of each value."""
        if is_as_read(kind):
            return array
        if isinstance(kind, sql.StructType):
            columns = [
                self.column(array.field(index), field.dataType, rows)
                for index, field in enumerate(kind.fields)
            ]
            fields = list(arrow_type(kind))
            return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())
        if isinstance(kind, sql.ArrayType):
            edges = array.offsets.to_numpy()
            inner = self.column(array.values, kind.elementType, np.repeat(rows, np.diff(edges)))
            return pa.ListArray.from_arrays(
                array.offsets, inner, arrow_type(kind), mask=array.is_null()
            )
        if isinstance(kind, sql.DecimalType):
            return self.decimal(array, rows, kind)
        return SPARK_CONVERSIONS[type(kind)](self, array, rows)

    def double(self, array: pa.Array, rows: Indices) -> pa.Array:
        """Note negative zeros: Jackson reads -0 as 0, and -0.0 as it is."""
        values = array.to_numpy(zero_copy_only=False)
        self.note((values == 0) & np.signbit(values), rows)
        return array

    def float(self, array: pa.Array, rows: Indices) -> pa.Array:
        """Round to floats. A double halfway between two floats is in doubt, as it may be rounded
        itself; so is one beyond the range of floats, or that only a denormal float is near to."""
        values = self.double(array, rows).fill_null(0).to_numpy()
        halfway = values.view(np.uint64) & BELOW_A_FLOAT == HALF_OF_A_FLOAT
        size, limits = np.abs(values), np.finfo(np.float32)
        extreme = (size > limits.max) | ((size < limits.tiny) & (size > 0))
        self.note(halfway | extreme, rows)
        return array.cast(pa.float32(), safe=False)

    def note(self, doubtful: RowMask, rows: Indices) -> None:
        """Note the rows of doubtful values."""
        if doubtful.any():
            self.doubtful[rows[doubtful]] = True

    def decimal(self, array: pa.Array, rows: Indices, kind: sql.DecimalType) -> pa.Array:
        """Convert numbers, or texts with numbers, that need no rounding."""
        whole = kind.precision - kind.scale
        integer = f"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
        fraction = rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        texts = self.only(pc.utf8_trim(array, '"'), f"^-?{integer}{fraction}$", rows)
        return texts.cast(arrow_type(kind))

    def timestamp(self, array: pa.Array, rows: Indices) -> pa.Array:
        kind = pa.timestamp("us", "UTC")
        zoned = pc.fill_null(pc.match_substring_regex(array, f"^{TIME}{OFFSET}$"), False)
        found = self.cast(pc.if_else(zoned, array, None), kind, rows)
        rest = pc.if_else(zoned, None, array)
        if rest.null_count == len(rest):
            return found
        local = self.cast(self.only(rest, f"^{TIME}$", rows), pa.timestamp("us"), rows)
        return pc.coalesce(found, self.in_zone(local, rows))

    def in_zone(self, local: pa.Array, rows: Indices) -> pa.Array:
        """Convert local times of the session's zone to UTC."""
        if local.null_count == len(local):
            return local.cast(pa.timestamp("us", "UTC"))
        zone: tzinfo = self.zone()
        if not isinstance(zone, ZoneInfo):
            offset = zone.utcoffset(None) or timedelta()
            return pc.subtract(local, pa.scalar(offset, pa.duration("us"))).cast(
                pa.timestamp("us", "UTC")
            )
        try:
            # For a time that the clocks skip, the two answers differ.
            earliest, latest = (
                pc.assume_timezone(local, zone.key, ambiguous="earliest", nonexistent=choice)
                for choice in ("earliest", "latest")
            )
        except pa.ArrowInvalid:  # Arrow uses only the system's table of zones.
            self.doubtful[rows[local.is_valid().to_numpy(zero_copy_only=False)]] = True
            return pa.nulls(len(local), pa.timestamp("us", "UTC"))
        differ = pc.fill_null(pc.not_equal(earliest, latest), False)
        self.doubtful[rows[differ.to_numpy(zero_copy_only=False)]] = True
        late = pc.fill_null(pc.greater_equal(local, AFTER_THE_TABLES), False)
        self.note(late.to_numpy(zero_copy_only=False), rows)
        return earliest.cast(pa.timestamp("us", "UTC"))

    def timestamp_ntz(self, array: pa.Array, rows: Indices) -> pa.Array:
        return self.cast(self.only(array, f"^{TIME}$", rows), pa.timestamp("us"), rows)

    def date(self, array: pa.Array, rows: Indices) -> pa.Array:
        return self.cast(self.only(array, f"^{DATE}$", rows), pa.date32(), rows)

    def only(self, array: pa.Array, pattern: str, rows: Indices) -> pa.Array:
        """Return the texts that match; the others are in doubt."""
        matched = pc.match_substring_regex(array, pattern)
        others = pc.fill_null(pc.invert(matched), False).to_numpy(zero_copy_only=False)
        if not others.any():
            return array
        self.doubtful[rows[others]] = True
        return pc.if_else(matched, array, None)

    def cast(self, array: pa.Array, kind: pa.DataType, rows: Indices) -> pa.Array:
        """Cast texts to times; invalid ones (February 30th) are in doubt."""
        try:
            return array.cast(kind)
        except pa.ArrowInvalid:
            if len(array) == 1:
                self.doubtful[rows] = True
                return pa.nulls(1, kind)
            middle = len(array) // 2
            return pa.concat_arrays(
                [
                    self.cast(array.slice(0, middle), kind, rows[:middle]),
                    self.cast(array.slice(middle), kind, rows[middle:]),
                ]
            )

    def binary(self, array: pa.Array, rows: Indices) -> pa.Array:
        decoded: list[bytes | None] = []
        for row, text in zip(rows.tolist(), array.to_pylist(), strict=True):
            try:
                # Python takes one mark of padding too much.
                if text is not None and len(text) % 4:
                    raise ValueError
                decoded.append(
                    None if text is None else binascii.a2b_base64(text, strict_mode=True)
                )
            except ValueError:
                decoded.append(None)
                self.doubtful[row] = True
        return pa.array(decoded, pa.binary())


SPARK_CONVERSIONS: dict[
    type[sql.DataType], Callable[[SparkConversion, pa.Array, Indices], pa.Array]
] = {
    sql.FloatType: SparkConversion.float,
    sql.DoubleType: SparkConversion.double,
    sql.TimestampType: SparkConversion.timestamp,
    sql.TimestampNTZType: SparkConversion.timestamp_ntz,
    sql.DateType: SparkConversion.date,
    sql.BinaryType: SparkConversion.binary,
}


def arrow_type(kind: sql.DataType) -> pa.DataType:
    """Return the Arrow form of a type, exactly as Spark compares it."""
    schema = to_arrow_schema(sql.StructType([sql.StructField("v", kind)]), timezone="UTC")
    return schema.field("v").type


def reading_type(kind: sql.DataType) -> pa.DataType | None:
    """Return the type of the arrays that `array_of` makes; None if it cannot make them."""
    if isinstance(kind, sql.StructType):
        fields = [(field.name, reading_type(field.dataType)) for field in kind.fields]
        return None if any(found is None for _, found in fields) else pa.struct(fields)
    if isinstance(kind, sql.ArrayType):
        element = reading_type(kind.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(kind, READ_AS_TEXT):
        return pa.string()
    if isinstance(kind, (sql.FloatType, sql.DoubleType)):
        return pa.float64()
    return arrow_type(kind) if isinstance(kind, AS_READ) else None


def is_as_read(kind: sql.DataType) -> bool:
    """True if what `array_of` makes is always Spark's result."""
    if isinstance(kind, sql.StructType):
        return all(is_as_read(field.dataType) for field in kind.fields)
    if isinstance(kind, sql.ArrayType):
        return is_as_read(kind.elementType)
    return isinstance(kind, AS_READ)


def matching(values: pa.Array, pattern: str) -> RowMask:
    """Return a mask of the values in which a regular expression is found."""
    found = pc.fill_null(pc.match_substring_regex(values, pattern), False)
    rows: RowMask = found.to_numpy(zero_copy_only=False)
    return rows


def names_of(kind: sql.DataType, kinds: tuple[type[sql.DataType], ...]) -> set[str]:
    """Return the names of the fields, at any depth, that have values of these types."""
    if not isinstance(kind, sql.StructType):
        return set()
    names: set[str] = set()
    for field in kind.fields:
        element = field.dataType
        while isinstance(element, sql.ArrayType):
            element = element.elementType
        names |= {field.name} if isinstance(element, kinds) else names_of(element, kinds)
    return names


def undecodable(values: pa.Array) -> RowMask:
    """Return a mask of the values that are not UTF-8."""
    rows: RowMask = np.zeros(len(values), bool)
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        for row, value in enumerate(values.to_pylist()):
            try:
                if value is not None:
                    value.decode()
            except UnicodeDecodeError:
                rows[row] = True
    return rows


def beyond_limits(values: pa.Array) -> RowMask:
    """Return a mask of the values that may have a number, a name or a depth beyond Jackson's
    limits, which msgspec has not."""
    rows: RowMask = np.zeros(len(values), bool)
    if not len(values):
        return rows
    _, offsets_buffer, data_buffer = values.buffers()
    if data_buffer is None:
        return rows
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset :][: len(values) + 1]
    long = np.flatnonzero(np.diff(offsets) > min(MAX_NUMBER_LENGTH, MAX_DEPTH))
    if len(long):
        data = np.frombuffer(data_buffer, np.uint8)
        for row in long.tolist():
            rows[row] = is_beyond_limits(data[offsets[row] : offsets[row + 1]])
    return rows


def is_beyond_limits(data: npt.NDArray[np.uint8]) -> bool:
    """True if a text may have a number, a name or a depth beyond Jackson's limits."""
    # A number that long contains two consecutive samples.
    samples = NUMBER_BYTES[data[:: MAX_NUMBER_LENGTH // 2]]
    if (samples[:-1] & samples[1:]).any():
        others = np.flatnonzero(~NUMBER_BYTES[data])
        if longest_gap(others, len(data)) > MAX_NUMBER_LENGTH:
            return True
    opening = np.isin(data, OPENING)
    if np.count_nonzero(opening) > MAX_DEPTH:
        # Brackets within strings open and close nothing; an escaped quote ends no string.
        escaped = (data == BACKSLASH).any()
        changes = opening.astype(np.int32) - np.isin(data, CLOSING)
        changes[np.cumsum(data == QUOTE) % 2 == 1] = 0
        if escaped or np.cumsum(changes).max() > MAX_DEPTH:
            return True
    if len(data) <= MAX_NAME_LENGTH:
        return False
    quotes = data == QUOTE
    quotes[1:] &= data[:-1] != BACKSLASH
    return longest_gap(np.flatnonzero(quotes), len(data)) > MAX_NAME_LENGTH


def longest_gap(places: Indices, end: int) -> int:
    """Return the length of the longest part without one of these places."""
    return int(np.diff(places, prepend=-1, append=end).max()) - 1


def decoder_of(kind: sql.StructType) -> msgspec.json.Decoder[Any] | None:
    """Return a decoder of records of the type; None if msgspec does not support a name in it."""
    try:
        return msgspec.json.Decoder(decoded_type(kind))
    except ValueError:
        return None


def decoded_type(kind: sql.DataType) -> Any:
    """Return the type that msgspec decodes. Raises `ValueError` for some names of fields."""
    if isinstance(kind, sql.StructType):
        names = [f"f{index}" for index in range(len(kind.fields))]
        fields = [
            (name, or_null(field.dataType), None)
            for name, field in zip(names, kind.fields, strict=True)
        ]
        rename = dict(zip(names, kind.names, strict=True))
        return msgspec.defstruct("Decoded", fields, rename=rename, gc=False)
    if isinstance(kind, sql.ArrayType):
        return list[or_null(kind.elementType)]  # type: ignore[misc]
    if type(kind) in WHOLE_BITS:
        limit = 2 ** (WHOLE_BITS[type(kind)] - 1)
        return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
    if isinstance(kind, (sql.FloatType, sql.DoubleType)):
        return float
    if isinstance(kind, sql.DecimalType):
        return msgspec.Raw
    return bool if isinstance(kind, sql.BooleanType) else str


def or_null(kind: sql.DataType) -> Any:
    """Return the type that msgspec decodes where null is allowed: a `Raw` has the text `null`."""
    found = decoded_type(kind)
    return found if found is msgspec.Raw else found | None


def builder_of(kind: sql.DataType) -> ColumnBuilder:
    """Return a builder for what msgspec decodes by the type."""
    if isinstance(kind, sql.StructType):
        return StructBuilder([builder_of(field.dataType) for field in kind.fields])
    if isinstance(kind, sql.ArrayType):
        return ListBuilder(builder_of(kind.elementType))
    if isinstance(kind, sql.DecimalType):
        return RawTextBuilder()
    if isinstance(kind, READ_AS_TEXT):
        return TextBuilder()
    if isinstance(kind, (sql.FloatType, sql.DoubleType)):
        return DoubleBuilder()
    if isinstance(kind, sql.BooleanType):
        return BooleanBuilder()
    return Int64Builder() if isinstance(kind, sql.LongType) else Int32Builder()


def array_of(builder: ColumnBuilder, kind: pa.DataType) -> pa.Array:
    """Return the values of a builder as an array of this type, a `reading_type`."""
    if isinstance(builder, TextBuilder):
        return pa.array(builder.texts, kind)
    buffers, children = [validity(builder)], []
    if isinstance(builder, StructBuilder):
        children = [
            array_of(field, kind.field(index).type) for index, field in enumerate(builder.fields)
        ]
    elif isinstance(builder, ListBuilder):
        buffers.append(pa.py_buffer(builder.offsets.getvalue()))
        children = [array_of(builder.elements, kind.value_type)]
    elif isinstance(builder, BooleanBuilder):
        truths = np.frombuffer(builder.truths.getvalue(), np.uint8)
        buffers.append(pa.py_buffer(np.packbits(truths, bitorder="little")))
    else:
        assert isinstance(builder, NumberBuilder)
        data: Any = builder.numbers.getvalue()
        if isinstance(builder, Int32Builder) and kind.bit_width < 32:
            data = np.frombuffer(data, np.int32).astype(kind.to_pandas_dtype())
        buffers.append(pa.py_buffer(data))
    return pa.Array.from_buffers(
        kind, builder.count, buffers, len(builder.nulls), children=children
    )


def validity(builder: ColumnBuilder) -> pa.Buffer | None:
    """Return the bits that tell values from nulls; None without nulls."""
    if not builder.nulls:
        return None
    valid = np.ones(builder.count, np.uint8)
    valid[builder.nulls] = 0
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


WHOLE_BITS: dict[type[sql.DataType], int] = {
    sql.ByteType: 8,
    sql.ShortType: 16,
    sql.IntegerType: 32,
    sql.LongType: 64,
}
