"""Records as Arrow record batches, with the columns of Spark's Kafka source.

    key, value      binary
    topic           dictionary<int32, utf8>
    partition       int32
    offset          int64
    timestamp       timestamp[ms, UTC]
    timestampType   int8                 0 CreateTime, 1 LogAppendTime
    headers         list<struct<key: utf8, value: binary>>, empty if there are none

The arrays are made of decoded columns: no object per value, and one copy of byte strings. The rows
of a batch come from several partitions; those of one partition are in order. The offsets to commit
are in the metadata of the batch's schema, so `commit` takes the batch itself; a table made of
several batches has those of the first. `json_values` makes columns of JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from odradek.client.arrow.arrays import strings
from odradek.client.arrow.json_values import JsonValues
from odradek.client.arrow_types import ArrowBatch
from odradek.client.consumer.application.poll_loop import ColumnBuffer
from odradek.client.consumer.arguments import OFFSETS_KEY, metadata_of
from odradek.protocol.record_columns import (
    EDGE_BYTES,
    MAX_DATA_BYTES,
    BinaryChunk,
    BinaryColumn,
)

INT64_BYTES = 8


def fixed_array(data: bytes, kind: pa.DataType) -> pa.Array:
    """Return an array of values of 8 bytes, without nulls."""
    return pa.Array.from_buffers(kind, len(data) // INT64_BYTES, [None, pa.py_buffer(data)])


def binary_array(column: BinaryColumn, kind: pa.DataType) -> pa.Array:
    """Return an array of byte strings."""
    if column.null_count == column.count:
        return pa.nulls(column.count, kind)
    chunks = [chunk_array(chunk, kind) for chunk in column.chunks()]
    array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    if column.null_count == 0:
        return array
    _, offsets, data = array.buffers()
    validity = pa.py_buffer(column.validity())
    return pa.Array.from_buffers(kind, len(array), [validity, offsets, data], column.null_count)


FILTER = pc.get_function("array_filter")
"""`pa.Array.filter` calls this function, by a detour that takes as long as copying 100 kB."""
DROP_NULLS = pc.FilterOptions()


def chunk_array(chunk: BinaryChunk, kind: pa.DataType) -> pa.Array:
    """Return the values of a chunk as an array without gaps.

    Read as an array, the chunk's buffer alternates values and gaps; every second item is kept.
    Arrow reserves memory for as many items of the average length. So that it need not enlarge it,
    and copy, a last gap is as long as all items before it, if the buffer is.
    """
    first = int.from_bytes(chunk.edges[:EDGE_BYTES], "little")
    last = int.from_bytes(chunk.edges[-EDGE_BYTES:], "little")
    length = 2 * chunk.count
    end: int = min(last + (last - first) + length, len(chunk.data), MAX_DATA_BYTES)
    edges = chunk.edges + end.to_bytes(EDGE_BYTES, "little")
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(chunk.data)]
    values_and_gaps = pa.Array.from_buffers(kind, length, buffers)
    every_second = pa.py_buffer(b"\x55" * (length // 8 + 1))
    kept = pa.Array.from_buffers(pa.bool_(), length, [None, every_second])
    return FILTER.call([values_and_gaps, kept], DROP_NULLS)


def text_array(column: BinaryColumn) -> pa.Array:
    """Return an array of text. Invalid UTF-8 gets replacement characters, as everywhere in
    clients."""
    array = binary_array(column, pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = binary_array(column, pa.binary()).to_pylist()
        return pa.array(
            [None if text is None else text.decode("utf-8", "replace") for text in texts],
            pa.string(),
        )
    return array


def repeated(runs: Iterable[tuple[int, int]], kind: pa.DataType) -> pa.Array:
    """Return an array of integers, each repeated by its count."""
    size = kind.bit_width // 8
    data = b"".join(value.to_bytes(size, "little", signed=True) * count for value, count in runs)
    return pa.Array.from_buffers(kind, len(data) // size, [None, pa.py_buffer(data)])


def header_lists(
    kind: pa.ListType, offsets: bytes, keys: pa.Array, values: pa.Array, validity: Any = None
) -> pa.Array:
    """Return an array of the lists of headers of records."""
    structs = pa.Array.from_buffers(kind.value_type, len(keys), [None], children=[keys, values])
    count = len(offsets) // 4 - 1
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(offsets)], children=[structs])


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int8()),
        ("headers", HEADERS),
    ]
)

EMPTY = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in SCHEMA], schema=SCHEMA)
Take = Callable[[], tuple[ColumnBuffer, bool]]
Convert = Callable[[Callable[[], Any]], Any]


def record_batch(
    buffer: ColumnBuffer, values: JsonValues | None = None, with_offsets: bool = True
) -> Any:
    """Return an Arrow batch of the buffered records, with decoded values, and with the offsets to
    commit. Raises `DecodeError`."""
    columns, runs = buffer.columns, buffer.runs
    topics: dict[str, int] = {}
    for run in runs:
        topics.setdefault(run.batch.topic, len(topics))
    indices = repeated([(topics[run.batch.topic], run.count) for run in runs], pa.int32())
    arrays = [
        binary_array(columns.key, pa.binary()),
        binary_array(columns.value, pa.binary()),
        pa.DictionaryArray.from_arrays(
            indices, strings([topic.encode() for topic in topics], pa.string())
        ),
        repeated([(run.batch.partition, run.count) for run in runs], pa.int32()),
        fixed_array(columns.offsets, pa.int64()),
        fixed_array(columns.timestamps, TIMESTAMP),
        repeated([(int(run.batch.timestamp_type), run.count) for run in runs], pa.int8()),
        header_lists(
            HEADERS,
            columns.header_offsets,
            text_array(columns.header_key),
            binary_array(columns.header_value, pa.binary()),
        ),
    ]
    schema = SCHEMA
    if with_offsets:
        schema = SCHEMA.with_metadata({OFFSETS_KEY: metadata_of(buffer.offsets())})
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch if values is None else values.decode(batch)


class ArrowBatches:
    """A stream of Arrow batches: iterate over it, or pass it to a consumer of Arrow streams.

    Iteration goes on for ever, or to the end of the assignment if that has one. As a stream
    (`__arrow_c_stream__`) it ends when no record came for the `max_wait` of a batch. A batch counts
    as processed when the next one is requested.
    """

    def __init__(self, take: Take, convert: Convert, values: JsonValues | None = None) -> None:
        self._take = take
        self._convert = convert
        self._values = values

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches; of decoded values, the fields known so far."""
        if self._values is None:
            return SCHEMA
        return SCHEMA.set(SCHEMA.get_field_index("value"), pa.field("value", self._values.fields))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ArrowBatch:
        while True:
            buffer, more = self._take()
            if not buffer.is_empty:
                make = partial(record_batch, buffer, self._values)
                batch: ArrowBatch | None = self._convert(make)
                if batch is not None:  # Else its rows come again.
                    return batch
            elif not more:
                raise StopIteration

    def until_quiet(
        self, make: Callable[[ColumnBuffer], pa.RecordBatch] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches until no record came for `max_wait`, or to the end of the assignment;
        without the offsets to commit. `make` makes other batches of the buffered records."""
        if make is None:
            make = partial(record_batch, values=self._values, with_offsets=False)
        while True:
            buffer, _ = self._take()
            if buffer.is_empty:
                return
            batch = self._convert(partial(make, buffer))
            if batch is not None:
                yield batch

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches = self.until_quiet()
        held = []
        if self._values is not None:
            for batch in batches:  # Until the schema is known.
                held.append(batch)
                if self._values.known:
                    break
            held = [self._values.completed(batch) for batch in held]
        reader = pa.RecordBatchReader.from_batches(self.schema, chain(held, batches))
        return reader.__arrow_c_stream__(requested_schema)
