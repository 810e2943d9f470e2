"""A checkpoint of Spark's own Kafka source continues with ours, and back, without loss or repeats.

Each query fails within a micro-batch: its offsets are in the log, its commit is not. The next
query, with the other source, must read exactly that batch again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

JVM, OURS = "kafka", "odradek"
PER_BATCH = 10

Batches = dict[int, list[int]]


@pytest.fixture
def run(ours: Broker, spark: SparkSession, tmp_path: Path) -> Callable[..., Batches]:
    """`run(source, topic, end_in=batch)`: what each micro-batch of a query had, up to the one in
    which its sink fails."""

    def query(source: str, topic: str, *, end_in: int | None = None) -> Batches:
        seen: Batches = {}

        def take(rows: DataFrame, batch: int) -> None:
            seen[batch] = sorted(int(row.value) for row in rows.select("value").collect())
            if batch == end_in:
                raise RuntimeError("the sink ends here")

        reader = spark.readStream.format(source).option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", ours.bootstrap)
        rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=PER_BATCH).load()
        writer = rows.writeStream.foreachBatch(take).trigger(availableNow=True)
        running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        if end_in is None:
            running.awaitTermination()
        else:
            with pytest.raises(StreamingQueryException, match="the sink ends here"):
                running.awaitTermination()
        return seen

    return query


def produce(broker: Broker, topic: str, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "logger": None})
    for number in range(first, last):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0


def new_topic(broker: Broker, name: str) -> str:
    client = AdminClient({"bootstrap.servers": broker.bootstrap, "logger": None})  # type: ignore[dict-item]
    client.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "-1"})])[name].result(30)
    return name


@pytest.mark.parametrize("sources", [(JVM, OURS), (OURS, JVM)], ids="-then-".join)
def test_a_checkpoint_continues_with_the_other_source_and_back(
    ours: Broker, run: Callable[..., Batches], sources: tuple[str, str]
) -> None:
    one, other = sources
    topic = new_topic(ours, f"checkpoint-{one}-{other}")
    produce(ours, topic, 0, 3 * PER_BATCH)
    first = run(one, topic, end_in=0)
    second = run(other, topic, end_in=2)
    assert second[0] == first[0] != []
    produce(ours, topic, 3 * PER_BATCH, 5 * PER_BATCH)
    third = run(one, topic)
    last = max(second)
    assert min(third) == last
    assert third[last] == second[last]
    produce(ours, topic, 5 * PER_BATCH, 6 * PER_BATCH)
    fourth = run(other, topic)
    assert min(fourth) == max(third) + 1
    everything = first | second | third | fourth
    found = [number for batch in everything.values() for number in batch]
    assert sorted(found) == list(range(6 * PER_BATCH))


def test_the_jvm_source_accepts_an_offset_with_a_topic_without_partitions(
    ours: Broker, run: Callable[..., Batches], tmp_path: Path
) -> None:
    topic = new_topic(ours, "checkpoint-empty-key")
    produce(ours, topic, 0, 4)
    assert run(OURS, topic) == {0: [0, 1, 2, 3]}
    logged = tmp_path / "checkpoint" / "offsets" / "0"
    *head, offset = logged.read_text().split("\n")
    marked = json.dumps({"(a mark)": {}, **json.loads(offset)})
    logged.write_text("\n".join([*head, marked]))
    logged.with_name(".0.crc").unlink()
    produce(ours, topic, 4, 6)
    assert run(JVM, topic) == {1: [4, 5]}
    produce(ours, topic, 6, 8)
    assert run(OURS, topic) == {2: [6, 7]}
