"""Converts one record as Spark's `JacksonParser` does with the default settings of `from_json`.

A field that cannot be converted is null; the other fields keep their values. A malformed text keeps
the fields before the error.

A converter takes the `Tokens` at the value, or at its name, and leaves them at the end of the
value. A converter that fails leaves them at the error. Spark goes on from there: an object skips
what was opened and continues with the next token; an array or a map is given up.

Values are in Arrow's form: microseconds and days for times, lists of pairs for maps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from pyspark.sql import types as sql

from odradek.spark.json import times
from odradek.spark.json.times import Zone
from odradek.spark.json.tokens import (
    BEYOND_BMP,
    FIELD_NAME,
    ConversionError,
    PartialResult,
    Token,
    Tokens,
    java_string,
    java_text,
    surrogates,
)

Converter = Callable[[Tokens], Any]
Row = dict[str, Any]

SHOWN_CHARACTERS = 60
LARGEST_FLOAT = 2.0**128 - 2.0**104
INFINITE_FLOAT = 2.0**128 - 2.0**103
"""From here on a number is an infinite float."""
WHOLE: dict[type[sql.DataType], tuple[int, int]] = {
    sql.ByteType: (-(2**7), 2**8 - 1),  # As in Jackson: 128 to 255 are the negative ones.
    sql.ShortType: (-(2**15), 2**15 - 1),
    sql.IntegerType: (-(2**31), 2**31 - 1),
    sql.LongType: (-(2**63), 2**63 - 1),
}
WORDS = {
    **dict.fromkeys(("NaN",), float("nan")),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}
NUMBER_TEXT = re.compile(
    r"(?P<mantissa>[+-]?(?:\d+\.?\d*|\.\d+))(?:[eE](?P<sign>[+-]?)(?P<exponent>\d+))?"
)
ESCAPED = re.compile('["\\\\\\x00-\\x1f\ud800-\udfff]')
SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


class RecordParser:
    """Converts records to rows of a schema, of types that `schema` allows."""

    def __init__(self, schema: sql.StructType, zone: Zone, corrupt_record: str | None) -> None:
        """`corrupt_record` is the field that gets the text of records that cannot be converted,
        if there is one."""
        self.corrupt_record = corrupt_record
        self.zone = zone
        read = [field for field in schema.fields if field.name != corrupt_record]
        self.names = schema.names
        self.convert = self.object_converter(sql.StructType(read))

    def parse(self, data: bytes) -> tuple[Row | None, str | None]:
        """Return the row of a record, and the error of the fields that could not be converted or
        of bytes that are not UTF-8."""
        text = java_text(data)
        misencoded = encoding_error(data)
        tokens = Tokens(text)
        try:
            first = tokens.next()
            if first is None:
                return None, "the value is empty"
            if first is not Token.START_OBJECT:
                raise ConversionError(f"there is {first.value} where an object should be")
            return self.complete(self.convert(tokens)), misencoded
        except ConversionError as refused:
            # Only errors of `convert` are partial.
            row = self.complete(refused.value if isinstance(refused, PartialResult) else {})
            if self.corrupt_record is not None:
                row[self.corrupt_record] = java_string(text)
            reason = java_string(str(refused))
            return row, reason if misencoded is None else f"{reason}; {misencoded}"

    def complete(self, row: Row) -> Row:
        return {name: row.get(name) for name in self.names}

    def converter(self, kind: sql.DataType) -> Converter:
        """Return the converter to a type."""
        if isinstance(kind, sql.StructType):
            return container(kind, Token.START_OBJECT, self.object_converter(kind))
        if isinstance(kind, sql.ArrayType):
            convert = array_converter(self.converter(kind.elementType))
            return container(kind, Token.START_ARRAY, convert)
        if isinstance(kind, sql.MapType):
            convert = map_converter(self.converter(kind.valueType))
            return container(kind, Token.START_OBJECT, convert)
        return scalar(kind, self.conversion(kind))

    def object_converter(self, kind: sql.StructType) -> Callable[[Tokens], Row]:
        """Return the converter of an opened object's fields."""
        empty = dict.fromkeys(kind.names)
        fields: dict[str | None, tuple[str, Converter]] = {
            java_name(field.name): (field.name, self.converter(field.dataType))
            for field in kind.fields
        }

        def convert(tokens: Tokens) -> Row:
            row: Row = empty.copy()
            cause: ConversionError | None = None
            while (token := tokens.next()) is not None and token is not Token.END_OBJECT:
                field = fields.get(tokens.name)
                if field is None:
                    tokens.skip_children()
                    continue
                name, convert_field = field
                try:
                    row[name] = convert_field(tokens)
                except ConversionError as refused:
                    refused.path.append(f".{name}")
                    cause = cause or refused
                    if isinstance(refused, PartialResult):
                        row[name] = refused.value
                    else:
                        tokens.skip_children()
            if cause is not None:
                raise PartialResult(row, cause)
            return row

        return convert

    def conversion(self, kind: sql.DataType) -> Callable[[Tokens, Token], Any]:
        """Return the conversion of tokens to values; it gives `NotImplemented` for other kinds."""
        if isinstance(kind, sql.DecimalType):
            return decimal_conversion(kind)
        if isinstance(kind, sql.TimestampType):
            return self.to_timestamp
        if type(kind) in WHOLE:
            return whole_number_conversion(kind)
        return CONVERSIONS[type(kind)]

    def to_timestamp(self, tokens: Tokens, token: Token) -> Any:
        if token is Token.STRING and tokens.text_of_string():
            return parse_time(tokens, lambda text: times.timestamp(text, self.zone))
        if token is Token.INT:
            seconds = whole_number(tokens, sql.LongType())
            return (seconds * 1_000_000 + 2**63) % 2**64 - 2**63
        return NotImplemented


