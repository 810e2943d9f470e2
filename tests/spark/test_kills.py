"""Queries whose processes are killed at each point of a micro-batch and restarted: no record is
lost, and duplicates have headers that identify them. `tests/soak/spark_kills.py` kills at random
points.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from odradek.spark import register
from spark import killed_at, killed_driver
from spark.test_stream import Collected, run


@pytest.fixture
def killed(spark, bootstrap, tmp_path):
    """Return options of a source or sink that dies once at each of these points."""
    spark.dataSource.register(killed_at.KilledAt)

    def options(*points):
        markers = tmp_path / "markers"
        markers.mkdir(exist_ok=True)
        return {
            "kafka.bootstrap.servers": bootstrap,
            "markers": str(markers),
            "points": ",".join(points),
        }

    return options


def deaths_until_finished(writing, checkpoint, markers, after_death=lambda: None):
    """Restart a query over the present records until it finishes; return how often a killed process
    made it fail.
    """
    writing = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    deaths = 0
    while True:
        before = set(markers.iterdir())
        try:
            writing.start().awaitTermination()
        except StreamingQueryException:
            if set(markers.iterdir()) == before:
                raise
        else:
            return deaths
        deaths += 1
        after_death()


@pytest.mark.parametrize("starting", ["latest", "earliest"])
def test_a_source_killed_at_any_point_reads_each_record_once(
    spark, topics, killed, tmp_path, starting
):
    """It dies at each point in its first micro-batches, and again in later ones; a record is
    produced after each death.
    """
    topic = topics.create()
    topic.produce("before")
    found = Collected()
    checkpoint, markers = tmp_path / "checkpoint", tmp_path / "markers"
    expected = ["before"] if starting == "earliest" else []

    def produce(value):
        topic.produce(value)
        # From `latest`: the query began when its first micro-batch was logged.
        if starting == "earliest" or (checkpoint / "offsets" / "0").exists():
            expected.append(value)

    def deaths(*points):
        reader = spark.readStream.format("killed-at").options(**killed(*points))
        frame = reader.options(subscribe=topic.name, startingOffsets=starting).load()
        writing = frame.writeStream.foreachBatch(found)
        return deaths_until_finished(writing, checkpoint, markers, lambda: produce("after"))

    assert deaths("initialOffset", "latestOffset", "partitions") == 3
    produce("between")
    for marker in markers.iterdir():
        marker.unlink()
    # A worker that dies is a retry of its task.
    assert deaths("latestOffset", "partitions", "read") == 2
    assert (markers / "read").exists()
    assert found.all == expected


def test_a_sink_killed_at_any_point_loses_nothing_and_headers_identify_copies(
    topics, stream, killed, tmp_path
):
    """Before and after the rows are acknowledged (two retries), and at the commit (a restart)."""
    source, target = topics.create(), topics.create()
    source.produce(*range(100))
    given = killed("unacknowledged", "acknowledged", "commit")
    writing = stream(source).select("value").writeStream.format("killed-at")
    writing = writing.options(**given, topic=target.name, replayHeaders=True)
    markers = tmp_path / "markers"
    assert deaths_until_finished(writing, tmp_path / "checkpoint", markers) == 1
    assert len(list(markers.iterdir())) == 3
    found = [(tuple(message.headers()), int(message.value())) for message in target.records()]
    # Written by the attempt that died when all was acknowledged, by the one after it, and again
    # after the restart.
    assert sorted(value for _, value in found) == sorted([*range(100)] * 3)
    assert sorted(value for _, value in set(found)) == [*range(100)]
    assert len({headers for headers, _ in found}) == 100


def test_a_driver_killed_before_its_first_commit_keeps_its_start(topics, bootstrap, tmp_path):
    """From `latest`: Python and the JVM die with the first micro-batch logged but not committed,
    and records are produced before the next driver starts.
    """
    topic = topics.create()
    topic.produce("before")

    def driver(deadly):
        program = str(Path(killed_driver.__file__))
        command = [sys.executable, program, bootstrap, topic.name, str(tmp_path), str(deadly)]
        # It imports helpers by their path below tests/.
        environment = {**os.environ, "PYTHONPATH": str(Path(program).parents[1])}
        return subprocess.run(command, capture_output=True, check=False, env=environment)

    assert driver(0).returncode == -signal.SIGKILL
    assert not list((tmp_path / "checkpoint" / "commits").iterdir())
    topic.produce("meanwhile")
    ended = driver(-1)
    assert ended.returncode == 0, ended.stderr
    assert [json.loads((tmp_path / f"{n}.json").read_text()) for n in (0, 1)] == [[], ["meanwhile"]]


def test_starting_queries_do_not_grow_shared_maps(spark, topics, stream, tmp_path):
    """The keys that Spark puts into a `HashMap` of the session when a stream starts are set before:
    two streams that start at once would corrupt it.
    """
    manager = spark._jsparkSession.sessionState().dataSourceManager()

    def environment():
        return set(manager.lookupDataSource("odradek").dataSourceCls().envVars())

    register(spark)
    before = environment()
    topic = topics.create()
    run(stream(topic), tmp_path, Collected())
    assert environment() == before
