"""Arrow arrays of decoded columns: no object per value, and of byte strings one copy.

Records as Arrow record batches: the columns of Spark's Kafka source.

    key, value      binary
    topic           dictionary<int32, utf8>
    partition       int32
    offset          int64
    timestamp       timestamp[ms, UTC]
    timestampType   int8                 0 CreateTime, 1 LogAppendTime
    headers         list<struct<key: utf8, value: binary>>, empty if there are none

Rows are of several partitions, those of one partition in order. What to commit for a batch travels
in its schema's metadata, so `commit` takes the batch itself; a table made of several batches has
that of the first. `json_values` makes columns of JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Self

import pyarrow as pa

from odradek.client.arrow.json_values import JsonValues
from odradek.client.arrow_types import ArrowBatch
from odradek.client.consumer.application.poll_loop import ColumnBuffer
from odradek.client.consumer.arguments import OFFSETS_KEY, metadata_of
from odradek.protocol.record_columns import BinaryChunk, BinaryColumn

INT64_BYTES = 8


def fixed_array(data: bytes, kind: pa.DataType) -> pa.Array:
    """Values of 8 bytes, none of them null."""
    return pa.Array.from_buffers(kind, len(data) // INT64_BYTES, [None, pa.py_buffer(data)])


def binary_array(column: BinaryColumn, kind: pa.DataType) -> pa.Array:
    """Byte strings."""
    chunks = [gathered(piece, kind) for piece in column.chunks()]
    if len(chunks) == 1:
        array = chunks[0]
    else:
        array = pa.concat_arrays(chunks) if chunks else pa.array([], kind)
    if column.null_count == 0:
        return array
    _, offsets, data = array.buffers()
    validity = pa.py_buffer(column.validity())
    return pa.Array.from_buffers(kind, len(array), [validity, offsets, data], column.null_count)


def gathered(piece: BinaryChunk, kind: pa.DataType) -> pa.Array:
    """The values of a piece, one behind the other.

    As an array, its buffer is values and gaps in turn, every second one of which is kept.
    """
    length = 2 * piece.count - 1
    buffers = [None, pa.py_buffer(piece.edges), pa.py_buffer(piece.data)]
    values_and_gaps = pa.Array.from_buffers(kind, length, buffers)
    every_second = pa.py_buffer(b"\x55" * (length // 8 + 1))
    return values_and_gaps.filter(pa.Array.from_buffers(pa.bool_(), length, [None, every_second]))


def text_array(column: BinaryColumn) -> pa.Array:
    """Texts. What is not UTF-8 gets replacement characters, as everywhere in clients."""
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
    """Integers, each as often as it says."""
    size = kind.bit_width // 8
    data = b"".join(value.to_bytes(size, "little", signed=True) * count for value, count in runs)
    return pa.Array.from_buffers(kind, len(data) // size, [None, pa.py_buffer(data)])


def header_lists(
    kind: pa.ListType, offsets: bytes, keys: pa.Array, values: pa.Array, validity: Any = None
) -> pa.Array:
    """Lists of headers of records."""
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

EMPTY = pa.RecordBatch.from_pylist([], schema=SCHEMA)
Take = Callable[[], tuple[ColumnBuffer, bool]]
Counted = Callable[[Callable[[], Any]], Any]


def record_batch(gathered: ColumnBuffer, values: JsonValues | None = None) -> Any:
    """What was gathered, with its values decoded. Raises `DecodeError`."""
    columns, runs = gathered.columns, gathered.runs
    topics: dict[str, int] = {}
    for run in runs:
        topics.setdefault(run.batch.topic, len(topics))
    indices = repeated([(topics[run.batch.topic], run.count) for run in runs], pa.int32())
    arrays = [
        binary_array(columns.key, pa.binary()),
        binary_array(columns.value, pa.binary()),
        pa.DictionaryArray.from_arrays(indices, pa.array(list(topics), pa.string())),
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
    metadata = {OFFSETS_KEY: metadata_of(gathered.offsets())}
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.with_metadata(metadata))
    return batch if values is None else values.decode(batch)


class ArrowBatches:
    """Arrow batches as they come: iterate over it, or give it to what takes an Arrow stream.

    Iteration goes on for ever, or to the end of what was assigned if that has one. As a stream
    (`__arrow_c_stream__`) it ends when nothing has come for the time a batch may take: it is then
    what there was. Each batch counts as dealt with when the next one is asked for.
    """

    def __init__(self, take: Take, counted: Counted, values: JsonValues | None = None) -> None:
        self._take = take
        self._counted = counted
        self._values = values

    def _made(self, gathered: ColumnBuffer) -> Any:
        return self._counted(partial(record_batch, gathered, self._values))

    @property
    def schema(self) -> pa.Schema:
        """Of the batches; where values are decoded, as far as it is known yet."""
        if self._values is None:
            return SCHEMA
        return SCHEMA.set(SCHEMA.get_field_index("value"), pa.field("value", self._values.fields))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ArrowBatch:
        while True:
            gathered, more = self._take()
            if not gathered.is_empty:
                batch: ArrowBatch = self._made(gathered)
                return batch
            if not more:
                raise StopIteration

    def until_quiet(self) -> Iterator[pa.RecordBatch]:
        """The batches until nothing has come for the time a batch may take, or to the end of what
        was assigned; without what to commit."""
        while True:
            gathered, _ = self._take()
            if gathered.is_empty:
                return
            yield self._made(gathered).replace_schema_metadata(None)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches = self.until_quiet()
        held = []
        if self._values is not None:
            for batch in batches:  # Until one says what the schema is.
                held.append(batch)
                if self._values.known:
                    break
            held = [self._values.completed(batch) for batch in held]
        reader = pa.RecordBatchReader.from_batches(self.schema, chain(held, batches))
        return reader.__arrow_c_stream__(requested_schema)
