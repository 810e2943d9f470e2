"""The schema of JSON values, from the DDL string of `valueSchema`.

    a int, b struct<c: string>, d array<double>, `e f` decimal(10, 2) not null comment 'amount'

Options are parsed in processes without a JVM, and PySpark's own `fromDDL` needs one. This parser
accepts the same strings (a test compares the two), for the types that can be decoded. It also
accepts the JSON form of a schema (`StructType.json()`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from pyspark.sql import types as sql

CORRUPT_RECORD = "_corrupt_record"
"""The field that gets the text of records that cannot be converted, if it is in the schema; Spark's
default of `spark.sql.columnNameOfCorruptRecord`."""

PLAIN_TYPES: dict[str, Callable[[], sql.DataType]] = {
    "boolean": sql.BooleanType,
    **dict.fromkeys(("tinyint", "byte"), sql.ByteType),
    **dict.fromkeys(("smallint", "short"), sql.ShortType),
    **dict.fromkeys(("int", "integer"), sql.IntegerType),
    **dict.fromkeys(("bigint", "long"), sql.LongType),
    **dict.fromkeys(("float", "real"), sql.FloatType),
    "double": sql.DoubleType,
    "string": sql.StringType,
    "binary": sql.BinaryType,
    "date": sql.DateType,
    **dict.fromkeys(("timestamp", "timestamp_ltz"), sql.TimestampType),
    "timestamp_ntz": sql.TimestampNTZType,
}
DECODED = (*(kind() for kind in PLAIN_TYPES.values()), sql.DecimalType())
DECODED_TYPES = frozenset(type(kind) for kind in DECODED)
DECIMAL_NAMES = ("decimal", "dec", "numeric")
MAX_PRECISION = 38
DEFAULT_DECIMAL = (10, 0)

TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*")
    |(?P<word>\w+)
    |(?P<mark>[<>(),:])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
NUMBER_WORD = re.compile(r"\d+(?:[lLsSyYdDfF]|[bB][dD]|[eE]\d+(?:[dDfF]|[bB][dD])?)?")
ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
KEPT_ESCAPES = ("%", "_")


class SchemaError(ValueError):
    """A schema that cannot be parsed, or has a type that cannot be decoded."""


def parse_schema(text: str) -> sql.StructType:
    """Parse a DDL string, or a schema's JSON. Raises `SchemaError`."""
    if text.lstrip().startswith("{"):
        return checked(from_json(text))
    found = DdlParser(text)
    if found.word_at(0) == "struct" and found.mark_at(1) == "<":
        kind = found.data_type()
        assert isinstance(kind, sql.StructType)
    else:
        kind = found.fields("")
    found.end()
    return checked(kind)


def from_json(text: str) -> sql.StructType:
    try:
        return sql.StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SchemaError(f"it is no JSON of a StructType: {error!r}") from None


def checked(schema: sql.StructType) -> sql.StructType:
    """Return the schema if all its types can be decoded. Raises `SchemaError`."""
    check(schema, "")
    for field in schema.fields:
        if field.name == CORRUPT_RECORD and not isinstance(field.dataType, sql.StringType):
            raise SchemaError(f"the field {CORRUPT_RECORD} has to be a string")
    return schema


