"""Spark Declarative Pipelines, run by `spark-pipelines run`, with the format as source and sink."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.standalone import SPARK_HOME, Cluster
from odradek.spark.java import java_home

COMMAND = SPARK_HOME / "bin" / "spark-pipelines"
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}

SPECIFICATION = """\
name: copying
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""

TRANSFORMATIONS = """\
from pyspark import pipelines
from pyspark.sql import SparkSession

spark = SparkSession.active()
SERVERS = {{"kafka.bootstrap.servers": "{bootstrap}"}}
COMMITTED = {{**SERVERS, "kafka.isolation.level": "read_committed"}}
ONCE = {{**SERVERS, "delivery": "exactly_once"}}


@pipelines.table
def received():
    reader = spark.readStream.format("odradek").options(**COMMITTED)
    return reader.option("subscribe", "{source}").option("startingOffsets", "earliest").load()


pipelines.create_sink("target", "odradek", {{**ONCE, "topic": "{target}"}})


@pipelines.append_flow(target="target")
def sent():
    rows = spark.readStream.table("received")
    return rows.selectExpr("upper(cast(value as string)) value")
"""


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """A server of Spark Connect: the tables of a run are known to the next one."""
    settings = {**SETTINGS, "spark.sql.warehouse.dir": f"{tmp_path}/warehouse"}
    server, address = Cluster(tmp_path).start_connect_server(
        "local[2]", settings, PYSPARK_PYTHON=sys.executable
    )
    yield f"sc://{address}"
    server.stop()


@pytest.fixture
def run(tmp_path: Path, remote: str) -> Callable[[], None]:
    """Run the pipeline in `tmp_path`."""

    def command() -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        done = subprocess.run(
            [COMMAND, "run", "--remote", remote],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return command


def test_a_pipeline_copies_exactly_once_and_its_next_run_continues(
    topics, bootstrap, run, tmp_path
):
    source, target = topics.create(), topics.create()
    (tmp_path / "spark-pipeline.yml").write_text(
        SPECIFICATION.format(storage=(tmp_path / "storage").as_uri())
    )
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "copying.py").write_text(
        TRANSFORMATIONS.format(bootstrap=bootstrap, source=source.name, target=target.name)
    )
    source.produce("a", "b")
    run()
    assert target.committed() == [b"A", b"B"]
    source.produce("c")
    run()
    assert target.committed() == [b"A", b"B", b"C"]
