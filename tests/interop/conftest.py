"""Fixtures of the interop tests, each started once: Kafka's jars, a real node, a broker, Spark.

Without Java or Maven these tests fail and say so: a skipped comparison would look like a passed
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.apache_kafka import (
    GROUP_SETTINGS,
    ApacheKafka,
    KafkaMissing,
    class_path,
    tool,
)
from odradek.spark import local_session
from odradek.testing.broker import Broker

SPARK_POM = Path(__file__).with_name("spark-kafka-pom.xml")


@pytest.fixture(scope="session")
def jars(request: pytest.FixtureRequest) -> str:
    """Kafka's class path."""
    try:
        return class_path(request.config.cache.mkdir("apache-kafka"))
    except KafkaMissing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def kafka(jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A real Apache Kafka for the whole session."""
    try:
        with ApacheKafka(jars, tmp_path_factory.mktemp("apache-kafka")) as running:
            yield running
    except KafkaMissing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """This project's broker on disk, as node 1 like the real one."""
    settings = {
        "node.id": 1,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        **GROUP_SETTINGS,
    }
    with Broker(data_dir=tmp_path_factory.mktemp("odradek"), settings=settings) as running:
        yield running


@pytest.fixture
def run_tool(jars: str) -> Callable[..., str]:
    """`run_tool(main_class, *arguments, stdin="", check=True)`, which returns stdout."""

    def run(main: str, *arguments: str, stdin: str = "", check: bool = True) -> str:
        return tool(jars, main, *arguments, stdin=stdin, check=check)

    return run


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A local Spark with the JVM's Kafka connector, `format("kafka")`, and our data source."""
    try:
        jars = class_path(request.config.cache.mkdir("spark-kafka"), SPARK_POM)
    except KafkaMissing as missing:
        pytest.fail(str(missing), pytrace=False)
    session = local_session(
        "spark-kafka", quick_start=True, config={"spark.jars": jars.replace(":", ",")}
    )
    yield session
    session.stop()
