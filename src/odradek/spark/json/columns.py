"""Decodes a batch of JSON values to columns: a struct for each value, and its error.

    values ─► {"v":…}\\n for each, one text ─► Arrow's JSON reader ─► structs
                                     └─ refused, or in doubt ─► `records`, one by one

The text is the buffer of one string column, so there is no object per record. Each line has at
least one row, or an error: with as many rows as lines, each line has one. Arrow is stricter than
Spark's parser nearly everywhere, and refuses the whole text; where it is not (`doubtful_texts`), or
where its result may differ from Spark's (`SparkConversion`), the record is in doubt and goes to
`records` too.

msgspec finds the records that make Arrow refuse a text, checking each in a fraction of the time; if
it finds none, the text is halved.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from datetime import timedelta, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json
from pyspark.sql import types as sql
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.spark.json.records import RecordParser
from odradek.spark.json.schema import CORRUPT_RECORD, nullable
from odradek.spark.json.times import Zone
from odradek.spark.json.tokens import MAX_DEPTH, MAX_NAME_LENGTH, MAX_NUMBER_LENGTH

RowMask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]

FEW_ROWS = 4
"""Up to this many rows are decoded one by one rather than halved again."""

ROUNDING = 1e-9
"""A relative bound of the rounding error of doubles."""

NUMBER_BYTES = np.isin(np.arange(256), list(b"0123456789+-.eE"))
QUOTE = ord('"')
WORDS_ONLY_ARROW_TAKES = (b"Inf", b"-NaN")
THOSE_WORDS = r"(?:[:,\[]\s*-?Inf|-NaN)"

DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = rf"{DATE}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?"
OFFSET = "(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"

ARROW_READS = (
    *(sql.BooleanType, sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType),
    *(sql.FloatType, sql.DoubleType, sql.DecimalType, sql.StringType),
)
READ_AS_TEXT = (sql.TimestampType, sql.TimestampNTZType, sql.DateType, sql.BinaryType)
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
        self.screen = screening(self.kind) if self.read_type is not None else None
        self.screens_first = False
        """True if the last batch had records that make Arrow refuse it."""

    def decode(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return structs of the schema, null for null and empty values; and errors, null for
        values that were decoded completely."""
        absent = values.is_null().to_numpy(zero_copy_only=False)
        if self.read_type is None:
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
        """Return the structs of the values that Arrow reads as Spark does, and a mask of the
        others."""
        alone = undecodable(values) | doubtful_texts(values)
        kept = without(values, alone)
        if self.screens_first:
            alone |= self.screened(kept)
            kept = without(values, alone)
        structs = self.read(kept)
        refuses = structs is None
        if structs is None and not self.screens_first:
            alone |= self.screened(kept)
            kept = without(values, alone)
            structs = self.read(kept)
        if structs is None:
            alone[self.refused(kept, 0, len(kept))] = True
            structs = self.read(without(values, alone))
            assert structs is not None
        self.screens_first = refuses or (self.screens_first and bool(alone.any()))
        # The text `null` differs from a missing value.
        alone |= structs.is_null().to_numpy(zero_copy_only=False)
        conversion = SparkConversion(self.zone, len(values))
        structs = conversion.root(structs, self.kind, self.type)
        return structs, (alone | conversion.doubtful) & ~absent

    def read(self, values: pa.Array) -> pa.Array | None:
        """Return a struct for each value, null for null; None if Arrow refuses one of them."""
        text = lines(values)
        try:
            found = arrow_json.read_json(
                pa.BufferReader(text),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=pa.schema({"v": self.read_type}),
                    unexpected_field_behavior="ignore",
                ),
            )
        except pa.ArrowInvalid:
            return None
        return found.column("v").combine_chunks() if len(found) == len(values) else None

    def screened(self, values: pa.Array) -> RowMask:
        """Return a mask of the values that msgspec finds not to match the schema."""
        if self.screen is None:
            return np.zeros(len(values), bool)
        decode, wrong = self.screen, []
        for value in values.to_pylist():
            try:
                if value is not None:
                    decode(value)
                wrong.append(False)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                wrong.append(True)
        return np.array(wrong, bool)

    def refused(self, values: pa.Array, start: int, end: int) -> list[int]:
        """Return the rows from `start` to `end` that Arrow refuses, with some neighbours."""
        if end - start <= FEW_ROWS:
            return list(range(start, end))
        middle = (start + end) // 2
        found: list[int] = []
        for first, last in ((start, middle), (middle, end)):
            if self.read(values.slice(first, last - first)) is None:
                found += self.refused(values, first, last)
        return found


