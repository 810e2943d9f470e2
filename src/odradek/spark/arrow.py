"""Arrow batches for Spark, with the column names and types of Spark's own Kafka source.

    key, value      binary
    topic           string
    partition       int
    offset          long
    timestamp       timestamp       microseconds, UTC (Kafka's are milliseconds)
    timestampType   int             0 CreateTime, 1 LogAppendTime
    data            struct          the value, decoded by `valueSchema`; if `valueFormat`
    error           string          why fields could not be decoded; if `valueFormat`
    headers         array<struct<key: string, value: binary>>   null if none; if `includeHeaders`

`SparkBatches` makes them of the consumer's columns, which are decoded into Arrow's memory layout
without an object per record. Columns that are not selected are not made.

Spark checks only the first Arrow batch against the schema, exactly; `arrow_schema` is made by
Spark's own function, and every batch is built with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.client.arrow.arrays import numbers
from odradek.client.arrow.record_batches import (
    binary_array,
    fixed_array,
    header_lists,
    repeated,
    text_array,
)
from odradek.client.consumer.fetch.completed_fetch import ColumnRun
from odradek.spark.json.schema import nullable

if TYPE_CHECKING:
    from odradek.client.consumer.application.poll_loop import ColumnBuffer
    from odradek.protocol.record_columns import RecordColumns
    from odradek.spark.json.columns import JsonColumns

MAX_ROWS = 8192
MAX_BYTES = 1024 * 1024
"""The bounds of a batch: larger ones are no faster, and fall out of the processor's cache."""

DATA, ERROR = "data", "error"

HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def spark_schema(
    include_headers: bool, values: StructType | None = None, columns: Sequence[str] = ()
) -> StructType:
    """Return the schema of the source; `values` is that of decoded values. `columns` are the
    selected columns in order; empty: all. Raises `ValueError` for an unknown column."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if values is not None:
        fields += [StructField(DATA, nullable(values)), StructField(ERROR, StringType())]
    if include_headers:
        fields.append(StructField("headers", HEADERS_TYPE))
    if not columns:
        return StructType(fields)
    named = {field.name: field for field in fields}
    unknown = [name for name in columns if name not in named]
    if unknown:
        needs = {"headers": "includeHeaders=true", DATA: "valueFormat", ERROR: "valueFormat"}
        hint = f" (it needs {needs[unknown[0]]})" if unknown[0] in needs else ""
        raise ValueError(
            f"columns names {unknown[0]!r}, which does not exist{hint}: "
            f"there are {', '.join(named)}"
        )
    return StructType([named[name] for name in columns])


def check_given_schema(given: StructType, own: StructType) -> None:
    """Raise `ValueError` if the user's `spark.read.schema(...)` is not the source's schema: Spark
    asks the source for its schema only if the user gave none."""
    if shape_of(given) != shape_of(own):
        names = columns_of(given)
        raise ValueError(
            f"schema({names!r}) cannot change the columns of the odradek source, which are: "
            f"{columns_of(own)}. What to do: leave schema() out, and take columns out of the value "
            f"with the options valueFormat=json and valueSchema={names!r}, or with "
            f"from_json(cast(value as string), {names!r})"
        )


def shape_of(schema: StructType) -> list[tuple[str, DataType, bool]]:
    """Return the parts of a schema that Spark compares: all but the metadata."""
    return [(each.name, each.dataType, each.nullable) for each in schema.fields]


def columns_of(schema: StructType) -> str:
    """Return names and types as DDL."""
    return ", ".join(
        f"{each.name} {each.dataType.simpleString()}{'' if each.nullable else ' not null'}"
        for each in schema.fields
    )


def arrow_schema(
    include_headers: bool, values: StructType | None = None, columns: Sequence[str] = ()
) -> pa.Schema:
    """Return the Arrow form of `spark_schema`, exactly as Spark compares it."""
    return to_arrow_schema(spark_schema(include_headers, values, columns), timezone="UTC")


class SparkBatches:
    """Makes Arrow batches with the columns of `schema`, an `arrow_schema`, and no others; `decoder`
    decodes the values, if given."""

    def __init__(self, schema: pa.Schema, decoder: JsonColumns | None = None) -> None:
        self.schema = schema
        self.decoder = decoder
        self._fields = [(field.name, field.type) for field in schema]
        self._kept: dict[str, pa.Array] = {}
        self._kept_of: tuple[str, int, int] | None = None
        self._kept_rows = 0

    def of(self, buffer: ColumnBuffer) -> pa.RecordBatch:
        """Return a batch of the buffered records."""
        made = self._source_columns(buffer.runs)
        if self.decoder is not None:
            made["value"] = column_of(buffer.columns, "value", pa.binary())
            made[DATA], made[ERROR] = self.decoder.decode(made["value"])
        arrays = [
            made[name] if name in made else column_of(buffer.columns, name, kind)
            for name, kind in self._fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _source_columns(self, runs: Sequence[ColumnRun]) -> dict[str, pa.Array]:
        """Return the columns that have one value for all records of a run. Most batches are of one
        run, and take their rows of columns that are kept: making these takes several times as
        long."""
        if len(runs) != 1:
            return self._made_source_columns(runs)
        batch, count = runs[0].batch, runs[0].count
        source = batch.topic, batch.partition, int(batch.timestamp_type)
        if source != self._kept_of or count > self._kept_rows:
            rows = max(count, MAX_ROWS)
            self._kept = self._made_source_columns([ColumnRun(batch, rows)])
            self._kept_of, self._kept_rows = source, rows
        return {name: column.slice(0, count) for name, column in self._kept.items()}

    def _made_source_columns(self, runs: Sequence[ColumnRun]) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for name, kind in self._fields:
            match name:
                case "topic":
                    columns[name] = topics(runs)
                case "partition":
                    columns[name] = repeated([(r.batch.partition, r.count) for r in runs], kind)
                case "timestampType":
                    types = [(int(run.batch.timestamp_type), run.count) for run in runs]
                    columns[name] = repeated(types, kind)
        return columns


def column_of(columns: RecordColumns, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column of the records, of Spark's type `kind`."""
    match name:
        case "key":
            return binary_array(columns.key, kind)
        case "value":
            return binary_array(columns.value, kind)
        case "offset":
            return fixed_array(columns.offsets, kind)
        case "timestamp":
            milliseconds = np.frombuffer(columns.timestamps, np.int64)
            return numbers(milliseconds * 1000, kind)
        case "headers":
            return headers(columns, kind)
    raise ValueError(f"there is no column {name}")


def topics(runs: Sequence[ColumnRun]) -> pa.Array:
    """Return the topic of each row as text."""
    names = [run.batch.topic.encode() for run in runs]
    counts = [run.count for run in runs]
    edges = np.zeros(sum(counts) + 1, dtype=np.int32)
    np.cumsum(np.repeat([len(name) for name in names], counts), out=edges[1:])
    data = b"".join(name * count for name, count in zip(names, counts, strict=True))
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(edges) - 1, buffers)


def headers(columns: RecordColumns, kind: pa.ListType) -> pa.Array:
    """Return lists of headers; null for a record without headers, as in Spark's Kafka source."""
    edges = columns.header_offsets
    is_list = np.diff(np.frombuffer(edges, np.int32)) > 0
    validity = pa.py_buffer(np.packbits(is_list, bitorder="little").tobytes())
    keys = text_array(columns.header_key)
    values = binary_array(columns.header_value, pa.binary())
    return header_lists(kind, edges, keys, values, validity)
