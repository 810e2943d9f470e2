"""Schemas given by the user, and the format in SQL."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.reading import values


def test_the_sources_own_schema_may_be_given(spark, topics, bootstrap, read):
    topic = topics.create()
    topic.produce("v", headers=[("h", b"1")])
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic.name}
    for include in (False, True):
        schema = read(topic, includeHeaders=include).schema
        reader = spark.read.format("odradek").schema(schema).options(**options)
        frame = reader.option("includeHeaders", include).load()
        assert frame.columns == schema.names
        assert values(frame) == ["v"]


@pytest.mark.parametrize("given", ["a int", "key binary, value string", "key binary"])
def test_another_schema_is_refused_with_advice(spark, bootstrap, given):
    reader = spark.read.format("odradek").schema(given).option("subscribe", "t")
    frame = reader.option("kafka.bootstrap.servers", bootstrap).load()
    with pytest.raises(PySparkException) as refused:
        frame.collect()
    message = str(refused.value)
    assert f"schema('{given}') cannot change the columns of the odradek source" in message
    assert "key binary, value binary, topic string, partition int, offset bigint" in message
    assert f"valueFormat=json and valueSchema='{given}'" in message
    assert f"from_json(cast(value as string), '{given}')" in message


def test_another_schema_of_a_stream_is_refused(spark, bootstrap):
    reader = spark.readStream.format("odradek").schema("a int").option("subscribe", "t")
    frame = reader.option("kafka.bootstrap.servers", bootstrap).load()
    query = frame.writeStream.format("noop").start()
    with pytest.raises(PySparkException, match=r"schema\('a int'\) cannot change the columns"):
        query.awaitTermination()


@pytest.fixture
def sql(spark: SparkSession, bootstrap: str):
    """Return `sql(text)`, which replaces `{bootstrap}`."""

    def run(text: str):
        return spark.sql(text.format(bootstrap=f"`kafka.bootstrap.servers` '{bootstrap}'"))

    return run


def test_a_temporary_view_is_read_and_inserted_into(sql, spark, topics):
    topic = topics.create(2)
    topic.produce("first", partition=1)
    sql(
        "CREATE OR REPLACE TEMPORARY VIEW letters USING odradek "
        f"OPTIONS ({{bootstrap}}, subscribe '{topic.name}', topic '{topic.name}')"
    )
    sql("INSERT INTO letters (key, value, partition) VALUES (X'6B', X'76', 0), (NULL, NULL, 0)")
    found = sql("SELECT key, value FROM letters WHERE partition = 0").collect()
    assert {tuple(row) for row in found} == {(b"k", b"v"), (None, None)}
    assert values(spark.table("letters"))[-1] == "first"
    spark.catalog.dropTempView("letters")


def test_a_frame_or_view_shows_the_topic_as_of_its_first_query(sql, spark, topics, read):
    """PySpark keeps the planned read. If this fails, it no longer does: then change the page of
    options."""
    topic = topics.create()
    topic.produce("a")
    view = (
        "CREATE OR REPLACE TEMPORARY VIEW snapshot USING odradek "
        f"OPTIONS ({{bootstrap}}, subscribe '{topic.name}')"
    )
    sql(view)
    frame = read(topic)
    assert (frame.count(), spark.table("snapshot").count()) == (1, 1)
    topic.produce("b")
    assert (frame.count(), spark.table("snapshot").count()) == (1, 1)
    sql(view)
    assert (read(topic).count(), spark.table("snapshot").count()) == (2, 2)
    spark.catalog.dropTempView("snapshot")


@pytest.fixture
def table(sql, spark):
    """A table of the catalog; Spark does not keep its options for queries."""
    sql("CREATE TABLE kept USING odradek OPTIONS ({bootstrap}, subscribe 'nothing')")
    yield "kept"
    sql("DROP TABLE kept")


def test_a_table_gets_its_options_with_the_query(spark, table, topics, bootstrap):
    topic = topics.create()
    topic.produce("a")
    servers = f"`kafka.bootstrap.servers` = '{bootstrap}'"
    spark.sql(
        f"INSERT INTO {table} WITH ({servers}, topic = '{topic.name}') (value) VALUES (X'62')"
    )
    found = spark.sql(f"SELECT value FROM {table} WITH ({servers}, subscribe = '{topic.name}')")
    assert [row.value for row in found.collect()] == [b"a", b"b"]


def test_a_table_without_options_reports_where_they_go(spark, table):
    with pytest.raises(PySparkException) as refused:
        spark.table(table).collect()
    assert "kafka.bootstrap.servers is missing" in str(refused.value)
    assert "Spark drops the OPTIONS of a CREATE TABLE" in str(refused.value)
    assert "CREATE TEMPORARY VIEW ... USING odradek OPTIONS" in str(refused.value)
