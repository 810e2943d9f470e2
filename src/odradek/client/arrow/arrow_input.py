"""Arrow data of any library as records to send.

    value          binary, text; null: a tombstone
    key            binary, text; null: no key
    headers        list<struct<key: text, value: binary>>
    partition      integers; null: any
    timestamp      timestamp, or integers (ms); null: now

Columns are given by name. Text is sent as UTF-8, which Arrow's text is already. Large, view and
dictionary types are supported. Data comes through the PyCapsule interface, as a stream or an array,
a slice of rows at a time: the bytes of its columns are copied once, and there is no object per row.

`value="json"`, if there is no such column, makes a JSON object of all columns without another role.
That does take an object per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from odradek.client.errors import SerializationError
from odradek.client.producer.record_input import (
    NULLS,
    BinaryColumn,
    ColumnInput,
    Edges,
    HeadersColumn,
    NumberColumn,
    RecordInput,
    Validity,
)
from odradek.protocol.records import Header

ROWS = 65_536
"""The number of rows copied at a time."""
JSON = "json"
ADVICE = {
    "key": 'give the name of one of binary or text, such as key="id"',
    "value": 'give the name of one of binary or text, such as value="payload", or value="json" for '
    "a JSON object of each row's other columns",
    "headers": "give the name of one of list<struct<key: string, value: binary>>",
}
"""Advice, by the role of a column."""


class ArrowStreamExportable(Protocol):
    """An object that exports a stream of record batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArrayExportable(Protocol):
    """An object that exports one record batch."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


ArrowData = ArrowStreamExportable | ArrowArrayExportable


def record_inputs(
    data: ArrowData,
    key: str | None,
    value: str,
    headers: str | None,
    partition: object,
    timestamp: object,
    common_headers: Sequence[Header] = (),
) -> Iterator[RecordInput]:
    """Yield the rows, slice by slice. A partition or timestamp that is not text names no column.
    Every row has `common_headers`, and its own behind them.

    Raises `SerializationError` for a missing column or one of the wrong type, and `TypeError` for
    an argument that cannot be a name.
    """
    for role, name in (("key", key), ("value", value), ("headers", headers)):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{role}={name!r} names no column: {ADVICE[role]}")
    names = {
        "key": key,
        "value": value,
        "headers": headers,
        "partition": partition if isinstance(partition, str) else None,
        "timestamp": timestamp if isinstance(timestamp, str) else None,
    }
    for batch in batches_of(data):
        for start in range(0, batch.num_rows, ROWS):
            yield record_input_of(batch.slice(start, ROWS), names, common_headers)


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Yield the exported data as pyarrow's record batches, without a copy."""
    try:
        if hasattr(data, "__arrow_c_stream__"):
            rows = pa.RecordBatchReader.from_stream(data)
        elif hasattr(data, "__arrow_c_array__"):
            rows = [pa.record_batch(data)]
        else:
            raise SerializationError(
                f"a {type(data).__name__} exports no Arrow data: give a table, frame or batch that "
                "has __arrow_c_stream__ or __arrow_c_array__"
            )
    except (pa.ArrowException, TypeError) as error:
        raise SerializationError(
            f"a {type(data).__name__} exports no rows of named columns ({error}). What to do: give "
            'a table, frame or batch, such as pa.table({"value": [b"1"]})'
        ) from error
    yield from rows


def record_input_of(
    batch: pa.RecordBatch, names: dict[str, str | None], common_headers: Sequence[Header]
) -> RecordInput:
    """Return the records of a slice."""
    found = {role: column(batch, role, name) for role, name in names.items()}
    if found["value"] is None:
        found["value"] = json_rows(batch, names)
    return ColumnInput(
        batch.num_rows,
        binary(found["key"], "key"),
        binary(found["value"], "value"),
        header_lists(found["headers"]),
        numbers(found["partition"], "partition"),
        times(found["timestamp"]),
        list(common_headers),
    )


