"""Writing: rows to records, at least once.

    column      type                  meaning
    value       binary or string      required; null is a tombstone
    key         binary or string      optional
    topic       string                required unless the option `topic` is given, which wins
    partition   int                   optional; else chosen by the key, as the Java client does
    headers     array<struct<key: string, value: binary>>   optional

as in Spark's own Kafka sink. A task ends when all its records are acknowledged (acks=all). A task
that is run again (retry, speculation, restart of a micro-batch) writes its records again.

Rows come as Arrow batches, which the producer encodes without an object per row. A Python worker
keeps its producer, and with it its producer id and connections, from task to task; a task that
fails throws it away, since what it had under way is not known. A producer's delivery reports are
looked at as they come, so that a task does not go on behind a record that was refused.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
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

from odradek import Producer
from odradek.client.errors import UnknownTopicOrPartition
from odradek.client.producer.deliveries import Deliveries
from odradek.config.client import ClientConfig
from odradek.model.errors import ErrorCode
from odradek.spark.arrow import HEADERS_TYPE
from odradek.spark.client_settings import those_of
from odradek.spark.connections import admin_of
from odradek.spark.options import ClientOptions, WriteOptions

BYTES_LIKE = (BinaryType, StringType, NullType)
LINGER_MS = 100
"""Batches leave when they are full, or when the task is at its end."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""How large a record may be is for the broker to say."""
CREATION_WAIT_MS = 10_000
"""How long a missing topic is waited for, which the brokers may make."""
COLUMNS = ("key", "value", "partition", "headers")

SparkProducer = Producer[bytes | str, bytes | str]
_producers: dict[tuple[int, WriteOptions], SparkProducer] = {}


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
    under_way: deque[Deliveries] = deque()
    counts: dict[str, int] = {}
    written = 0
    try:
        for batch in batches:
            for topic, rows in by_topic(options, batch):
                if topic not in counts:
                    counts[topic] = partition_count(options, topic)
                check_partitions(topic, counts[topic], rows)
                under_way.append(send(producer, topic, rows))
                written += rows.num_rows
            while under_way and under_way[0].done():
                under_way.popleft().result()
        producer.flush()
        for deliveries in under_way:
            deliveries.result()
    except BaseException:
        producer.close(0)
        raise
    _producers[key] = producer
    return Written(written)


def new_producer(options: WriteOptions) -> SparkProducer:
    """One that writes in order, with or without idempotence."""
    within_ms = max(1, options.delivery_timeout_ms - LINGER_MS)
    return Producer(
        {
            "bootstrap.servers": options.client.bootstrap_servers,
            "client.id": options.client.client_id,
            "request.timeout.ms": min(options.client.request_timeout_ms, within_ms),
            "max.block.ms": options.client.api_timeout_ms,
            "delivery.timeout.ms": max(options.delivery_timeout_ms, LINGER_MS + 1),
            "linger.ms": LINGER_MS,
            "compression.type": options.compression,
            "batch.size": options.batch_size,
            "max.request.size": MAX_REQUEST_BYTES,
            "enable.idempotence": options.idempotence,
            "max.in.flight.requests.per.connection": 5 if options.idempotence else 1,
            **dict(options.client.settings),
        }
    )


def by_topic(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows for each topic, in their order."""
    if options.topic is not None:
        yield options.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ValueError("a row has no topic: column topic is null")
    names = pc.unique(topics).to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name))


def partition_count(options: WriteOptions, topic: str) -> int:
    """As with Spark's own sink, a missing topic is made if the brokers make topics. Raises
    `UnknownTopicOrPartition` if they do not: the task's producer would wait much longer."""
    try:
        return len(admin_of(options.client).topic(topic).partitions)
    except UnknownTopicOrPartition:
        return made_by_brokers(options.client, topic)


def made_by_brokers(client: ClientOptions, topic: str) -> int:
    """Ask for a missing topic as producers do, whereupon it may be made; its partitions."""
    try:
        with Producer(
            those_of(client.settings, ClientConfig),
            brokers=client.bootstrap_servers,
            client_id=client.client_id,
            request_timeout_ms=client.request_timeout_ms,
            max_block_ms=min(CREATION_WAIT_MS, client.api_timeout_ms),
        ) as producer:
            return len(producer.partitions_for(topic))
    except UnknownTopicOrPartition as error:
        raise UnknownTopicOrPartition(
            f"{topic}: UNKNOWN_TOPIC_OR_PARTITION: there is no topic {topic}, and the brokers make "
            f"none (auto.create.topics.enable). What to do: odradek topic create {topic} "
            f"-b {client.bootstrap_servers}",
            error.code,
        ) from None


def check_partitions(topic: str, count: int, rows: pa.RecordBatch) -> None:
    """Raises `UnknownTopicOrPartition` for a row that names a partition that is not there: the
    producer would wait for it."""
    if "partition" not in rows.schema.names:
        return
    bounds = pc.min_max(rows.column("partition")).as_py()
    for partition in (bounds["min"], bounds["max"]):
        if partition is not None and not 0 <= partition < count:
            raise UnknownTopicOrPartition(
                f"{topic}-{partition}: UNKNOWN_TOPIC_OR_PARTITION: the topic has partitions 0 to "
                f"{count - 1}. What to do: see column partition",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )


def send(producer: SparkProducer, topic: str, rows: pa.RecordBatch) -> Deliveries:
    """Queue rows, waiting for room as often as it takes."""
    given = {name: name for name in COLUMNS if name in rows.schema.names}
    return producer.send_arrow(
        topic,
        rows,
        key=given.get("key"),
        headers=given.get("headers"),
        partition=given.get("partition"),
    )
