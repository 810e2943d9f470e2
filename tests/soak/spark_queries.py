"""The driver of a soak run: two streaming queries over one topic, which go on from their
checkpoints each time this program is started. `spark_kills` starts it, and kills it.

    topic ──► parquet   Spark's file sink, exactly once by its commit log
          └─► topic     with `replayHeaders`, at least once

One JSON object on stdout says each thing that happens. A query that fails is started again here.
When the file `finish` is there, both queries read to the end of the topic, what Spark finds in the
Parquet files is written to `found.arrow`, and the program ends.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from odradek.spark import cluster_session, local_session

POLL_SECONDS = 0.05
PARQUET, TOPIC = "parquet", "topic"
QUERIES = (PARQUET, TOPIC)


def say(what: str, **more: Any) -> None:
    print(json.dumps({"what": what, "at": time.strftime("%X"), **more}), flush=True)


class Queries:
    """Both, kept running."""

    def __init__(self, spark: SparkSession, job: dict[str, Any]) -> None:
        self.spark = spark
        self.job = job
        self.directory = Path(job["directory"])
        self.running: dict[str, StreamingQuery] = {}
        for name in QUERIES:
            self.start(name)

    def start(self, name: str) -> None:
        writing = self.to_parquet() if name == PARQUET else self.to_topic()
        self.running[name] = (
            writing.option("checkpointLocation", str(self.directory / f"checkpoint-{name}"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        say("started", query=name)

    def source(self) -> DataFrame:
        reader = self.spark.readStream.format("odradek")
        given = {
            "kafka.bootstrap.servers": self.job["bootstrap"],
            "subscribe": self.job["input"],
            "startingOffsets": self.job["starting"],
            "maxOffsetsPerTrigger": "2000",
        }
        return reader.options(**given).load()

    def to_parquet(self) -> Any:
        rows = self.source().selectExpr("partition", "offset", "cast(value as string) number")
        return rows.writeStream.format("parquet").option("path", str(self.directory / "parquet"))

    def to_topic(self) -> Any:
        writer = self.source().select("value").writeStream.format("odradek")
        given = {
            "kafka.bootstrap.servers": self.job["bootstrap"],
            "topic": self.job["output"],
            "replayHeaders": "true",
        }
        return writer.options(**given)

    def start_what_failed(self) -> None:
        for name, query in self.running.items():
            if not query.isActive:
                say("failed", query=name, error=str(query.exception()))
                self.start(name)

    def come_to_the_end(self) -> None:
        for name in QUERIES:
            while True:
                try:
                    self.running[name].processAllAvailable()
                    break
                except StreamingQueryException:
                    self.start_what_failed()
        for query in self.running.values():
            query.stop()

    def write_what_parquet_holds(self) -> None:
        found = self.spark.read.parquet(str(self.directory / "parquet")).toArrow()
        with pa.ipc.new_file(str(self.directory / "found.arrow"), found.schema) as writer:
            writer.write_table(found)


def session(job: dict[str, Any]) -> SparkSession:
    if not job["master"].startswith("local"):
        return cluster_session(job["master"], "soak", config=job["config"])
    return local_session(
        "soak",
        master=job["master"],
        quick_start=True,
        log_file=Path(job["directory"]) / "spark.log",
        config=job["config"],
    )


def main(job: dict[str, Any]) -> None:
    directory = Path(job["directory"])
    spark = session(job)
    say("ready", application=spark.sparkContext.applicationId)
    queries = Queries(spark, job)
    while not (directory / "finish").exists():
        queries.start_what_failed()
        time.sleep(POLL_SECONDS)
    queries.come_to_the_end()
    queries.write_what_parquet_holds()
    say("finished")
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
