"""Reading a topic as a table: columns, nulls, headers, where to start and end, how many tasks."""

import datetime

import pytest
from pyspark.errors import PySparkException

from spark.reading import values

EPOCH = datetime.datetime(1970, 1, 1)
SECOND = 1_000_000_000


def test_the_columns_equal_those_of_sparks_kafka_source(topics, read):
    frame = read(topics.create(), includeHeaders=True)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    assert "headers" not in read(topics.create()).columns


def test_a_read_returns_the_selected_columns_in_order(topics, read):
    topic = topics.create()
    topic.produce("v", key="k", headers=[("h", b"1")])
    frame = read(topic, columns="offset, value", includeHeaders=True)
    assert frame.columns == ["offset", "value"]
    assert [tuple(row) for row in frame.collect()] == [(0, b"v")]
    assert read(topic, columns="headers", includeHeaders=True).collect()[0].headers[0].key == "h"
    with pytest.raises(PySparkException, match=r"'headers', which does not exist \(it needs"):
        read(topic, columns="headers")
    with pytest.raises(
        PySparkException, match="'vlaue', which does not exist: there are key, value,"
    ):
        read(topic, columns="vlaue")


def test_an_unknown_option_is_reported(topics, read):
    with pytest.raises(PySparkException, match=r"startingofset'; did you mean startingOffsets\?"):
        read(topics.create(), startingOfset="earliest").collect()


def test_null_and_empty_keys_values_and_headers(topics, read):
    topic = topics.create()
    topic.produce(None, key=None)
    topic.produce(b"", key=b"")
    topic.produce("v", key="k", headers=[("a", b"1"), ("a", None), ("b", b"")])
    rows = read(topic, includeHeaders=True).orderBy("offset").collect()
    assert [(r.key, r.value) for r in rows] == [(None, None), (b"", b""), (b"k", b"v")]
    assert [r.headers for r in rows[:2]] == [None, None]
    assert [tuple(h) for h in rows[2].headers] == [("a", b"1"), ("a", None), ("b", b"")]
    assert [(r.topic, r.partition, r.offset) for r in rows] == [
        (topic.name, 0, n) for n in (0, 1, 2)
    ]


def test_timestamps_of_create_time_and_log_append_time(topics, read):
    topic = topics.create()
    topic.produce("then", timestamp=1_357_034_700_123)
    [row] = read(topic).selectExpr("unix_millis(timestamp) ms", "timestampType type").collect()
    assert (row.ms, row.type) == (1_357_034_700_123, 0)

    stamped = topics.create(message_timestamp_type="LogAppendTime")
    stamped.produce("now", timestamp=1_357_034_700_123)
    [row] = read(stamped).selectExpr("unix_millis(timestamp) ms", "timestampType type").collect()
    assert row.ms > 1_700_000_000_000
    assert row.type == 1


def test_every_codec_and_batches_cut_in_the_middle(topics, read, bootstrap):
    import confluent_kafka

    topic = topics.create()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50}
        )
        for n in range(100):
            producer.produce(topic.name, f"{codec}-{n}" * 20)
        assert producer.flush(30) == 0
    starting = f'{{"{topic.name}": {{"0": 50}}}}'
    ending = f'{{"{topic.name}": {{"0": 450}}}}'
    found = values(read(topic, startingOffsets=starting, endingOffsets=ending))
    assert found[0] == "none-50" * 20
    assert found[-1] == "zstd-49" * 20
    assert len(found) == 400


def test_partitions_coalesce_into_few_tasks_and_split_into_many(topics, read):
    topic = topics.create(4)
    for partition in range(4):
        topic.produce(*range(25), partition=partition)
    assert read(topic).rdd.getNumPartitions() == 1
    split = read(topic, minPartitions=10)
    assert split.rdd.getNumPartitions() == 10
    capped = read(topic, maxRecordsPerPartition=20)
    assert capped.rdd.getNumPartitions() == 8
    expected = [str(n) for n in range(25)] * 4
    assert values(read(topic)) == values(split) == values(capped) == expected


def test_starting_and_ending_offsets_by_timestamp(topics, read):
    topic = topics.create(2)
    for n in range(10):
        topic.produce(n, partition=n % 2, timestamp=1_000_000 + n * 1000)
    frame = read(topic, startingTimestamp=1_004_000, endingTimestamp=1_008_000)
    assert values(frame) == ["4", "6", "5", "7"]
    by_partition = f'{{"{topic.name}": {{"0": 1006000, "1": 1009000}}}}'
    assert values(read(topic, startingOffsetsByTimestamp=by_partition)) == ["6", "8", "9"]


def test_a_starting_timestamp_after_the_last_record(topics, read):
    topic = topics.create()
    topic.produce("old", timestamp=1_000)
    with pytest.raises(PySparkException, match="no record is as young"):
        read(topic, startingTimestamp=2_000).collect()
    late = read(topic, startingTimestamp=2_000, startingOffsetsByTimestampStrategy="latest")
    assert late.collect() == []


def test_topics_by_pattern_and_partitions_by_number(topics, read):
    import uuid

    prefix = uuid.uuid4().hex
    one, two = (topics.create(2, name=f"{prefix}.{n}") for n in ("one", "two"))
    one.produce("a", partition=1)
    two.produce("b", partition=0)
    two.produce("c", partition=1)
    assert sorted(values(read(subscribePattern=rf"{prefix}\..*"))) == ["a", "b", "c"]  # type: ignore[type-var]
    assert values(read(assign=f'{{"{two.name}": [1]}}')) == ["c"]
    assert read(subscribePattern=f"{prefix}-none").collect() == []


def test_a_missing_topic_is_named(topics, read):
    with pytest.raises(PySparkException, match=r"no-such-topic.*UNKNOWN_TOPIC_OR_PARTITION"):
        read(subscribe="no-such-topic").collect()


def test_offsets_out_of_range_fail_or_are_clamped(topics, read):
    topic = topics.create()
    topic.produce(*range(10))
    topic.delete_records(4)
    asked = {
        "startingOffsets": f'{{"{topic.name}": {{"0": 2}}}}',
        "endingOffsets": f'{{"{topic.name}": {{"0": 20}}}}',
    }
    with pytest.raises(PySparkException, match="Some data may have been lost"):
        read(topic, **asked).collect()
    assert values(read(topic, failOnDataLoss=False, **asked)) == ["4", "5", "6", "7", "8", "9"]


def test_read_committed_reads_records_outside_of_transactions(topics, read):
    topic = topics.create()
    topic.produce("plain")
    assert values(read(topic, **{"kafka.isolation.level": "read_committed"})) == ["plain"]


def test_a_limit_returns_that_many_rows_of_a_larger_topic(topics, read):
    topic = topics.create()
    topic.produce(*range(20_000))
    assert read(topic).limit(3).count() == 3
