"""The source, the sink and the demo with executors in JVMs of their own, by the master's URL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pyarrow
import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cluster.jobs import Records, round_trips
from cluster.packed import Packed, linked_environment
from cluster.standalone import EXECUTORS, SPARK_HOME, Cluster
from odradek import leaves
from odradek.demo import flights, pipeline, reference, replay
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC, REJECTED_TOPIC, Locations
from odradek.demo.proof import open_consumer, prove
from odradek.spark import check_workers, cluster_session, register
from odradek.spark.workers import reason_of

FLIGHTS = 3000


@pytest.fixture(scope="module")
def spark(cluster: Cluster, packed: Packed, home: Path) -> Iterator[SparkSession]:
    """Its executors also unpack two poorer environments, which the driver has no lack of."""
    archives = [f"{packed.archive}#environment"]
    for name, packages in (("without_odradek", (pyarrow, numpy)), ("without_arrow", ())):
        archives.append(f"{poor_environment(home, name, packages)}#{name}")
        (home / name).symlink_to(sys.prefix)
    config = {**EXECUTORS, "spark.archives": ",".join(archives)}
    os.environ["SPARK_HOME"] = str(SPARK_HOME)  # `home` sets it back.
    session = cluster_session(cluster.url, "tests", archive=packed.archive, config=config)
    yield session
    session.stop()
    # The next context of this process gets a JVM of its own, without the settings of this one.
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


def poor_environment(directory: Path, name: str, packages: tuple[object, ...]) -> Path:
    """An archive with nothing but links to Python and to these packages."""
    site = directory / f"{name}-packages"
    site.mkdir()
    for package in packages:
        folder = Path(package.__file__).parent  # type: ignore[attr-defined]
        for found in (folder, folder.with_name(f"{folder.name}.libs")):
            if found.exists():
                (site / found.name).symlink_to(found)
    return linked_environment(directory, name, site)


@pytest.fixture
def records(bootstrap: str) -> Records:
    return Records(bootstrap)


def test_every_worker_has_what_it_takes_out_of_the_archive(
    spark: SparkSession, cluster: Cluster, bootstrap: str
) -> None:
    """The interpreter behind it has no Odradek: its own packages are another matter."""
    workers = check_workers(spark, bootstrap)
    assert [worker.problems for worker in workers] == [[], []]
    works = {Path(w.executable).relative_to(cluster.directory).parts[0] for w in workers}
    assert works == {"work-0", "work-1"}
    assert {worker.leaves for worker in workers} == {leaves.mode()}
    assert {worker.brokers for worker in workers} == {"reached"}
    bare = os.path.realpath(workers[0].executable)
    tried = subprocess.run([bare, "-c", "import odradek"], env={}, capture_output=True, check=False)
    assert b"No module named 'odradek'" in tried.stderr


def test_batch_and_stream_go_in_and_out(spark: SparkSession, records: Records, home: Path) -> None:
    round_trips(spark, records, home / "checkpoint")


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (
            "without_odradek",
            r"Odradek .* cannot run in Python .*without_odradek.* on host .*odradek",
        ),
        ("without_arrow", r"pyarrow"),
    ],
)
def test_a_part_that_an_executor_lacks_is_named(
    spark: SparkSession,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
    environment: str,
    reason: str,
) -> None:
    topic = records.topic("lacking")
    records.produce(topic, ["one"])
    monkeypatch.setattr(spark.sparkContext, "pythonExec", f"./{environment}/bin/python")
    register(spark)
    try:
        with pytest.raises(PySparkException) as failed:
            records.read(spark, topic).collect()

        assert re.search(reason, reason_of(failed.value)), failed.value
        problems = {problem for worker in check_workers(spark) for problem in worker.problems}
        assert any(problem.startswith("odradek is missing") for problem in problems)
    finally:
        monkeypatch.undo()
        register(spark)


def test_another_python_on_the_executors_is_one_sentence(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
    with pytest.raises(PySparkException) as failed:
        check_workers(spark)
    said = reason_of(failed.value)
    assert said.startswith("[PYTHON_VERSION_MISMATCH] Python in worker has different version")
    assert "3.9" in said


def test_the_demo_proves_itself(spark: SparkSession, bootstrap: str, home: Path) -> None:
    replay.create_topics(bootstrap, {FLIGHTS_TOPIC: 4, REJECTED_TOPIC: 1, DELAYS_TOPIC: 4})
    sent = replay.replay(
        bootstrap, FLIGHTS_TOPIC, flights.events(FLIGHTS), progress=lambda done: None
    )
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    locations = Locations(bootstrap, home)
    airlines = pipeline.airlines_table(spark)

    def checked(query: str):
        records = pipeline.read_flights(spark, locations, query)
        return pipeline.check(pipeline.parse(records), airlines)

    delays = pipeline.start_delays(checked("delays"), locations, False)
    rejected = pipeline.start_rejected(checked("rejected"), locations, False)
    for query in (delays, rejected):
        query.awaitTermination()
    with open_consumer(bootstrap) as consumer:
        proof = prove(
            consumer, home / "delays", reference.compute(sent), pipeline.late_rows(delays)
        )
    assert sent == FLIGHTS
    assert proof.holds
