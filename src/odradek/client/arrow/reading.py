"""Records as Arrow record batches: the columns of Spark's Kafka source.

    key, value      binary
    topic           dictionary<int32, utf8>
    partition       int32
    offset          int64
    timestamp       timestamp[ms, UTC]
    timestampType   int8                 0 CreateTime, 1 LogAppendTime
    headers         list<struct<key: utf8, value: binary>>, empty if there are none

Rows are of several partitions, those of one partition in order. What to commit for a batch travels
in its schema's metadata, so `commit` takes the batch itself; a table made of several batches has
that of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import pyarrow as pa

from odradek.client.arrow.arrays import (
    binary_array,
    fixed_array,
    header_lists,
    repeated,
    text_array,
)
from odradek.client.consumer.arguments import OFFSETS_KEY, metadata_of
from odradek.client.consumer.gathering import ColumnGathering

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

RecordBatch = pa.RecordBatch
Take = Callable[[], tuple[ColumnGathering, bool]]


def record_batch(gathered: ColumnGathering) -> pa.RecordBatch:
    """What was gathered."""
    columns, runs = gathered.columns, gathered.runs
    topics: dict[str, int] = {}
    for run in runs:
        topics.setdefault(run.source.topic, len(topics))
    indices = repeated([(topics[run.source.topic], run.count) for run in runs], pa.int32())
    arrays = [
        binary_array(columns.key.finish(), pa.binary()),
        binary_array(columns.value.finish(), pa.binary()),
        pa.DictionaryArray.from_arrays(indices, pa.array(list(topics), pa.string())),
        repeated([(run.source.partition, run.count) for run in runs], pa.int32()),
        fixed_array(columns.offsets, pa.int64()),
        fixed_array(columns.timestamps, TIMESTAMP),
        repeated([(int(run.source.timestamp_type), run.count) for run in runs], pa.int8()),
        header_lists(
            HEADERS,
            columns.header_offsets,
            text_array(columns.header_key.finish()),
            binary_array(columns.header_value.finish(), pa.binary()),
        ),
    ]
    metadata = {OFFSETS_KEY: metadata_of(gathered.offsets())}
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.with_metadata(metadata))


class ArrowBatches:
    """Arrow batches as they come: iterate over it, or give it to what takes an Arrow stream.

    Iteration goes on for ever, or to the end of what was assigned if that has one. As a stream
    (`__arrow_c_stream__`) it ends when nothing has come for the time a batch may take: it is then
    what there was. Each batch counts as dealt with when the next one is asked for.
    """

    def __init__(self, take: Take) -> None:
        self._take = take

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        while True:
            gathered, more = self._take()
            if not gathered.is_empty:
                return record_batch(gathered)
            if not more:
                raise StopIteration

    def until_quiet(self) -> Iterator[pa.RecordBatch]:
        """The batches until nothing has come for the time a batch may take, or to the end of what
        was assigned; without what to commit."""
        while True:
            gathered, _ = self._take()
            if gathered.is_empty:
                return
            yield record_batch(gathered).replace_schema_metadata(None)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(SCHEMA, self.until_quiet())
        return reader.__arrow_c_stream__(requested_schema)
