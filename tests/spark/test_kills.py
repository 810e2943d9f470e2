"""Queries whose processes are killed at each point of a micro-batch and restarted: no record is
lost, and duplicates have headers that identify them. `tests/soak/spark_kills.py` kills at random
points.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from cli.processes import Up
from odradek.spark import register
from odradek.spark.initial_offsets import DIRECTORY
from odradek.testing.ports import reserve_ports
from spark import killed_at, killed_driver
from spark.conftest import Topics
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


def test_a_driver_killed_at_any_point_keeps_its_start_and_its_batches(topics, bootstrap, tmp_path):
    """From `latest`, Python and the JVM die: with the first micro-batch, which only stores the
    start, logged and not committed; when one with records is logged and not planned; when it is
    read and written, and not committed. Records are produced before the next driver starts.
    """
    topic = topics.create()
    topic.produce("before")

    def driver(point):
        program = str(Path(killed_driver.__file__))
        command = [sys.executable, program, bootstrap, topic.name, str(tmp_path), point]
        # It imports helpers by their path below tests/.
        path = os.pathsep.join([str(Path(program).parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}
        return subprocess.run(command, capture_output=True, check=False, env=environment)

    def logged(directory):
        return {path.name for path in (tmp_path / "checkpoint" / directory).glob("[0-9]")}

    def batches():
        return {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}

    for point, offsets, commits, found in (
        ("each", {"0"}, set(), {}),
        ("planning", {"0", "1"}, {"0"}, {"0": []}),
        ("written", {"0", "1"}, {"0"}, {"0": [], "1": ["each"]}),
    ):
        assert driver(point).returncode == -signal.SIGKILL
        assert (logged("offsets"), logged("commits")) == (offsets, commits)
        assert batches() == found
        topic.produce(point)
    (tmp_path / "1.json").unlink()
    ended = driver("")
    assert ended.returncode == 0, ended.stderr
    assert batches() == {"0": [], "1": ["each"], "2": ["planning", "written"]}


def test_a_broker_killed_before_the_planned_tasks_read(spark, killed, tmp_path):
    """They wait for the next one."""
    data, port = str(tmp_path / "data"), str(reserve_ports(1)[0])
    found = Collected()
    with Up("--data-dir", data, "--port", port) as broker:
        topic = Topics(broker.bootstrap).create()
        topic.produce(*range(100))
        options = {**killed("planned"), "kafka.bootstrap.servers": broker.bootstrap}
        reader = spark.readStream.format("killed-at").options(**options, pids=broker.process.pid)
        frame = reader.options(subscribe=topic.name, startingOffsets="earliest").load()
        writing = frame.writeStream.foreachBatch(found).trigger(availableNow=True)
        query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert broker.process.wait() == -signal.SIGKILL
    with Up("--data-dir", data, "--port", port):
        query.awaitTermination()
    assert found.batches == {0: [str(number) for number in range(100)]}


def test_what_changes_after_death_is_a_loss_that_is_reported(spark, topics, killed, tmp_path):
    """The source dies with its first micro-batch logged and its start kept in a file; then other
    topics are asked for, or the file is gone. It dies with a new partition logged; then that is
    trimmed."""
    topic, other = topics.create(), topics.create()
    topic.produce("before")
    found = Collected()
    checkpoint = tmp_path / "checkpoint"
    kept, aside = checkpoint / DIRECTORY, tmp_path / "aside"

    def run_once(*points, **options):
        given = {"subscribe": topic.name, "startingOffsets": "latest", **options}
        given["checkpointLocation"] = str(checkpoint)
        reader = spark.readStream.format("killed-at").options(**killed(*points), **given)
        run(reader.load(), checkpoint, found)

    def die(*points):
        with pytest.raises(StreamingQueryException):
            run_once(*points)
        assert all((tmp_path / "markers" / point).exists() for point in points)

    die("latestOffset")
    topic.produce("a", "b")
    die("planning")
    not_kept = "where it began was not kept"
    with pytest.raises(StreamingQueryException, match=not_kept):
        run_once(subscribe=f"{topic.name},{other.name}")
    kept.rename(aside)
    with pytest.raises(StreamingQueryException, match=not_kept):
        run_once()
    shutil.rmtree(kept)
    aside.rename(kept)
    run_once()
    assert found.batches == {0: ["a", "b"]}

    topic.add_partitions(2)
    topic.produce(*range(5), partition=1)
    (tmp_path / "markers" / "planning").unlink()
    die("planning")
    topic.delete_records(3, partition=1)
    with pytest.raises(StreamingQueryException, match=f"{topic.name}-1 was added .* starts at 3"):
        run_once()
    run_once(failOnDataLoss=False)
    assert found.all == ["a", "b", "3", "4"]


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