class SparkConversion:
    """Converts what Arrow has read to Spark's results, and notes the rows where it cannot."""

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
        return SPARK_CONVERSIONS[type(kind)](self, array, rows)

    def number(self, array: pa.Array, rows: Indices) -> pa.Array:
        """Note negative zeros: Jackson reads -0 as 0, and -0.0 as it is."""
        values = array.to_numpy(zero_copy_only=False)
        negative = (values == 0) & np.signbit(values)
        if negative.any():
            self.doubtful[rows[negative]] = True
        return array

    def decimal(self, array: pa.Array, rows: Indices) -> pa.Array:
        """Note numbers with more integer digits than the type: Arrow accepts them."""
        if array.null_count == len(array):
            return array
        halves = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
        halves = halves[array.offset : array.offset + len(array)]
        size = np.abs(halves[:, 1] * 2.0**64 + halves[:, 0].view(np.uint64))
        large = size >= 10.0**array.type.precision * (1 - ROUNDING)
        if large.any():
            self.doubtful[rows[large]] = True
        return array

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
    sql.FloatType: SparkConversion.number,
    sql.DoubleType: SparkConversion.number,
    sql.DecimalType: SparkConversion.decimal,
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
    """Return the type to request from Arrow's JSON reader; None if it cannot read the type."""
    if isinstance(kind, sql.StructType):
        fields = [(field.name, reading_type(field.dataType)) for field in kind.fields]
        return None if any(found is None for _, found in fields) else pa.struct(fields)
    if isinstance(kind, sql.ArrayType):
        element = reading_type(kind.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(kind, READ_AS_TEXT):
        return pa.string()
    return arrow_type(kind) if isinstance(kind, ARROW_READS) else None


def is_as_read(kind: sql.DataType) -> bool:
    """True if the result of Arrow's reader is always the same as Spark's."""
    if isinstance(kind, sql.StructType):
        return all(is_as_read(field.dataType) for field in kind.fields)
    if isinstance(kind, sql.ArrayType):
        return is_as_read(kind.elementType)
    return isinstance(kind, AS_READ)


def lines(values: pa.Array) -> pa.Buffer:
    """Return a text with each value in an object of its own, on a line of its own."""
    joined = pc.binary_join_element_wise(b'{"v":', pc.fill_null(values, b"null"), b"}\n", b"")
    _, offsets, text = joined.buffers()
    end = np.frombuffer(offsets, np.int32, len(joined) + 1)[-1]
    return text.slice(0, int(end))


def without(values: pa.Array, rows: RowMask) -> pa.Array:
    """Return the values with null in these rows."""
    return pc.if_else(pa.array(rows), None, values) if rows.any() else values


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


def doubtful_texts(values: pa.Array) -> RowMask:
    """Return a mask of the values that Arrow may read and Jackson does not: other words for
    infinity, and values beyond Jackson's limits. A byte 0 may end the text for Arrow."""
    rows: RowMask = np.zeros(len(values), bool)
    if not len(values):
        return rows
    _, offsets_buffer, data_buffer = values.buffers()
    if data_buffer is None:
        return rows
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset :][: len(values) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    if any(contains(data, word) for word in WORDS_ONLY_ARROW_TAKES):
        rows |= matching(values, THOSE_WORDS)
    if (data == 0).any():
        rows |= matching(values, r"\x00")
    lengths = np.diff(offsets)
    if lengths.max() > min(MAX_NUMBER_LENGTH, MAX_DEPTH):
        edges = offsets - offsets[0]
        for row in np.flatnonzero(lengths > min(MAX_NUMBER_LENGTH, MAX_DEPTH)).tolist():
            rows[row] |= beyond_limits(data[edges[row] : edges[row + 1]])
    return rows


def contains(data: npt.NDArray[np.uint8], word: bytes) -> bool:
    """True if the bytes contain a word. Its first two bytes are compared first, all at once: this
    takes a tenth of the time of a search, and they are rare.
    """
    first, second = word[:2]
    if not ((data[:-1] == first) & (data[1:] == second)).any():
        return False
    return word in data.tobytes()


def matching(values: pa.Array, pattern: str) -> RowMask:
    """Return a mask of the values in which a regular expression is found."""
    found = pc.fill_null(pc.match_substring_regex(values, pattern), False)
    rows: RowMask = found.to_numpy(zero_copy_only=False)
    return rows


def beyond_limits(data: npt.NDArray[np.uint8]) -> bool:
    """True if a text may have a number, a name or a depth beyond Jackson's limits."""
    # A number that long contains two consecutive samples.
    samples = NUMBER_BYTES[data[:: MAX_NUMBER_LENGTH // 2]]
    if (samples[:-1] & samples[1:]).any():
        return True
    if np.count_nonzero(data == ord("[")) + np.count_nonzero(data == ord("{")) > MAX_DEPTH:
        return True
    if len(data) <= MAX_NAME_LENGTH:
        return False
    return bool(np.diff(np.flatnonzero(data == QUOTE), append=len(data)).max() > MAX_NAME_LENGTH)


def screening(kind: sql.StructType) -> Callable[[bytes], Any] | None:
    """Return a decoder that fails for records that do not match the type; None if impossible."""
    try:
        return msgspec.json.Decoder(screened_type(kind)).decode
    except ValueError:  # msgspec does not support some names.
        return None


def screened_type(kind: sql.DataType) -> Any:
    if isinstance(kind, sql.StructType):
        names = [f"f{index}" for index in range(len(kind.fields))]
        fields = [
            (name, screened_type(field.dataType) | None, None)
            for name, field in zip(names, kind.fields, strict=True)
        ]
        rename = dict(zip(names, kind.names, strict=True))
        return msgspec.defstruct("Screened", fields, rename=rename)
    if isinstance(kind, sql.ArrayType):
        return list[screened_type(kind.elementType) | None]  # type: ignore[misc]
    if type(kind) in WHOLE_BITS:
        limit = 2 ** (WHOLE_BITS[type(kind)] - 1)
        return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
    if isinstance(kind, (sql.FloatType, sql.DoubleType)):
        return float
    if isinstance(kind, sql.DecimalType):
        return float | str
    return bool if isinstance(kind, sql.BooleanType) else str


WHOLE_BITS: dict[type[sql.DataType], int] = {
    sql.ByteType: 8,
    sql.ShortType: 16,
    sql.IntegerType: 32,
    sql.LongType: 64,
}
