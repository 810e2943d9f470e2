"""Streaming queries on a real Spark: start, restarts, limits, data loss, killed workers."""

import json
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from spark import killed_once
from spark.reading import values


def run(frame, checkpoint, each):
    """Run a query over the present records; `each(batch, id)` gets every micro-batch."""
    query = (
        frame.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


class Collected:
    """The values of each micro-batch; a repeated batch replaces its earlier values."""

    def __init__(self):
        self.batches = {}

    def __call__(self, frame, batch_id):
        self.batches[batch_id] = values(frame)

    @property
    def all(self):
        return [value for _, found in sorted(self.batches.items()) for value in found]


def test_available_now_reads_present_records_in_limited_batches(topics, stream, tmp_path):
    topic = topics.create(2)
    topic.produce(*range(60))
    topic.produce(*range(100, 140), partition=1)
    found = Collected()
    query = run(stream(topic, maxOffsetsPerTrigger=30), tmp_path, found)
    assert sorted(map(int, found.all)) == [*range(60), *range(100, 140)]
    assert max(len(batch) for batch in found.batches.values()) <= 31
    assert len(found.batches) == 4  # No empty first one: the logs start at 0.
    last = query.lastProgress.sources[0]
    assert json.loads(last.endOffset)[topic.name] == {"0": 60, "1": 40}


def test_a_restart_continues_where_the_last_run_ended(topics, stream, tmp_path):
    topic = topics.create()
    found = Collected()
    topic.produce("a", "b")
    run(stream(topic), tmp_path, found)
    topic.produce("c")
    run(stream(topic), tmp_path, found)
    run(stream(topic), tmp_path, found)
    assert found.all == ["a", "b", "c"]


class Crash(Exception):
    pass


@pytest.mark.parametrize("kept_by", ["Spark's offset log", "the reader's checkpointLocation"])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_stream_from_latest_that_fails_first_loses_nothing(
    topics, stream, tmp_path, kept_by, failing
):
    """Micro-batch 0 or 1 fails, and records are produced before the query is restarted."""
    topic = topics.create()
    topic.produce("before")
    found = Collected()

    def frame():
        options = {"startingOffsets": "latest"}
        if kept_by != "Spark's offset log":
            options["checkpointLocation"] = str(tmp_path)
        return stream(topic, **options)

    def fail(batch, batch_id):
        topic.produce(f"during {batch_id}")
        if batch_id == failing:
            raise Crash("half way")
        found(batch, batch_id)

    while True:
        try:
            run(frame(), tmp_path, fail)
        except StreamingQueryException as error:
            assert "half way" in str(error)  # noqa: PT017 - the loop goes on until it is raised
            break
    topic.produce("after")
    run(frame(), tmp_path, found)
    expected = [f"during {number}" for number in range(failing + 1)]
    assert found.all == [*expected, "after"]


def test_trigger_once_reads_in_its_first_run_only_with_a_kept_start(topics, stream, tmp_path):
    """The first micro-batch of a stream whose start can move only stores where it begins."""
    topic = topics.create()
    topic.produce("old", timestamp=1000)
    for kept, expected in ((False, []), (True, ["old"])):
        checkpoint = str(tmp_path / f"kept {kept}")
        options = {"checkpointLocation": checkpoint} if kept else {}
        found = Collected()
        writing = stream(topic, startingTimestamp=1000, **options).writeStream.foreachBatch(found)
        writing = writing.option("checkpointLocation", checkpoint).trigger(once=True)
        writing.start().awaitTermination()
        assert found.all == expected


def test_new_partitions_are_read_from_their_beginning(topics, stream, tmp_path):
    topic = topics.create()
    topic.produce("a")
    found = Collected()
    run(stream(topic), tmp_path, found)
    topic.add_partitions(2)
    topic.produce("b", partition=1)
    run(stream(topic), tmp_path, found)
    assert found.all == ["a", "b"]


def test_a_topic_trimmed_below_the_checkpoint(topics, stream, tmp_path):
    topic = topics.create()
    topic.produce(*range(5))
    found = Collected()
    run(stream(topic), tmp_path, found)
    topic.produce(*range(5, 10))
    topic.delete_records(8)
    with pytest.raises(StreamingQueryException, match=r"DataLoss.*Some data may have been lost"):
        run(stream(topic), tmp_path, found)
    run(stream(topic, failOnDataLoss=False), tmp_path, found)
    assert found.all == ["0", "1", "2", "3", "4", "8", "9"]


def test_a_checkpoint_of_a_query_over_files(spark, topics, stream, tmp_path):
    """The message that the user sees, once, inside Spark's error for Python sources."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one.txt").write_text("a line")
    run(spark.readStream.text(str(tmp_path / "files")), tmp_path / "checkpoint", lambda *_: None)
    with pytest.raises(StreamingQueryException) as raised:
        run(stream(topics.create()), tmp_path / "checkpoint", Collected())
    assert str(raised.value).count("the checkpoint is of a query over something else") == 1
    assert "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR" in str(raised.value)


def test_a_running_query_reads_new_records(spark, topics, stream, tmp_path):
    topic = topics.create()
    query = (
        stream(topic)
        .selectExpr("cast(value as string) value")
        .writeStream.format("memory")
        .queryName("live")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        for expected in (["a"], ["a", "b"], ["a", "b", "c"]):
            topic.produce(expected[-1])
            query.processAllAvailable()
            assert [row.value for row in spark.table("live").collect()] == expected
    finally:
        query.stop()


def test_a_killed_worker_is_a_retry(spark, topics, bootstrap, tmp_path):
    """The reading worker is killed in the middle of its first range."""
    topic = topics.create()
    topic.produce(*range(1000))
    spark.dataSource.register(killed_once.KilledOnce)
    frame = (
        spark.readStream.format("killed-once")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
        .option("marker", str(tmp_path / "killed"))
        .load()
    )
    found = Collected()
    run(frame, tmp_path / "checkpoint", found)
    assert (tmp_path / "killed").exists()
    assert found.all == [str(n) for n in range(1000)]


def test_a_stream_from_a_timestamp(topics, stream, tmp_path):
    """The time applies to the first run; later runs start from the checkpoint."""
    topic = topics.create(2)
    for n in range(10):
        topic.produce(n, partition=n % 2, timestamp=1_000_000 + n * 1000)
    given = {
        "startingTimestamp": 1_006_000,
        "startingOffsetsByTimestamp": f'{{"{topic.name}": {{"0": 1000000, "1": 1009000}}}}',
    }
    for strongest, expected in (
        ("startingTimestamp", ["6", "8", "7", "9"]),
        ("startingOffsetsByTimestamp", ["0", "2", "4", "6", "8", "9"]),
    ):
        found = Collected()
        frame = stream(topic, startingOffsets="latest", **given)
        run(frame, tmp_path / strongest, found)
        assert found.all == expected
        del given[strongest]


def test_a_restart_of_a_stream_from_a_timestamp(topics, stream, tmp_path):
    topic = topics.create()
    topic.produce("before", timestamp=1_000_000)
    topic.produce("after", timestamp=1_001_000)
    found = Collected()
    run(stream(topic, startingTimestamp=1_000_500), tmp_path, found)
    topic.produce("old but new", timestamp=1_000_000)
    run(stream(topic, startingTimestamp=1_000_500), tmp_path, found)
    assert found.all == ["after", "old but new"]


def test_a_stream_with_headers(topics, stream, tmp_path):
    topic = topics.create()
    topic.produce("none")
    topic.produce("some", headers=[("a", b"1"), ("a", None), ("b", b"")])
    found: list[Any] = []

    def keep(frame, batch_id):
        rows = frame.orderBy("offset").collect()
        found.extend(None if r.headers is None else [tuple(h) for h in r.headers] for r in rows)

    run(stream(topic, includeHeaders=True), tmp_path, keep)
    assert found == [None, [("a", b"1"), ("a", None), ("b", b"")]]


def test_a_micro_batch_is_split_into_the_configured_tasks(topics, stream, tmp_path):
    topic = topics.create(3)
    for partition in range(3):
        topic.produce(*range(20), partition=partition)
    tasks: list[int] = []
    found: list[int] = []

    def keep(frame, batch_id):
        tasks.append(frame.rdd.getNumPartitions())
        found.extend(map(int, values(frame)))  # type: ignore[arg-type]

    run(stream(topic, minPartitions=5), tmp_path / "many", keep)
    run(stream(topic), tmp_path / "one", keep)
    assert tasks == [5, 1]
    assert found == [*range(20)] * 6
