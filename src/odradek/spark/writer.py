"""Writing: rows to records, at least once.

    column      type                  meaning
    value       binary or string      required; null is a tombstone
    key         binary or string      optional
    topic       string                required unless the option `topic` is given, which wins
    partition   int                   optional; else chosen by the key, as the Java client does
    headers     array<struct<key: string, value: binary>>   optional

as in Spark's own Kafka sink. A task ends when all its records are acknowledged (acks=all). A task
that is run again (retry, speculation, restart of a micro-batch) writes its records again.

Rows come as Arrow batches and are taken apart column by column. A Python worker keeps its producer,
and with it its producer id and connections, from task to task; a task that fails throws it away,
since what it had under way is not known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    NullType,
    StringType,
    StructType,
)

from odradek.client.simple.bulk_producer import BulkProducer
from odradek.protocol.compression import CompressionType
from odradek.protocol.records import Header
from odradek.spark.arrow import HEADERS_TYPE
from odradek.spark.connections import open_cluster
from odradek.spark.options import WriteOptions

BYTES_LIKE = (BinaryType, StringType, NullType)
_producers: dict[tuple[int, WriteOptions], BulkProducer] = {}


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote."""

    records: int


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("odradek").mode("append")`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_batches(self.options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("odradek")`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_batches(self.options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: all records were acknowledged when their task ended."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to undo: what was written stays (at least once)."""


def check_schema(options: WriteOptions, schema: StructType) -> None:
    """Raises `ValueError` for columns that cannot be written."""
    fields: dict[str, DataType] = {f.name: f.dataType for f in schema.fields}
    allowed: dict[str, tuple[type[DataType], ...]] = {
        "key": BYTES_LIKE,
        "value": BYTES_LIKE,
        "topic": (StringType,),
        "partition": (IntegerType, NullType),
    }
    unknown = sorted(set(fields) - set(allowed) - {"headers"})
    if unknown:
        raise ValueError(
            f"a record has no column {unknown[0]!r}: put it into value, for example with to_json"
        )
    for name, types in allowed.items():
        if name in fields and not isinstance(fields[name], types):
            raise ValueError(f"column {name} cannot be of type {fields[name].simpleString()}")
    if "value" not in fields:
        raise ValueError("there is no column value")
    if "topic" not in fields and options.topic is None:
        raise ValueError("say where to write: option topic, or a column topic")
    shape = fields.get("headers", HEADERS_TYPE).simpleString()
    if shape != HEADERS_TYPE.simpleString():
        raise ValueError(f"column headers must be {HEADERS_TYPE.simpleString()}, not {shape}")


def write_batches(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write all rows and wait until they are acknowledged."""
    key = (os.getpid(), options)
    producer = _producers.pop(key, None) or new_producer(options)
    try:
        for batch in batches:
            write_batch(producer, options, batch)
        written = producer.flush()
    except BaseException:
        producer.close()
        producer.cluster.close()
        raise
    _producers[key] = producer
    return Written(written)


def new_producer(options: WriteOptions) -> BulkProducer:
    return BulkProducer(
        open_cluster(options.client),
        codec=CompressionType[options.compression.upper()],
        batch_bytes=options.batch_size,
        delivery_timeout_ms=options.delivery_timeout_ms,
        idempotence=options.idempotence,
    )


def write_batch(producer: BulkProducer, options: WriteOptions, batch: pa.RecordBatch) -> None:
    """The rows of one Arrow batch."""
    count = batch.num_rows
    now_ms = time.time_ns() // 1_000_000
    keys = bytes_column(batch, "key")
    values = bytes_column(batch, "value")
    topics = [options.topic] * count if options.topic else column(batch, "topic")
    partitions = column(batch, "partition")
    headers = column(batch, "headers")
    append = producer.append
    for topic, partition, key, value, header in zip(
        topics, partitions, keys, values, headers, strict=True
    ):
        if topic is None:
            raise ValueError("a row has no topic: column topic is null")
        append(topic, partition, key, value, headers_of(header), now_ms)


def column(batch: pa.RecordBatch, name: str) -> Sequence[Any]:
    """A column's values, nulls for one that is not there."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        return [None] * batch.num_rows
    found: list[Any] = batch.column(index).to_pylist()
    return found


def bytes_column(batch: pa.RecordBatch, name: str) -> Sequence[bytes | None]:
    """A column of binary or strings as bytes; strings are UTF-8 in Arrow already."""
    index = batch.schema.get_field_index(name)
    if index < 0 or pa.types.is_null(batch.schema.field(index).type):
        return [None] * batch.num_rows
    found: list[bytes | None] = batch.column(index).cast(pa.binary()).to_pylist()
    return found


def headers_of(header: list[dict[str, Any]] | None) -> Sequence[Header]:
    return [(h["key"], h["value"]) for h in header] if header else ()