def check(kind: sql.DataType, path: str) -> None:
    """Raise `SchemaError` if a type cannot be decoded."""
    where = path or "the schema"
    if isinstance(kind, sql.StructType):
        if not kind.fields:
            raise SchemaError(f"{where} has no fields")
        if len(set(kind.names)) < len(kind.names):
            raise SchemaError(f"{where} has two fields of the same name")
        for field in kind.fields:
            check(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(kind, sql.ArrayType):
        check(kind.elementType, f"{where}[]")
    elif isinstance(kind, sql.MapType):
        if kind.keyType != sql.StringType():
            raise SchemaError(f"{where} is a map with keys that are no strings")
        check(kind.valueType, f"{where}{{}}")
    elif type(kind) not in DECODED_TYPES or kind == sql.StringType("UTF8_LCASE"):
        raise SchemaError(f"{where} is of type {kind.simpleString()}, which cannot be decoded")
    elif isinstance(kind, sql.DecimalType):
        if not (0 < kind.precision <= MAX_PRECISION and 0 <= kind.scale <= kind.precision):
            raise SchemaError(f"{where} is {kind.simpleString()}, which has no such digits")
    elif isinstance(kind, sql.StringType) and kind != sql.StringType():
        raise SchemaError(f"{where} has a collation, with which it cannot be decoded")


def nullable(kind: sql.DataType) -> sql.DataType:
    """Return the type with null allowed everywhere: `from_json` ignores `NOT NULL`."""
    if isinstance(kind, sql.StructType):
        return sql.StructType(
            [sql.StructField(f.name, nullable(f.dataType), True, f.metadata) for f in kind.fields]
        )
    if isinstance(kind, sql.ArrayType):
        return sql.ArrayType(nullable(kind.elementType), True)
    if isinstance(kind, sql.MapType):
        return sql.MapType(kind.keyType, nullable(kind.valueType), True)
    return kind


class DdlToken(NamedTuple):
    """A token of a DDL string, and its position."""

    kind: str
    text: str
    at: int


class DdlParser:
    """Parses a DDL string from left to right. Raises `SchemaError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ddl_tokens = list(ddl_tokens(text))
        self.next = 0

    def fields(self, closing: str) -> sql.StructType:
        """Parse fields up to a closing mark, or to the end."""
        found: list[sql.StructField] = []
        while not self.ends(closing):
            if found:
                self.take(",")
            found.append(self.field())
        return sql.StructType(found)

    def ends(self, closing: str) -> bool:
        if closing:
            return self.mark_at(0) == closing
        return self.next == len(self.ddl_tokens)

    def field(self) -> sql.StructField:
        name = self.name()
        if self.mark_at(0) == ":":
            self.next += 1
        kind = self.data_type()
        can_be_null = True
        if self.word_at(0) == "not":
            self.next += 1
            self.keyword("null")
            can_be_null = False
        metadata = {}
        if self.word_at(0) == "comment":
            self.next += 1
            metadata["comment"] = self.comment()
        return sql.StructField(name, kind, can_be_null, metadata)

    def name(self) -> str:
        piece = self.piece(0)
        if piece is None or piece.kind not in ("word", "quoted"):
            self.fail("a name should be")
        if piece.kind == "word" and NUMBER_WORD.fullmatch(piece.text):
            self.fail("a name should be")
        self.next += 1
        if piece.kind == "quoted":
            return piece.text[1:-1].replace("``", "`")
        return piece.text

    def comment(self) -> str:
        texts: list[str] = []
        while (piece := self.piece(0)) is not None and piece.kind == "text":
            self.next += 1
            texts.append(unescaped(piece.text))
        if not texts:
            self.fail("a text in quotes should be")
        return "".join(texts)

    def data_type(self) -> sql.DataType:
        word = self.word_at(0)
        if word is None:
            self.fail("a type should be")
        at = self.next
        self.next += 1
        if word in ("array", "map", "struct"):
            self.take("<")
            if word == "struct":
                kind: sql.DataType = self.fields(">")
            elif word == "array":
                kind = sql.ArrayType(self.data_type())
            else:
                key = self.data_type()
                self.take(",")
                kind = sql.MapType(key, self.data_type())
            self.take(">")
            return kind
        if word in DECIMAL_NAMES:
            return self.decimal()
        if word == "timestamp" and self.word_at(0) in ("with", "without"):
            return self.zoned_timestamp()
        if word not in PLAIN_TYPES or self.mark_at(0) == "(" or self.word_at(0) == "collate":
            self.next = at
            self.fail(f"one of the types {type_names()} should be")
        return PLAIN_TYPES[word]()

    def decimal(self) -> sql.DecimalType:
        if self.mark_at(0) != "(":
            return sql.DecimalType(*DEFAULT_DECIMAL)
        self.next += 1
        precision, scale = self.number(), 0
        if self.mark_at(0) == ",":
            self.next += 1
            scale = self.number()
        self.take(")")
        if precision > MAX_PRECISION or scale > precision:
            raise SchemaError(
                f"decimal({precision},{scale}) has more than {MAX_PRECISION} digits, or more of "
                "them after the point than at all"
            )
        return sql.DecimalType(precision, scale)

    def zoned_timestamp(self) -> sql.DataType:
        """Parse `timestamp without time zone` or `timestamp with local time zone`."""
        without = self.word_at(0) == "without"
        self.next += 1
        for word in ("time", "zone") if without else ("local", "time", "zone"):
            self.keyword(word)
        return sql.TimestampNTZType() if without else sql.TimestampType()

    def number(self) -> int:
        piece = self.piece(0)
        if piece is None or not piece.text.isdecimal():
            self.fail("a number should be")
        self.next += 1
        return int(piece.text)

    def keyword(self, word: str) -> None:
        if self.word_at(0) != word:
            self.fail(f"{word.upper()} should be")
        self.next += 1

    def take(self, mark: str) -> None:
        if self.mark_at(0) != mark:
            self.fail(f"{mark!r} should be")
        self.next += 1

    def end(self) -> None:
        if self.piece(0) is not None:
            self.fail("a comma or the end should be")

    def piece(self, ahead: int) -> DdlToken | None:
        at = self.next + ahead
        return self.ddl_tokens[at] if at < len(self.ddl_tokens) else None

    def word_at(self, ahead: int) -> str | None:
        piece = self.piece(ahead)
        return piece.text.lower() if piece is not None and piece.kind == "word" else None

    def mark_at(self, ahead: int) -> str | None:
        piece = self.piece(ahead)
        return piece.text if piece is not None and piece.kind == "mark" else None

    def fail(self, wanted: str) -> NoReturn:
        piece = self.piece(0)
        if piece is None:
            raise SchemaError(f"it ends where {wanted}")
        raise SchemaError(f"there is {piece.text!r} at character {piece.at + 1}, where {wanted}")


def ddl_tokens(text: str) -> Iterator[DdlToken]:
    """Return the tokens of a DDL string, without white space and comments."""
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise SchemaError(
                f"there is {text[at]!r} at character {at + 1}; names with other characters than "
                "letters, digits and _ have to be in `backquotes`"
            )
        if found.lastgroup != "space":
            yield DdlToken(found.lastgroup, found[0], at)
        at = found.end()


def unescaped(literal: str) -> str:
    """Return the text of an SQL literal."""
    if literal[0] in "rR":
        return literal[2:-1]
    quote = literal[0]
    parts = literal[1:-1].split(quote * 2)  # A quote that is doubled is one.
    return quote.join(ESCAPE.sub(unescape, part) for part in parts)


def unescape(found: re.Match[str]) -> str:
    short, long, octal, character = found.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    return found[0] if character in KEPT_ESCAPES else ESCAPES.get(character, character)


def type_names() -> str:
    return ", ".join((*PLAIN_TYPES, *DECIMAL_NAMES, "array<>", "map<>", "struct<>"))
