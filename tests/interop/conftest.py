"""Fixtures of the interop tests, each started once: Kafka's jars, a real node, a broker, Spark.

Without Java or Maven these tests fail and say so: a skipped comparison would look like a passed
one. Only the programs of `client_programs` are skipped without their languages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from interop.apache_kafka import (
    GROUP_SETTINGS,
    ApacheKafka,
    KafkaMissing,
    class_path,
)
from interop.apache_kafka_cluster import ApacheKafkaCluster
from interop.tool_runner import ToolRunner
from odradek.spark import local_session
from odradek.testing.broker import Broker

SPARK_POM = Path(__file__).with_name("spark-kafka-pom.xml")
HERE = Path(__file__).parent
THREE_NODES = (
    "test_three_nodes_like_kafka",
    "test_prepared_transactions_like_kafka",
    "test_cluster_commands",
)
FIRST = (*THREE_NODES, "test_differential", "test_groups_of_kafka", "test_spark_")
"""What takes longest, so that no worker of pytest-xdist ends long after the others. The last one of
the three nodes takes a node away from the cluster that the others compare with.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        found = [n for n, name in enumerate(FIRST) if item.path.stem.startswith(name)]
        return found[0] if found else len(FIRST)

    here = [item for item in items if item.path.is_relative_to(HERE)]
    here.sort(key=place)
    items[:] = [item for item in items if not item.path.is_relative_to(HERE)] + here


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Runs a module in one worker, and in the same one those that share what is started for them:
    the three nodes of Kafka, and Spark.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = Path(nodeid.partition("::")[0]).stem
        if module.startswith(THREE_NODES):
            return "three nodes"
        return "Spark" if module.startswith("test_spark_") else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    return Together(config, log)


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
def three_kafkas(
    jars: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafkaCluster]:
    """Three nodes of Apache Kafka."""
    directory = tmp_path_factory.mktemp("three-kafkas")
    try:
        with ApacheKafkaCluster(jars, directory) as running:
            yield running
    except KafkaMissing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """This project's broker on disk, as node 1 like the real one."""
    settings = {
        "node.id": 1,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.replication.factor": 1,
        **GROUP_SETTINGS,
    }
    with Broker(data_dir=tmp_path_factory.mktemp("odradek"), settings=settings) as running:
        yield running


@pytest.fixture(scope="session")
def tools(jars: str) -> Iterator[ToolRunner]:
    with ToolRunner(jars) as runner:
        yield runner


@pytest.fixture
def run_tool(tools: ToolRunner) -> Callable[..., str]:
    """`run_tool(tool, *arguments, stdin="", check=True)`, which returns stdout."""

    def run(tool: str, *arguments: str, stdin: str = "", check: bool = True) -> str:
        ran = tools.run(tool, *arguments, stdin=stdin)
        assert not (check and ran.code), f"{tool} {arguments} ended with {ran}"
        return ran.out

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
