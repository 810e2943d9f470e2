"""Record batches as Spark wants them: columns named and typed as in Spark's own Kafka source.

    key, value      binary
    topic           string
    partition       int
    offset          long
    timestamp       timestamp       microseconds, UTC (Kafka's are milliseconds)
    timestampType   int             0 CreateTime, 1 LogAppendTime
    data            struct          the value, decoded by `valueSchema`; if `valueFormat`
    error           string          why it has nulls for what could not be decoded; if `valueFormat`
    headers         array<struct<key: string, value: binary>>   null if none; if `includeHeaders`

`spark_batch` makes them of the consumer's (`client.arrow.reading`), which was decoded into Arrow's
memory layout without an object per record; keys, values, offsets and headers are not copied.

Spark checks only the first Arrow batch against the schema, exactly; `arrow_schema` is made by
Spark's own function, and every batch is built with it.
"""

from __future__ import annotations

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

from odradek.client.arrow.arrays import header_lists

if TYPE_CHECKING:
    from odradek.spark.json.columns import JsonColumns
from odradek.spark.json.schema import nullable

MAX_ROWS = 8192
DATA, ERROR = "data", "error"

HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def spark_schema(include_headers: bool, values: StructType | None = None) -> StructType:
    """The schema of the source; `values` is that of decoded values."""
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
    return StructType(fields)


def check_given_schema(given: StructType, own: StructType) -> None:
    """Raises `ValueError` if a schema the user gave, `spark.read.schema(...)`, is not the source's
    own: Spark asks for the latter only where there is none."""
    if shape_of(given) != shape_of(own):
        names = columns_of(given)
        raise ValueError(
            f"schema({names!r}) cannot change the columns of the odradek source, which are: "
            f"{columns_of(own)}. What to do: leave schema() out, and take columns out of the value "
            f"with the options valueFormat=json and valueSchema={names!r}, or with "
            f"from_json(cast(value as string), {names!r})"
        )


def shape_of(schema: StructType) -> list[tuple[str, DataType, bool]]:
    """What Spark compares; not the metadata."""
    return [(each.name, each.dataType, each.nullable) for each in schema.fields]


def columns_of(schema: StructType) -> str:
    """Names and types as DDL has them."""
    return ", ".join(
        f"{each.name} {each.dataType.simpleString()}{'' if each.nullable else ' not null'}"
        for each in schema.fields
    )


def arrow_schema(include_headers: bool, values: StructType | None = None) -> pa.Schema:
    """The Arrow form of `spark_schema`, exactly as Spark compares it."""
    return to_arrow_schema(spark_schema(include_headers, values), timezone="UTC")


def spark_batch(
    batch: pa.RecordBatch, schema: pa.Schema, decoder: JsonColumns | None = None
) -> pa.RecordBatch:
    """A consumer's Arrow batch with the columns of `schema`, an `arrow_schema`; with the values
    decoded by `decoder`, if there is one."""
    columns = {
        **{name: batch.column(name) for name in ("key", "value", "partition", "offset")},
        "topic": batch.column("topic").dictionary_decode(),
        "timestamp": batch.column("timestamp").cast(pa.timestamp("us", tz="UTC"), safe=False),
        "timestampType": batch.column("timestampType").cast(pa.int32()),
    }
    if decoder is not None:
        columns[DATA], columns[ERROR] = decoder.decode(batch.column("value"))
    if "headers" in schema.names:
        columns["headers"] = null_if_none(batch.column("headers"), schema.field("headers").type)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def null_if_none(headers: pa.ListArray, kind: pa.ListType) -> pa.Array:
    """Lists of headers; null for a record without any, as Spark's Kafka source has it."""
    edges = headers.offsets.to_numpy()
    validity = np.packbits(np.diff(edges) > 0, bitorder="little").tobytes()
    keys, values = (headers.values.field(index) for index in range(2))
    return header_lists(kind, edges.tobytes(), keys, values, pa.py_buffer(validity))
