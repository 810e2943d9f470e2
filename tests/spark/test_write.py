"""Writes of batches and streams to topics, read back with confluent-kafka."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from odradek.client.errors import UnknownTopicOrPartition
from odradek.client.producer.partitioner import partition_for_key
from odradek.spark import producers, writer
from odradek.spark.commit_protocol import Task
from odradek.spark.connections import admin_of
from odradek.spark.options import ClientOptions, WriteOptions
from odradek.spark.task_writer import TaskWriter
from odradek.spark.writer import BatchWriter
from odradek.testing import Broker
from spark import killed_once
from spark.reading import values


@pytest.fixture
def save(bootstrap):
    def write(frame, **options):
        writer = frame.write.format("odradek").mode("append")
        writer.option("kafka.bootstrap.servers", bootstrap).options(**options).save()

    return write


def test_a_row_with_all_columns_arrives_as_one_record_with_them(spark, topics, save):
    topic = topics.create(3)
    headers = [("h", bytearray(b"1")), ("h", None)]
    rows = [
        (topic.name, 2, bytearray(b"k"), bytearray(b"v"), headers),
        (topic.name, 2, None, None, None),
        (topic.name, 2, bytearray(b""), bytearray(b""), []),
    ]
    frame = spark.createDataFrame(
        rows,
        "topic string, partition int, key binary, value binary, "
        "headers array<struct<key: string, value: binary>>",
    )
    save(frame.coalesce(1))
    found = topic.records(2)
    assert [(m.key(), m.value()) for m in found] == [(b"k", b"v"), (None, None), (b"", b"")]
    assert [m.headers() for m in found] == [[("h", b"1"), ("h", None)], None, None]


def test_text_columns_and_partitions_by_key_as_in_the_java_client(spark, topics, save):
    topic = topics.create(5)
    frame = spark.range(200).selectExpr("concat('key-', id) key", "cast(id as string) value")
    save(frame, topic=topic.name)
    for partition in range(5):
        for message in topic.records(partition):
            assert partition_for_key(message.key(), 5) == partition
    total = [m.value() for p in range(5) for m in topic.records(p)]
    assert sorted(total, key=int) == [str(n).encode() for n in range(200)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_readable_by_other_clients(spark, topics, save, codec):
    topic = topics.create()
    frame = spark.range(3).selectExpr("concat('value number ', id) value").coalesce(1)
    save(frame, topic=topic.name, **{"kafka.compression.type": codec})
    assert [m.value() for m in topic.records()] == [b"value number %d" % n for n in range(3)]


def test_rows_without_keys_spread_over_partitions(spark, topics, save):
    topic = topics.create(3)
    frame = spark.range(30_000).selectExpr("repeat('x', 100) value").coalesce(1)
    save(frame, topic=topic.name, **{"kafka.batch.size": "10000"})
    counts = [len(topic.records(p)) for p in range(3)]
    assert sum(counts) == 30_000
    assert min(counts) > 1000


def test_rows_are_written_to_their_topics_in_order(spark, topics, save):
    some, others = topics.create(), topics.create()
    frame = spark.range(100).selectExpr(
        f"if(id % 3 = 0, '{some.name}', '{others.name}') topic", "cast(id as string) value"
    )
    save(frame.coalesce(1))
    assert [int(m.value()) for m in some.records()] == list(range(0, 100, 3))
    assert [int(m.value()) for m in others.records()] == [n for n in range(100) if n % 3]


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("'v' value", {}, "option topic, or a column topic"),
        ("'k' key", {"topic": "t"}, "no column value"),
        ("'v' VALUE", {"topic": "t"}, "no column value"),
        ("'v' value, 1 a, 2 a", {"topic": "t"}, "two columns are called a"),
        ("1 value", {"topic": "t"}, "column value cannot be of type int"),
        ("'v' value, array('x') headers", {"topic": "t"}, "column headers must be"),
        ("'v' value, cast(null as string) topic", {}, "a row has no topic"),
        ("'v' value, 99 partition", {"topic": None}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("'v' value, -1 partition", {"topic": None}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_unsupported_columns_are_refused(spark, topics, save, columns, options, complaint):
    if "topic" in options and options["topic"] is None:
        options = {"topic": topics.create().name}
    with pytest.raises(PySparkException, match=complaint):
        save(spark.sql(f"select {columns}"), **options)


def test_further_columns_are_ignored(spark, topics, save):
    """As in Spark's own sink; column names are case sensitive."""
    topic = topics.create()
    save(spark.sql("select 'v' value, 'k' key, array(1) more, 'x' Key"), topic=topic.name)
    assert [(m.key(), m.value()) for m in topic.records()] == [(b"k", b"v")]


def test_ignored_columns_are_logged_once(caplog):
    writer.warn_of_ignored.cache_clear()
    schema = StructType.fromDDL("value string, b int, a int, topic string")
    for _ in range(3):
        writer.check_schema(WriteOptions(ClientOptions("h:1"), topic="t"), schema)  # type: ignore[arg-type]
    [warning] = caplog.messages
    assert "ignores the columns a, b: a record has key" in warning


def test_a_missing_topic_is_created_if_the_broker_creates_topics(spark, topics, save):
    """As in Spark's own Kafka sink."""
    topic = topics.missing()
    save(spark.range(3).selectExpr("cast(id as string) value").coalesce(1), topic=topic.name)
    assert [m.value() for m in topic.records()] == [b"0", b"1", b"2"]


