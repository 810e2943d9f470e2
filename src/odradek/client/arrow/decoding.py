"""Columns out of the JSON objects in an Arrow batch's values.

    consumer.arrow(decode="json")                 fields and types as the first records have them
    consumer.arrow(decode=pa.schema([...]))       these fields; others are passed over

    value: binary  ─►  value: struct<id: int64, item: string, ...>, null for a tombstone

The text goes to Arrow's own reader in one piece, so there is no object per record. What the first
batch with a value taught holds for the rest of the stream: fields that come later are passed over,
those that are missing are null.

A batch with a value that is no such object raises a `DecodeError` for the first of them, with the
record as it came, and is not counted as handed out; or, where the consumer has `on_decode_error`,
that is called for each of them and their values are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from odradek.client.arrow.types import Decode
from odradek.client.consumer.record import Record, RecordSource, TimestampType
from odradek.client.errors import ConfigError, DecodeError

EMPTY_OBJECT = b"{}"


class JsonValues:
    """Decodes the values of one stream of batches, which all get the same schema."""

    def __init__(
        self, wanted: Decode, on_error: Callable[[DecodeError], object] | None = None
    ) -> None:
        if wanted != "json" and not hasattr(wanted, "__arrow_c_schema__"):
            raise ConfigError(f"decode is 'json' or an Arrow schema, not {wanted!r}")
        self._schema: pa.Schema | None = None if wanted == "json" else pa.schema(wanted)
        self._on_error = on_error

    @property
    def fields(self) -> pa.StructType:
        """The type of the values, as far as it is known."""
        return pa.struct([] if self._schema is None else list(self._schema))

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its values decoded. Raises `DecodeError`."""
        values = batch.column("value")
        refused: list[int] = []
        try:
            fields = self._read(values)
        except pa.ArrowInvalid as error:
            refused = self._refuse(batch, error)
            values = without(values, refused)
            fields = self._read(values)
        structs = pa.StructArray.from_arrays(
            [fields.column(name) for name in fields.schema.names],
            fields=list(fields.schema),
            mask=values.is_null(),
        )
        index = batch.schema.get_field_index("value")
        schema = batch.schema.set(index, pa.field("value", structs.type))
        columns = [*batch.columns[:index], structs, *batch.columns[index + 1 :]]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _read(self, values: pa.Array) -> pa.RecordBatch:
        """One row for each value. Raises `pa.ArrowInvalid`."""
        if values.null_count == len(values):
            empty = pa.schema(list(self.fields))
            return pa.RecordBatch.from_pylist([{}] * len(values), schema=empty)
        objects = pc.fill_null(values, EMPTY_OBJECT)
        text = pc.ascii_trim_whitespace(objects.cast(pa.string()))
        if not pc.all(pc.starts_with(text, "{")).as_py():
            raise pa.ArrowInvalid("a value is no JSON object")
        lines = pc.binary_join(pa.ListArray.from_arrays([0, len(text)], text), "\n")[0]
        found = arrow_json.read_json(
            pa.BufferReader(lines.as_buffer()),
            read_options=arrow_json.ReadOptions(block_size=len(lines.as_buffer()) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=self._schema,
                newlines_in_values=True,
                unexpected_field_behavior="infer" if self._schema is None else "ignore",
            ),
        ).combine_chunks()
        if len(found) != len(values):
            raise pa.ArrowInvalid("a value is more than one JSON object")
        if self._schema is None:
            self._schema = found.schema
        return pa.RecordBatch.from_arrays(
            [pa.array([], each.type) if not len(each) else each.chunk(0) for each in found.columns],
            schema=found.schema,
        )

    def _refuse(self, batch: pa.RecordBatch, error: pa.ArrowInvalid) -> list[int]:
        """The rows that cannot be read, each told to `on_error`. Raises `DecodeError` where there
        is none, or if it is not for single rows that the batch cannot be read."""
        values = batch.column("value")
        if self._schema is None:
            refused = [row for row, one in enumerate(values) if not is_object(one.as_py())]
        else:
            refused = list(self._unreadable(values, 0, len(values)))
        if not refused:
            raise DecodeError(
                f"the values of {len(batch)} records cannot be decoded together: {error}. What to "
                "do: give a schema as decode"
            )
        for row in refused:
            told = refusal(batch, row, error)
            if self._on_error is None:
                raise told
            self._on_error(told)
        return refused

    def _unreadable(self, values: pa.Array, start: int, end: int) -> Iterator[int]:
        """The rows from `start` to `end` that cannot be read, found by halving."""
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
    """Whether it is a JSON object, or null."""
    try:
        return data is None or isinstance(msgspec.json.decode(data), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def without(values: pa.Array, rows: list[int]) -> pa.Array:
    """The values, null in these rows."""
    gone = set(rows)
    return pc.if_else(pa.array([row in gone for row in range(len(values))]), None, values)


def refusal(batch: pa.RecordBatch, row: int, reason: Exception) -> DecodeError:
    """The error for one row, with the record as it came but for its headers."""
    data = batch.slice(row, 1).drop_columns(["headers"]).to_pylist()[0]
    source = RecordSource(
        data["topic"], data["partition"], -1, TimestampType(data["timestampType"])
    )
    timestamp_ms = round(data["timestamp"].timestamp() * 1000)
    error = DecodeError(
        f"the value of {data['topic']}-{data['partition']} at offset {data['offset']} is no JSON "
        f"object of the wanted form: {reason}. What to do: seek behind it, or give on_decode_error"
    )
    error.record = Record(source, data["offset"], timestamp_ms, data["key"], data["value"])
    return error
