"""The driver of an exactly-once soak run: one streaming query from a topic to another one.

It goes on from its checkpoint each time this program is started; `spark_exactly_once` does so, and
kills it.

Rows are spread over tasks by chance and carry the spread in their value, so a micro-batch that is
replayed is cut differently and has other contents. The data source `points` ends processes by
SIGKILL at named points, once for each file `arm-<point>` that it finds:

    unacknowledged, acknowledged       a task worker: before its rows are sent; before Spark is told
    ShutOutOlderDrivers … FenceLosers  the driver, before an effect of `exactly_once.steps`
    half ended                         the driver, when half of the transactions are ended
    committed                          the driver, before Spark's commit log has the micro-batch
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from odradek.spark import cluster_session, local_session
from odradek.spark.exactly_once.driver import BatchDriver
from odradek.spark.exactly_once.steps import Batch, EndTransactions, Steps
from odradek.spark.java import java_home
from odradek.spark.options import write_options
from odradek.spark.source import OdradekSource
from odradek.spark.writer import StreamWriter

# Workers cannot import the tests: the classes travel with the task.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

POLL_S = 0.05
TASKS = 3


class Points:
    """The points that are armed by files in a directory."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def is_armed(self, name: str) -> bool:
        """True once for each time that the point was armed."""
        try:
            (self.directory / f"arm-{name}").unlink()
        except FileNotFoundError:
            return False
        return True

    def kill_task(self, name: str) -> None:
        if self.is_armed(name):
            os.kill(os.getpid(), signal.SIGKILL)

    def kill_driver(self, name: str) -> None:
        """End the JVM and the driver, whose session this process is in, and this process."""
        if not self.is_armed(name):
            return
        session = os.getsid(0)
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(entry.name)
                line = (entry / "cmdline").read_text()
                if os.getsid(pid) == session and "org.apache.spark.deploy.SparkSubmit" in line:
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(session, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def dying(points: Points, running: Steps) -> Steps:
    """The steps of a driver, which may die before each effect."""
    result: Any = None
    while True:
        try:
            effect = running.send(result)
        except StopIteration:
            return
        points.kill_driver(type(effect).__name__)
        if isinstance(effect, EndTransactions) and effect.commit:
            half = len(effect.transactions) // 2
            first = yield replace(effect, transactions=effect.transactions[:half])
            points.kill_driver("half ended")
            rest = yield replace(effect, transactions=effect.transactions[half:])
            result = [*first, *rest]
        else:
            result = yield effect


class DyingDriver:
    """`BatchDriver.run` with points to die at."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self.run = BatchDriver.run

    def __call__(self, driver: BatchDriver, batch: Batch, running: Steps) -> None:
        self.run(driver, batch, dying(self.points, running))


class PointsWriter(StreamWriter):
    def __init__(self, options: Any, schema: Any, points: Points) -> None:
        super().__init__(options, schema)
        self.points = points

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        written = super().write(self.at_hand(iterator))
        self.points.kill_task("acknowledged")
        return written

    def at_hand(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.points.kill_task("unacknowledged")
            yield batch

    def commit(self, messages: Any, batchId: int) -> None:
        dying_run, plain = DyingDriver(self.points), BatchDriver.run
        BatchDriver.run = lambda *given: dying_run(*given)  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            BatchDriver.run = plain  # type: ignore[method-assign]
        self.points.kill_driver("committed")


class PointsSource(OdradekSource):
    @classmethod
    def name(cls) -> str:
        return "points"

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        given = dict(self.options)
        points = Points(given.pop("points"))
        return PointsWriter(write_options(given, streaming=True), schema, points)


def say(what: str, **more: Any) -> None:
    print(json.dumps({"what": what, "at": time.strftime("%X"), **more}), flush=True)


def start(spark: SparkSession, job: dict[str, Any]) -> StreamingQuery:
    source = spark.readStream.format("odradek").options(
        **{"kafka.bootstrap.servers": job["bootstrap"]},
        subscribe=job["input"],
        startingOffsets="earliest",
        maxOffsetsPerTrigger="500",
    )
    number = F.col("value").cast("string")
    spread = source.load().select(number.alias("number")).repartition(TASKS, F.rand())
    value = F.concat_ws(":", "number", F.spark_partition_id(), F.rand())
    return (
        spread.select(value.alias("value"))
        .writeStream.format("points")
        .options(
            **{"kafka.bootstrap.servers": job["bootstrap"]},
            topic=job["output"],
            delivery="exactly_once",
            points=job["directory"],
            checkpointLocation=job["directory"] + "/checkpoint",
        )
        .trigger(processingTime="0 seconds")
        .start()
    )


def session(job: dict[str, Any]) -> SparkSession:
    if job["master"].startswith("spark:"):
        return cluster_session(job["master"], "soak", config=job["config"])
    if job["master"].startswith("local["):
        return local_session(
            "soak",
            master=job["master"],
            quick_start=True,
            log_file=Path(job["directory"]) / "spark.log",
            config=job["config"],
        )
    # local-cluster: executors as processes of this machine.
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(job["master"]).config("spark.ui.enabled", "false")
    return builder.config(map=job["config"]).getOrCreate()


def main(job: dict[str, Any]) -> None:
    directory = Path(job["directory"])
    spark = session(job)
    spark.dataSource.register(PointsSource)
    say("ready", application=spark.sparkContext.applicationId)
    query = start(spark, job)
    while True:
        if not query.isActive:
            say("failed", error=str(query.exception()))
            query = start(spark, job)
        if (directory / "finish").exists():
            try:
                query.processAllAvailable()
                break
            except Exception as error:
                say("failed while finishing", error=str(error)[:300])
        time.sleep(POLL_S)
    query.stop()
    say("finished")
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