def test_a_missing_topic_is_named_with_the_command_to_create_it(monkeypatch):
    monkeypatch.setattr(producers, "CREATION_WAIT_MS", 300)
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        options = WriteOptions(ClientOptions(broker.bootstrap), topic="orders")
        rows = pa.record_batch({"value": [b"v"]})
        wanted = rf"orders: .*does not exist.*odradek topic create orders -b {broker.bootstrap}"
        with pytest.raises(UnknownTopicOrPartition, match=wanted):
            task_writer(options).write([rows])
        admin_of(options.client).close()


def test_a_topic_cannot_be_overwritten(spark, bootstrap):
    writer = spark.sql("select 'v' value").write.format("odradek").mode("overwrite")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.option("kafka.bootstrap.servers", bootstrap).option("topic", "t").save()


def test_a_stream_from_topic_to_topic(topics, stream, read, bootstrap, tmp_path):
    source, target = topics.create(2), topics.create()
    source.produce("a", "b")
    source.produce("c", partition=1)

    def copy():
        query = (
            stream(source)
            .selectExpr("upper(cast(value as string)) value")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target.name)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("kafka.linger.ms", "0")
            .queryName("copying")  # Spark makes an option of it.
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    copy()
    source.produce("d")
    copy()
    assert sorted(values(read(target))) == ["A", "B", "C", "D"]  # type: ignore[type-var]


@pytest.fixture
def half_way(spark, bootstrap, tmp_path):
    """Options of a sink whose first task ends half way; `marker` then exists."""
    spark.dataSource.register(killed_once.KilledOnce)
    return {
        "kafka.bootstrap.servers": bootstrap,
        "marker": str(tmp_path / "marker"),
        "replayHeaders": True,
    }


def check_at_least_once(topic, half_way, count, batch_id):
    """Check that every row is present, and those of the first attempt twice with the same headers;
    return the id of the query or job.
    """
    assert Path(half_way["marker"]).exists()
    found = [(int(message.value()), tuple(message.headers())) for message in topic.records()]
    assert len(found) > count
    assert sorted(value for value, _ in set(found)) == list(range(count))
    query_id = found[0][1][0][1]
    for value, headers in found:
        assert headers == (
            ("odradek.query.id", query_id),
            ("odradek.batch.id", batch_id),
            ("odradek.task", b"0"),
            ("odradek.sequence", b"%d" % value),
        )
    return query_id.decode()


@pytest.mark.parametrize("end", ["killed", "failed"])
def test_a_stream_loses_nothing_when_a_task_fails_and_headers_identify_copies(
    topics, stream, half_way, tmp_path, end
):
    source, target = topics.create(), topics.create()
    source.produce(*range(1000))
    query = (
        stream(source)
        .select("value")
        .writeStream.format("killed-once")
        .options(**half_way, end=end, topic=target.name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None
    assert check_at_least_once(target, half_way, 1000, b"0") == query.id


@pytest.mark.parametrize("end", ["killed", "failed"])
def test_a_batch_loses_nothing_when_a_task_fails_and_headers_identify_copies(
    spark, topics, half_way, read, end
):
    target = topics.create()
    rows = spark.range(1000).selectExpr("cast(id as string) value").coalesce(1)
    writer = rows.write.format("killed-once").mode("append")
    writer.options(**half_way, end=end, topic=target.name).save()
    check_at_least_once(target, half_way, 1000, None)
    if end == "killed":
        # As docs/reference/spark-options.md tells.
        found = read(target, includeHeaders=True)
        once = found.withColumn("row_id", F.slice("headers", -4, 4)).dropDuplicates(["row_id"])
        assert sorted(map(int, values(once))) == list(range(1000))  # type: ignore[arg-type]


def task_writer(options):
    protocol = BatchWriter(options, StructType().add("value", BinaryType())).protocol
    return TaskWriter(options, protocol, Task("job", None, 2, 0))


def test_a_task_reports_its_writes_and_keeps_its_producer(bootstrap, topics, monkeypatch):
    monkeypatch.setattr(producers, "_cached", {})
    topic, other = topics.create(2), topics.create()
    options = WriteOptions(ClientOptions(bootstrap), topic=topic.name)
    rows = [
        pa.record_batch({"key": ["k", None], "value": ["abc", "d"], "partition": [1, 0]}),
        pa.record_batch({"key": ["k"], "value": pa.nulls(1), "partition": [1]}),
    ]
    written = task_writer(options).write(rows)
    assert written.task == Task("job", None, 2, 0)
    assert (written.records, written.value_bytes) == (3, 6)
    assert written.ranges == ((topic.name, 0, 1, 0, 0), (topic.name, 1, 2, 0, 1))
    (kept,) = producers._cached.values()
    again = WriteOptions(ClientOptions(bootstrap), topic=other.name, replay_headers=True)
    assert task_writer(again).write(rows[:0]).records == 0
    assert list(producers._cached.values()) == [kept]
    kept.producer.close()


def test_a_cached_producer_finds_new_partitions(bootstrap, topics):
    topic = topics.create()
    kept = producers.take_producer(WriteOptions(ClientOptions(bootstrap)))
    assert kept.topics.partition_count(topic.name) == 1
    topic.add_partitions(3)
    assert kept.topics.partition_count(topic.name, at_least=3) == 3
    kept.producer.close()
