"""Record batches as Spark wants them: columns named and typed as in Spark's own Kafka source.

    key, value      binary
    topic           string
    partition       int
    offset          long
    timestamp       timestamp       microseconds, UTC (Kafka's are milliseconds)
    timestampType   int             0 CreateTime, 1 LogAppendTime
    headers         array<struct<key: string, value: binary>>   null if none; if `includeHeaders`

`ColumnBuilder` decodes whole batches into Arrow's memory layout (`protocol.record_columns`) and
wraps the buffers: no object per record, no copy of the finished columns. Control batches are left
out, and so are, with `read_committed`, the batches of aborted transactions.

Spark checks only the first Arrow batch against the schema, exactly; `arrow_schema` is made by
Spark's own function, and every batch is built with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.client.arrow.arrays import binary_array, fixed_array, header_lists, text_array
from odradek.client.simple.metadata import KafkaError
from odradek.client.simple.range_fetcher import Fetched
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.control_records import is_abort_marker
from odradek.protocol.record_batch import RecordBatchHeader, batches, is_intact
from odradek.protocol.record_columns import RecordColumns

MAX_ROWS = 8192
MAX_DATA_BYTES = 8 * 1024 * 1024

HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def spark_schema(include_headers: bool) -> StructType:
    """The schema of the source."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        fields.append(StructField("headers", HEADERS_TYPE))
    return StructType(fields)


def arrow_schema(include_headers: bool) -> pa.Schema:
    """The Arrow form of `spark_schema`, exactly as Spark compares it."""
    return to_arrow_schema(spark_schema(include_headers), timezone="UTC")


class ColumnBuilder:
    """Collects the batches of one partition and yields Arrow batches of a handy size."""

    def __init__(
        self, partition: TopicPartition, schema: pa.Schema, *, read_committed: bool = False
    ) -> None:
        self.partition = partition
        self.schema = schema
        self.read_committed = read_committed
        self.with_headers = "headers" in schema.names
        self.start_over()

    def start_over(self) -> None:
        self.columns = RecordColumns(self.with_headers)
        self.timestamp_types: list[tuple[int, int]] = []

    def append(self, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        """Decode what was fetched; yields whenever enough has come together. Raises
        `KafkaError`."""
        data = fetched.records.data
        for header in self.wanted(fetched):
            if header.next_offset <= fetched.position:
                continue
            if header.base_offset >= fetched.end:
                break
            if not is_intact(data, header):
                where = f"{self.partition} at offset {header.base_offset}"
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, where)
            before = self.columns.count
            self.columns.append_batch(data, header, fetched.position, fetched.end)
            added = self.columns.count - before
            self.timestamp_types.append((1 if header.is_log_append_time else 0, added))
            if self.columns.count >= MAX_ROWS or self.columns.data_bytes >= MAX_DATA_BYTES:
                yield from self.finish()

    def wanted(self, fetched: Fetched) -> Iterator[RecordBatchHeader]:
        """The batches with records for readers."""
        records = fetched.records
        aborted = sorted(fetched.aborted, key=lambda a: a.first_offset, reverse=True)
        aborting: set[int] = set()
        for header in batches(records.data, records.start, records.end):
            while aborted and aborted[-1].first_offset <= header.last_offset:
                aborting.add(aborted.pop().producer_id)
            if header.is_control:
                if is_abort_marker(records.data, header):
                    aborting.discard(header.producer_id)
            elif not (
                self.read_committed and header.is_transactional and header.producer_id in aborting
            ):
                yield header

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What has come together, if anything."""
        columns, types = self.columns, self.timestamp_types
        if columns.count == 0:
            return
        count = int(columns.count)
        milliseconds = np.frombuffer(columns.timestamps, np.int64)
        arrays = [
            binary_array(columns.key.finish(), pa.binary()),
            binary_array(columns.value.finish(), pa.binary()),
            pa.repeat(pa.scalar(self.partition.topic, pa.string()), count),
            pa.repeat(pa.scalar(self.partition.partition, pa.int32()), count),
            fixed_array(columns.offsets, pa.int64()),
            fixed_array((milliseconds * 1000).tobytes(), pa.timestamp("us", tz="UTC")),
            pa.array(
                np.repeat([t for t, _ in types], [n for _, n in types]).astype(np.int32),
                pa.int32(),
            ),
        ]
        if self.with_headers:
            arrays.append(headers_array(columns, self.schema.field("headers").type))
        self.start_over()
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def headers_array(columns: RecordColumns, kind: pa.ListType) -> pa.Array:
    """Lists of headers; null for a record without any, as Spark's Kafka source has it."""
    counts = np.diff(np.frombuffer(columns.header_offsets, np.int32))
    validity = np.packbits(counts > 0, bitorder="little").tobytes()
    keys = text_array(columns.header_key.finish())
    values = binary_array(columns.header_value.finish(), pa.binary())
    return header_lists(kind, columns.header_offsets, keys, values, pa.py_buffer(validity))
