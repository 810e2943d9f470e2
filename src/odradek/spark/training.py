"""The training run of `class_archive`: small queries that load the classes of typical jobs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek import Admin, Producer
from odradek.spark.session import local_session, local_settings
from odradek.testing.broker import Broker

RECORDS = 200
SCHEMA = "id int, name string, at timestamp"


def train(archive: Path, exit_timeout_s: float) -> None:
    """Run the queries in a JVM that writes `archive` at its exit, and wait for its exit."""
    option = "spark.driver.extraJavaOptions"
    settings = local_settings(2, "1g", False, True)
    options = f"{settings[option]} -XX:ArchiveClassesAtExit={archive}"
    with tempfile.TemporaryDirectory(prefix="odradek-") as work, Broker() as broker:
        spark = local_session(
            "odradek training",
            quick_start=True,
            config={option: options, "spark.sql.warehouse.dir": f"{work}/warehouse"},
        )
        run_queries(spark, broker.bootstrap, Path(work))
        gateway = SparkContext._gateway
        spark.stop()
        assert gateway is not None
        # The JVM ends when its standard input does, and writes the archive then.
        gateway.proc.stdin.close()
        gateway.proc.wait(exit_timeout_s)


def run_queries(spark: SparkSession, bootstrap: str, work: Path) -> None:
    with Admin(brokers=bootstrap) as admin:
        for topic in ("in", "out"):
            admin.create_topic(topic, partitions=2)
    with Producer(brokers=bootstrap) as producer:
        for number in range(RECORDS):
            value = {"id": number, "name": f"n{number % 7}", "at": "2026-01-01T00:00:00Z"}
            producer.send("in", json.dumps(value).encode(), key=b"%d" % (number % 5))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "in"}
    plain = spark.read.format("odradek").options(**options).load()
    parsed = plain.select(f.from_json(plain.value.cast("string"), SCHEMA).alias("data"))
    parsed.groupBy("data.name").agg(f.count("*"), f.max("data.id")).collect()
    stream = (
        spark.readStream.format("odradek")
        .options(**options, startingOffsets="earliest", valueFormat="json", valueSchema=SCHEMA)
        .load()
    )
    names = spark.createDataFrame([("n1", "one")], "known string, text string")
    joined = stream.join(f.broadcast(names), stream["data.name"] == names.known, "left")
    counted = (
        joined.withWatermark("timestamp", "1 minute")
        .groupBy(f.window("timestamp", "1 minute"), "data.name", "text")
        .agg(f.count("*").alias("count"), f.sum("data.id").alias("sum"))
    )

    def write(changed: DataFrame, batch: int) -> None:
        changed.persist()
        changed.write.mode("overwrite").parquet(f"{work}/table/batch={batch}")
        rows = changed.select(f.to_json(f.struct("name", "count")).alias("value"))
        target = rows.write.format("odradek").mode("append")
        target.option("kafka.bootstrap.servers", bootstrap).option("topic", "out").save()
        changed.unpersist()

    queries = [
        counted.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", f"{work}/first")
        .trigger(availableNow=True)
        .start(),
        stream.select("key", "value")
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "out")
        .option("checkpointLocation", f"{work}/second")
        .trigger(availableNow=True)
        .start(),
    ]
    for query in queries:
        query.awaitTermination()
    spark.read.parquet(f"{work}/table").count()
