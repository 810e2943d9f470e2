"""The source and the sink through a Spark Connect server: the client has neither Spark nor a JVM,
and brings an archive with its session, for batches. The server has one for streams: unpacked in its
working directory, to plan, and for its executors. Their hosts have no Odradek.

Spark unpacks an archive of the server three times, and one of a session three times for each
session and each of its streams. So both have only links into the one that is unpacked here; that
executors run what they have unpacked themselves is seen in `test_by_master`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cluster.jobs import Records, round_trips
from cluster.packed import VERSION, Packed, linked_environment
from cluster.standalone import EXECUTORS, Cluster
from odradek.spark import check_workers, cluster_session


@pytest.fixture(scope="module")
def spark(cluster: Cluster, packed: Packed, home: Path) -> Iterator[SparkSession]:
    environment = cluster.directory / "environment"
    environment.mkdir()
    subprocess.run(["tar", "-xzf", packed.archive, "-C", environment], check=True)
    packages = environment / "lib" / VERSION / "site-packages"
    links = linked_environment(home, "linked", packages)
    server, address = cluster.start_connect_server(
        cluster.url,
        {**EXECUTORS, "spark.archives": f"{links}#environment"},
        PYSPARK_PYTHON="./environment/bin/python",
    )
    session = cluster_session(f"sc://{address}", archive=links)
    yield session
    session.stop()
    server.stop()
    shutil.rmtree(environment)


def test_batch_and_stream_go_in_and_out(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    round_trips(spark, Records(bootstrap), tmp_path / "checkpoint")


def test_the_workers_of_a_session_can_be_asked(
    spark: SparkSession, cluster: Cluster, bootstrap: str
) -> None:
    workers = check_workers(spark, bootstrap)
    assert [(worker.problems, worker.brokers) for worker in workers] == [([], "reached")] * 2
    works = {Path(w.executable).relative_to(cluster.directory).parts[0] for w in workers}
    assert works == {"work-0", "work-1"}
