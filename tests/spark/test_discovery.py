"""A session finds the data source by its name, without a registration."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_a_session_without_a_registration_finds_the_format(
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
