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

`SparkBatches` converts the consumer's batches, which are decoded into Arrow's memory layout without
an object per record; keys, values, offsets and headers are not copied.

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

from odradek.client.arrow.record_batches import header_lists
from odradek.spark.json.schema import nullable

if TYPE_CHECKING:
    from odradek.spark.json.columns import JsonColumns

MAX_ROWS = 8192
MAX_BYTES = 2 * 1024 * 1024
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
    """Converts a consumer's Arrow batches to the columns of `schema`, an `arrow_schema`; `decoder`
    decodes the values, if given."""

    def __init__(self, schema: pa.Schema, decoder: JsonColumns | None = None) -> None:
        self.schema = schema
        self.decoder = decoder
        self._fields = list(schema)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the same rows."""
        decoded: dict[str, pa.Array] = {}
        if self.decoder is not None:
            decoded[DATA], decoded[ERROR] = self.decoder.decode(batch.column("value"))
        arrays = [
            decoded[name] if name in decoded else converted(batch.column(name), field)
            for name, field in zip(self.schema.names, self._fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def converted(column: pa.Array, field: pa.Field) -> pa.Array:
    """Convert a column of the consumer's batch to Spark's type."""
    if field.name == "topic":
        return topics(column)
    if field.name == "headers":
        return null_if_none(column, field.type)
    return column if column.type == field.type else column.cast(field.type, safe=False)


def topics(column: pa.DictionaryArray) -> pa.Array:
    """Return the topic of each row as text. One topic, as nearly always, is written without looking
    at the rows, in a quarter of the time."""
    if len(column.dictionary) != 1 or column.null_count:
        return column.dictionary_decode()
    topic = column.dictionary[0].as_py().encode()
    edges = np.arange(0, (len(column) + 1) * len(topic), len(topic), dtype=np.int32)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(topic * len(column))]
    return pa.Array.from_buffers(pa.string(), len(column), buffers)


def null_if_none(headers: pa.ListArray, kind: pa.ListType) -> pa.Array:
    """Return lists of headers; null for a record without headers, as in Spark's Kafka source."""
    edges = headers.offsets.to_numpy()
    validity = np.packbits(np.diff(edges) > 0, bitorder="little").tobytes()
    keys, values = (headers.values.field(index) for index in range(2))
    return header_lists(kind, edges.tobytes(), keys, values, pa.py_buffer(validity))