def column(batch: pa.RecordBatch, role: str, name: str | None) -> pa.Array | None:
    """Return a column by name; None without a name, or for rows as JSON."""
    if name is None:
        return None
    index = batch.schema.get_field_index(name)
    if index >= 0:
        return batch.column(index)
    if role == "value" and name == JSON:
        return None
    near = get_close_matches(name, batch.schema.names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {batch.schema.names}"
    advice = f". What to do: {ADVICE[role]}" if role in ADVICE else ""
    raise SerializationError(f"there is no column {name!r} for the {role} of records{hint}{advice}")


def json_rows(batch: pa.RecordBatch, names: dict[str, str | None]) -> pa.Array:
    """Return each row's other columns as a JSON object."""

    used = set(names.values())
    rest = batch.select([name for name in batch.schema.names if name not in used])
    encode = msgspec.json.Encoder().encode
    return pa.array([encode(row) for row in rest.to_pylist()], pa.binary())


def binary(array: pa.Array | None, role: str) -> BinaryColumn | None:
    """Return a column of bytes or text."""
    if array is None or pa.types.is_null(array.type):
        return None
    array = plain(array)
    kinds = pa.types
    if not (
        kinds.is_binary(array.type)
        or kinds.is_large_binary(array.type)
        or kinds.is_string(array.type)
        or kinds.is_large_string(array.type)
    ):
        raise SerializationError(
            f"the {role} of records cannot be a column of {array.type}: cast it to binary or text"
        )
    wide = kinds.is_large_binary(array.type) or kinds.is_large_string(array.type)
    edges, first, last = edges_of(array, wide)
    data = array.buffers()[-1]
    content = b"" if data is None else data.slice(first, last - first).to_pybytes()
    return BinaryColumn(validity_of(array), edges, content)


def plain(array: pa.Array) -> pa.Array:
    """Return views, dictionaries and values of fixed size as plain binary or text."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_fixed_size_binary(kind) or kind == pa.binary_view():
        return array.cast(pa.large_binary())
    if kind == pa.string_view():
        return array.cast(pa.large_string())
    return array


def edges_of(array: pa.Array, wide: bool) -> tuple[Edges, int, int]:
    """Return the offsets of a slice, and the first and last of them."""
    width = 8 if wide else 4
    offsets = array.buffers()[1]
    if offsets is None or len(array) == 0:
        return Edges(bytes(width), 0, wide), 0, 0
    cut = offsets.slice(array.offset * width, (len(array) + 1) * width).to_pybytes()
    first = int.from_bytes(cut[:width], "little")
    last = int.from_bytes(cut[-width:], "little")
    return Edges(cut, first, wide), first, last


def validity_of(array: pa.Array) -> Validity:
    """Return which values of a slice are not null."""
    bitmap = array.buffers()[0]
    if bitmap is None or not array.null_count:
        return Validity(b"", 0)
    start = array.offset // 8
    end = (array.offset + len(array) + 7) // 8
    return Validity(bitmap.slice(start, end - start).to_pybytes(), array.offset % 8)


def header_lists(array: pa.Array | None) -> HeadersColumn | None:
    """Return a column of lists of headers."""
    if array is None or pa.types.is_null(array.type):
        return None
    kind = array.type
    wide = pa.types.is_large_list(kind)
    if not (wide or pa.types.is_list(kind)) or not is_header(kind.value_type):
        raise SerializationError(
            f"headers of records cannot be a column of {kind}: it takes list<struct<key: string, "
            "value: binary>>"
        )
    edges, first, last = edges_of(array, wide)
    pairs = array.values.slice(first, last - first)
    keys, values = pairs.flatten()
    return HeadersColumn(
        validity_of(array),
        edges,
        binary(keys, "headers") or NULLS,
        binary(values, "headers") or NULLS,
    )


def is_header(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and kind.num_fields == 2


def numbers(array: pa.Array | None, role: str) -> NumberColumn | None:
    """Return a column of integers."""
    if array is None or pa.types.is_null(array.type):
        return None
    if not pa.types.is_integer(array.type):
        raise SerializationError(f"the {role} of records cannot be a column of {array.type}")
    return longs(array.cast(pa.int64()))


def times(array: pa.Array | None) -> NumberColumn | None:
    """Return a column of timestamps or integers."""
    if array is None or not pa.types.is_timestamp(array.type):
        return numbers(array, "timestamp")
    kind = pa.timestamp("ms", tz=array.type.tz)
    return longs(array.cast(kind, safe=False).cast(pa.int64()))


def longs(array: pa.Array) -> NumberColumn:
    data = array.buffers()[1]
    cut = data.slice(array.offset * 8, len(array) * 8).to_pybytes()
    return NumberColumn(validity_of(array), cut)
