"""A session that was never told of the source finds it by its name."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_a_session_that_registered_nothing_knows_the_format(
    spark: SparkSession, topics, bootstrap: str
) -> None:
    topic = topics.create()
    topic.produce("found")
    other = spark.newSession()
    frame = (
        other.read.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic.name)
        .load()
    )
    assert [row.value for row in frame.collect()] == [b"found"]