def encoding_error(data: bytes) -> str | None:
    """Say which byte is not UTF-8; None if all are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} is 0x{data[error.start]:02x}, not UTF-8: read as U+FFFD"
    return None


def container(kind: sql.DataType, mark: Token, convert: Converter) -> Converter:
    """Return a converter of the contents of an object or array."""

    def check(tokens: Tokens, token: Token) -> Any:
        return convert(tokens) if token is mark else NotImplemented

    return scalar(kind, check)


def scalar(kind: sql.DataType, conversion: Callable[[Tokens, Token], Any]) -> Converter:
    """Return a converter that skips the name and accepts null."""

    def convert(tokens: Tokens) -> Any:
        token = tokens.token
        while token is FIELD_NAME:
            token = tokens.next()
        if token is None or token is Token.NULL:
            return None
        value = conversion(tokens, token)
        if value is NotImplemented:
            mismatch(tokens, token, kind)
        return value

    return convert


def mismatch(tokens: Tokens, token: Token, kind: sql.DataType) -> NoReturn:
    text = ""
    if token is Token.STRING:
        found = tokens.text_of_string()
        text = f" ({found[:SHOWN_CHARACTERS]!r})" if found else ", an empty one,"
    elif token is Token.INT or token is Token.FLOAT:
        text = f" ({tokens.number[:SHOWN_CHARACTERS]})"
    raise ConversionError(f"there is {token.value}{text} where {kind.simpleString()} should be")


def array_converter(convert: Converter) -> Converter:
    def read(tokens: Tokens) -> list[Any]:
        values: list[Any] = []
        cause: ConversionError | None = None
        while (token := tokens.next()) is not None and token is not Token.END_ARRAY:
            try:
                values.append(convert(tokens))
            except ConversionError as refused:
                refused.path.append(f"[{len(values)}]")
                if not isinstance(refused, PartialResult):
                    raise
                cause = cause or refused
                values.append(refused.value)
        if cause is not None:
            raise PartialResult(values, cause)
        return values

    return read


def map_converter(convert: Converter) -> Converter:
    def read(tokens: Tokens) -> list[tuple[str, Any]]:
        entries: list[tuple[str, Any]] = []
        partial: ConversionError | None = None
        bad: ConversionError | None = None
        while (token := tokens.next()) is not None and token is not Token.END_OBJECT:
            key = tokens.name
            try:
                value = convert(tokens)
            except ConversionError as refused:
                refused.path.append(f"[{key!r}]")
                if isinstance(refused, PartialResult):
                    partial = partial or refused
                    value = refused.value
                else:
                    bad = bad or refused
                    tokens.skip_children()
                    continue
            if key is None:
                bad = bad or ConversionError("there is a value without a key")
            else:
                entries.append((java_string(key), value))
        if bad is not None:
            raise bad
        if partial is not None:
            raise PartialResult(entries, partial)
        return entries

    return read


def to_boolean(tokens: Tokens, token: Token) -> Any:
    if token is Token.TRUE:
        return True
    return False if token is Token.FALSE else NotImplemented


def whole_number_conversion(kind: sql.DataType) -> Callable[[Tokens, Token], Any]:
    def convert(tokens: Tokens, token: Token) -> Any:
        return whole_number(tokens, kind) if token is Token.INT else NotImplemented

    return convert


def whole_number(tokens: Tokens, kind: sql.DataType) -> int:
    """Return the whole number of a token. Raises `ConversionError` if it is out of range."""
    least, most = WHOLE[type(kind)]
    value = int(tokens.number)
    if not least <= value <= most:
        shown = tokens.number[:SHOWN_CHARACTERS]
        raise ConversionError(f"{shown} is out of the range of {kind.simpleString()}")
    return value - 2**8 if isinstance(kind, sql.ByteType) and value >= 2**7 else value


def floating_conversion(parse: Callable[[str], float]) -> Callable[[Tokens, Token], Any]:
    """Convert numbers, and NaN and infinity with or without quotes; no other strings."""

    def convert(tokens: Tokens, token: Token) -> Any:
        if token is Token.STRING:
            return WORDS.get(tokens.text_of_string(), NotImplemented)
        if token is Token.INT:
            return parse(tokens.number) + 0.0  # There is no negative whole zero.
        if token is Token.FLOAT:
            number = tokens.number
            return WORDS[number] if number in WORDS else parse(number)
        return NotImplemented

    return convert


def to_float32(text: str) -> float:
    """Return the nearest single-precision number. Rounding through a double could give another
    one, if the double lies just between two."""
    double = float(text)
    if abs(double) == INFINITE_FLOAT and abs(Fraction(text)) < INFINITE_FLOAT:
        return math.copysign(LARGEST_FLOAT, double)
    with np.errstate(over="ignore"):
        single = np.float32(double)
    if not np.isfinite(single) or double == float(single):
        return float(single)
    with np.errstate(over="ignore"):
        other = np.nextafter(single, np.float32(np.inf if double > float(single) else -np.inf))
    if not np.isfinite(other):
        return float(single)
    if (Fraction(float(single)) + Fraction(float(other))) / 2 != Fraction(double):
        return float(single)
    exact = Fraction(text)
    if exact == Fraction(double):
        return float(single)
    return float(max(single, other) if exact > Fraction(double) else min(single, other))


def decimal_conversion(kind: sql.DecimalType) -> Callable[[Tokens, Token], Any]:
    context = Context(kind.precision, ROUND_HALF_UP, MIN_EMIN, MAX_EMAX)
    unit = Decimal(1).scaleb(-kind.scale)

    def convert(tokens: Tokens, token: Token) -> Any:
        if token is Token.STRING and tokens.text_of_string():
            text = tokens.string.replace(",", "")
        elif token is Token.INT or token is Token.FLOAT:
            text = tokens.number
        else:
            return NotImplemented
        found = NUMBER_TEXT.fullmatch(text)
        exponent = "" if found is None else (found["exponent"] or "").lstrip("0")
        if found is None or len(exponent) > 10 or int(exponent or 0) >= 2**31:
            raise ConversionError(f"{text[:SHOWN_CHARACTERS]!r} is no decimal number")
        number = f"{found['mantissa']}e{found['sign'] or ''}{exponent or 0}"
        try:
            return Decimal(number).quantize(unit, context=context)
        except InvalidOperation:
            shown = text[:SHOWN_CHARACTERS]
            raise ConversionError(f"{shown} is out of the range of {kind.simpleString()}") from None

    return convert


def to_text(tokens: Tokens, token: Token) -> str:
    """Return a string, or the JSON text of any other value."""
    return java_string(tokens.text_of_string() if token is Token.STRING else json_text(tokens))


def to_bytes(tokens: Tokens, token: Token) -> Any:
    return tokens.bytes_of_string() if token is Token.STRING else NotImplemented


def to_date(tokens: Tokens, token: Token) -> Any:
    if token is Token.STRING and tokens.text_of_string():
        return parse_time(tokens, times.parse_date)
    return NotImplemented


def to_timestamp_ntz(tokens: Tokens, token: Token) -> Any:
    if token is Token.STRING and tokens.text_of_string():
        return parse_time(tokens, times.timestamp_ntz)
    return NotImplemented


def parse_time(tokens: Tokens, parse: Callable[[str], int]) -> int:
    text = java_string(tokens.string)
    try:
        return parse(text)
    except times.InvalidTime as error:
        raise ConversionError(f"{text[:SHOWN_CHARACTERS]!r} is no such time: {error}") from None


CONVERSIONS: dict[type[sql.DataType], Callable[[Tokens, Token], Any]] = {
    sql.BooleanType: to_boolean,
    sql.FloatType: floating_conversion(to_float32),
    sql.DoubleType: floating_conversion(float),
    sql.StringType: to_text,
    sql.BinaryType: to_bytes,
    sql.DateType: to_date,
    sql.TimestampNTZType: to_timestamp_ntz,
}


def json_text(tokens: Tokens) -> str:
    """Return the JSON text of the current value as Jackson writes it: without white space, and
    with numbers as Java prints them."""
    parts: list[str] = []
    closing: list[str] = []
    after_name = first = True
    token = tokens.token
    while token is not None:
        if token is Token.END_OBJECT or token is Token.END_ARRAY:
            if not closing:
                raise ConversionError(f"there is {token.value} where a value should be")
            parts.append(closing.pop())
            first = False
        else:
            if not first and not after_name:
                parts.append(",")
            parts.append(token_text(tokens, token))
            after_name = token is FIELD_NAME
            first = token is Token.START_OBJECT or token is Token.START_ARRAY
            if first:
                closing.append("}" if token is Token.START_OBJECT else "]")
        if not closing:
            break
        token = tokens.next()
    return "".join((*parts, *reversed(closing)))


def token_text(tokens: Tokens, token: Token) -> str:
    """Return a token as Jackson writes it."""
    if token is FIELD_NAME:
        return f"{quoted(tokens.name or '')}:"
    if token is Token.STRING:
        return quoted(tokens.text_of_string())
    if token is Token.INT:
        return str(int(tokens.number))
    if token is Token.FLOAT:
        number = tokens.number
        return java_double(WORDS[number] if number in WORDS else float(number))
    if token is Token.START_OBJECT:
        return "{"
    return "[" if token is Token.START_ARRAY else token.value


def quoted(text: str) -> str:
    return f'"{ESCAPED.sub(escape, text)}"'


def escape(found: re.Match[str]) -> str:
    return SHORT_ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}"


def java_double(number: float) -> str:
    """Return a number as Java 19 and later print it; earlier versions sometimes add a digit."""
    if number != number or number in (float("inf"), float("-inf")):
        return '"NaN"' if number != number else '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = format(Decimal(repr(number)), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = exponent + len(digits) - 1
    return f"{'-' * sign}{shown[0]}.{shown[1:] or '0'}E{power}"


def java_name(name: str) -> str:
    """Return a name in UTF-16 units."""
    return BEYOND_BMP.sub(lambda found: surrogates(found[0]), name)
