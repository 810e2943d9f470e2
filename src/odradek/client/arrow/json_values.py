"""JSON objects in the values of an Arrow batch as columns.

    consumer.arrow(decode="json")                 fields and types of the first records
    consumer.arrow(decode=pa.schema([...]))       these fields; others are ignored

    value: binary  ─►  value: struct<id: int64, item: string, ...>, null for a tombstone

The text goes to Arrow's own reader in one piece, so there is no object per record. The fields of
the first batch with a value hold for the rest of the stream: later fields are ignored, missing ones
are null, and a field of another type is an error. (`unified_schema` reads all batches first, for a
bounded read.)

A batch with a value that is no such object raises a `DecodeError` for the first such record, with
the raw record, and does not count as returned. If the consumer has `on_decode_error`, that is
called for each of them, and their values are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from odradek.client.arrow_types import ArrowSchema, Decode
from odradek.client.consumer.record import BatchInfo, Record, TimestampType
from odradek.client.errors import ConfigError, DecodeError
from odradek.protocol.records import encode_headers, varint_size

EMPTY_OBJECT = b"{}"


class JsonValues:
    """Decodes the values of a stream of batches, which all get the same schema."""

    def __init__(
        self, wanted: Decode, on_error: Callable[[DecodeError], object] | None = None
    ) -> None:
        if wanted != "json" and not hasattr(wanted, "__arrow_c_schema__"):
            raise ConfigError(f"decode is 'json' or an Arrow schema, not {wanted!r}")
        self._given = wanted != "json"
        self._fields: pa.StructType | None = (
            pa.struct(list(pa.schema(wanted))) if self._given else None
        )
        self._on_error = on_error

    @property
    def fields(self) -> pa.StructType:
        """The type of the values, as far as it is known."""
        return pa.struct([]) if self._fields is None else self._fields

    @property
    def known(self) -> bool:
        """True if the type of the values is known."""
        return self._fields is not None

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with decoded values. Raises `DecodeError`."""
        values = batch.column("value")
        try:
            structs = self._read(values)
        except pa.ArrowInvalid as error:
            kept = with_nulls(values, self._report_unreadable(batch, error))
            try:
                structs = self._read(kept)
            except pa.ArrowInvalid as conflict:
                raise DecodeError(
                    f"the JSON of {record_position(batch, self._first_conflict(kept))} does not "
                    f"match the records before: {conflict}. What to do: give a schema as decode"
                ) from None
        return with_values(batch, structs)

    def completed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Set the type of a batch without values that was decoded before the type was known."""
        if batch.schema.field("value").type == self.fields:
            return batch
        return with_values(batch, pa.nulls(len(batch), self.fields))

    def _read(self, values: pa.Array) -> pa.StructArray:
        """Return a struct for each value. Raises `pa.ArrowInvalid`.

        Each value is wrapped in an object on a line of its own: a value that is not exactly one
        object is then a syntax error, and cannot be completed by another line.
        """
        if values.null_count == len(values):
            return pa.nulls(len(values), self.fields)
        text = pc.ascii_trim_whitespace(pc.fill_null(values, EMPTY_OBJECT).cast(pa.string()))
        if not pc.all(pc.starts_with(text, "{")).as_py():
            raise pa.ArrowInvalid("a value is no JSON object")
        wrapped = pc.binary_join_element_wise('{"v":', text, "}", "")
        lines = pc.binary_join(pa.ListArray.from_arrays([0, len(wrapped)], wrapped), "\n")[0]
        found = arrow_json.read_json(
            pa.BufferReader(lines.as_buffer()),
            read_options=arrow_json.ReadOptions(block_size=len(lines.as_buffer()) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=None if self._fields is None else pa.schema({"v": self._fields}),
                newlines_in_values=True,
                unexpected_field_behavior="infer" if self._fields is None else "ignore",
            ),
        )
        if len(found) != len(values) or found.column_names != ["v"]:
            raise pa.ArrowInvalid("a value is not one JSON object")
        structs = found.column("v").combine_chunks()
        if self._fields is None:
            self._fields = structs.type
        return pa.StructArray.from_arrays(
            [structs.field(index) for index in range(structs.type.num_fields)],
            fields=list(structs.type),
            mask=values.is_null(),
        )

    def _report_unreadable(self, batch: pa.RecordBatch, error: pa.ArrowInvalid) -> list[int]:
        """Report the rows that cannot be read to `on_error`, and return them. Raises `DecodeError`
        if there is no `on_error`."""
        values = batch.column("value")
        if self._given:
            refused = list(self._unreadable(values, 0, len(values)))
        else:
            refused = [row for row, one in enumerate(values) if not is_object(one.as_py())]
        for row in refused:
            failure = decode_error(batch, row, error)
            if self._on_error is None:
                raise failure
            self._on_error(failure)
        return refused

    def _first_conflict(self, values: pa.Array) -> int:
        """Return the first row that cannot be read together with the rows before it. There is
        one."""
        readable, unreadable = 0, len(values)
        while unreadable - readable > 1:
            middle = (readable + unreadable) // 2
            trial = JsonValues("json")  # A trial must not change the fields.
            trial._fields = self._fields
            try:
                trial._read(values.slice(0, middle))
                readable = middle
            except pa.ArrowInvalid:
                unreadable = middle
        return readable

    def _unreadable(self, values: pa.Array, start: int, end: int) -> Iterator[int]:
        """Yield the rows from `start` to `end` that cannot be read, found by bisection."""
        try:
            self._read(values.slice(start, end - start))
        except pa.ArrowInvalid:
            if end - start == 1:
                yield start
                return
            middle = (start + end) // 2
            yield from self._unreadable(values, start, middle)
            yield from self._unreadable(values, middle, end)


def is_object(data: bytes | None) -> bool:
    """True for a JSON object or null."""
    try:
        return data is None or isinstance(msgspec.json.decode(data), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def with_values(batch: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
    """Return the batch with other values."""
    index = batch.schema.get_field_index("value")
    schema = batch.schema.set(index, pa.field("value", values.type))
    columns = [*batch.columns[:index], values, *batch.columns[index + 1 :]]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unified_schema(batches: Sequence[pa.RecordBatch]) -> ArrowSchema:
    """Return the fields of the JSON in all batches, each with a type that holds all its values.
    Raises `DecodeError` if there is no such type."""
    schema: ArrowSchema = pa.schema([])
    for batch in batches:
        values = JsonValues("json", lambda _: None)
        values.decode(batch)
        found = pa.schema(list(values.fields))
        try:
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DecodeError(
                f"the JSON of some records from {record_position(batch, 0)} on does not "
                f"match the records before: {error}. What to do: give a schema as decode"
            ) from None
    return schema


def record_position(batch: pa.RecordBatch, row: int) -> str:
    """Return the position of a record as text for messages."""
    data = {name: batch.column(name)[row].as_py() for name in ("topic", "partition", "offset")}
    return f"{data['topic']}-{data['partition']} at offset {data['offset']}"


def with_nulls(values: pa.Array, rows: list[int]) -> pa.Array:
    """Return the values, with null in these rows."""
    nulls = set(rows)
    # Before 24.0 `if_else` of pyarrow returns other bytes for a slice of binary values.
    kept = [None if row in nulls else row for row in range(len(values))]
    return values.take(pa.array(kept, pa.int64()))


def decode_error(batch: pa.RecordBatch, row: int, reason: Exception) -> DecodeError:
    """Return the error for one row, with the raw record."""
    timestamp_ms = batch.column("timestamp")[row].value  # Not every timestamp fits a datetime.
    data = batch.drop_columns(["timestamp"]).slice(row, 1).to_pylist()[0]
    headers = [(each["key"], each["value"]) for each in data["headers"]]
    source = BatchInfo(data["topic"], data["partition"], -1, TimestampType(data["timestampType"]))
    error = DecodeError(
        f"the value of {data['topic']}-{data['partition']} at offset {data['offset']} is no JSON "
        f"object of the wanted form: {reason}. What to do: give on_decode_error='skip' to have it "
        f"as null, or a function to call with it; or read from offset {data['offset'] + 1} on"
    )
    count, encoded = len(headers), encode_headers(headers)
    error.record = Record(
        source,
        data["offset"],
        timestamp_ms,
        data["key"],
        data["value"],
        encoded[varint_size(count) :] if count else None,
        count,
    )
    error.__cause__ = reason
    return error
