"""The driver of exactly-once soak runs: one streaming query at a time, from a topic to another one.

It reads jobs from stdin, one JSON object a line, and runs the query of each until the file `finish`
is in the job's directory. The query goes on from its checkpoint in any process that gets the job;
`spark_exactly_once` starts these processes, and kills them.

Rows are spread over tasks by chance and carry the spread in their value, so a micro-batch that is
replayed is cut differently and has other contents. The data source `points` does something at named
points, once for each file `arm-<point>` that it finds in the directory. At most of them a process
ends by SIGKILL:

    unacknowledged, acknowledged       a task worker: before its rows are sent; before Spark is told
    ShutOutOlderDrivers … FenceLosers  the driver, before an effect of `exactly_once.steps`
    half ended                         the driver, when half of the transactions are ended
    committed                          the driver, before Spark's commit log has the micro-batch
    executors                          all executors, when all tasks are done and nothing is decided
    both attempts                      nobody: a task waits, its rows written, for a speculative
                                       attempt beside it; then both go on at once

Each attempt that has written its rows adds a line to the file `attempts`.
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
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from odradek.spark import cluster_session, local_session
from odradek.spark.commit_protocol import BATCH_ID_PROPERTY
from odradek.spark.exactly_once.driver import BatchDriver
from odradek.spark.exactly_once.steps import EndTransactions, SinkBatch, Steps
from odradek.spark.options import write_options
from odradek.spark.source import OdradekSource
from odradek.spark.writer import StreamWriter

# Workers cannot import the tests: the classes travel with the task.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

POLL_S = 0.05
TASKS = 3
BOTH_S = 20
"""How long a task waits for a speculative attempt beside it."""
TOGETHER_S = 0.05
"""How long before they go on both have seen each other."""
EXECUTOR = "CoarseGrainedExecutorBackend"
WORKERS = ("pyspark.daemon", "pyspark.worker")
"""What executors are in a local session: Python processes."""


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
        for pid, line in command_lines():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) == session and "org.apache.spark.deploy.SparkSubmit" in line:
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(session, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def kill_executors(self, application: str) -> None:
        """End the executors of an application; of a local session, the workers of tasks."""
        if not self.is_armed("executors"):
            return
        session = os.getsid(0)
        for pid, line in command_lines():
            with contextlib.suppress(ProcessLookupError):
                is_executor = EXECUTOR in line and application in line
                is_worker = os.getsid(pid) == session and any(name in line for name in WORKERS)
                if is_executor or (application.startswith("local") and is_worker):
                    os.kill(pid, signal.SIGKILL)

    def attempt_ended(self) -> None:
        """Note that an attempt has written all rows, and wait for one beside it if so armed."""
        context = TaskContext.get()
        assert context is not None
        place = f"{context.getLocalProperty(BATCH_ID_PROPERTY)}-{context.partitionId()}"
        with (self.directory / "attempts").open("a") as log:
            log.write(f"{place} {context.stageId()} {context.attemptNumber()}\n")
        wanted, came = self.directory / f"both-{place}", self.directory / f"came-{place}"
        if wanted.exists():
            at_once = time.time() + TOGETHER_S
            draft = came.with_suffix(".draft")
            draft.write_text(str(at_once))
            draft.rename(came)
        elif self.is_armed("both attempts"):
            wanted.touch()
            deadline = time.monotonic() + BOTH_S
            while not came.exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            wanted.unlink()
            at_once = float(came.read_text()) if came.exists() else 0
        else:
            return
        while time.time() < at_once:  # To the microsecond: Spark may deny one of them its commit.
            pass


def command_lines() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            yield int(entry.name), (entry / "cmdline").read_text()


def dying(points: Points, running: Steps, application: str) -> Steps:
    """The steps of a driver, which may die before each effect."""
    result: Any = None
    points.kill_executors(application)
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

    def __init__(self, points: Points, application: str) -> None:
        self.points = points
        self.application = application
        self.run = BatchDriver.run

    def __call__(self, driver: BatchDriver, batch: SinkBatch, running: Steps) -> None:
        self.run(driver, batch, dying(self.points, running, self.application))


class PointsWriter(StreamWriter):
    def __init__(self, options: Any, schema: Any, points: Points, application: str) -> None:
        super().__init__(options, schema)
        self.points = points
        self.application = application

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        written = super().write(self.at_hand(iterator))
        self.points.kill_task("acknowledged")
        self.points.attempt_ended()
        return written

    def at_hand(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.points.kill_task("unacknowledged")
            yield batch

    def commit(self, messages: Any, batchId: int) -> None:
        dying_run = DyingDriver(self.points, self.application)
        plain = BatchDriver.run
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
        points, application = Points(given.pop("points")), given.pop("application")
        return PointsWriter(write_options(given, streaming=True), schema, points, application)


def say(what: str, **more: Any) -> None:
    print(json.dumps({"what": what, "at": time.strftime("%X"), **more}), flush=True)


def start(spark: SparkSession, job: dict[str, Any]) -> StreamingQuery:
    source = spark.readStream.format("odradek").options(
        **{"kafka.bootstrap.servers": job["bootstrap"]},
        subscribe=job["input"],
        startingOffsets="earliest",
        maxOffsetsPerTrigger="5000",
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
            application=spark.sparkContext.applicationId,
            checkpointLocation=job["directory"] + "/checkpoint",
        )
        .trigger(processingTime="0 seconds")
        .start()
    )


def session(given: dict[str, Any]) -> SparkSession:
    if given["master"].startswith("spark:"):
        return cluster_session(given["master"], "soak", config=given["config"])
    return local_session(
        "soak",
        master=given["master"],
        quick_start=True,
        log_file=Path(given["log"]),
        config=given["config"],
    )


def work(spark: SparkSession, job: dict[str, Any]) -> None:
    """Run the query of a job until it is to finish."""
    directory = Path(job["directory"])
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
    say("finished", directory=str(directory))


def main(given: dict[str, Any]) -> None:
    spark = session(given)
    spark.dataSource.register(PointsSource)
    say("ready", application=spark.sparkContext.applicationId)
    for line in sys.stdin:
        work(spark, json.loads(line))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
