"""What is done on a cluster in each way of reaching it: reading and writing, batch and stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from odradek import Admin, Producer, read

PARTITIONS = 4


@dataclass(frozen=True)
class Records:
    """Topics of a broker, and their records as text."""

    bootstrap: str

    def topic(self, name: str) -> str:
        """A new one."""
        name = f"{name}-{uuid.uuid4().hex[:8]}"
        with Admin(brokers=self.bootstrap) as admin:
            admin.create_topic(name, partitions=PARTITIONS)
        return name

    def produce(self, topic: str, values: Iterable[str]) -> None:
        """Spread over the partitions."""
        with Producer(brokers=self.bootstrap, value="str") as producer:
            for number, value in enumerate(values):
                producer.send(topic, value, partition=number % PARTITIONS)

    def values(self, topic: str) -> list[str]:
        table = read(topic, brokers=self.bootstrap)
        return sorted(value.decode() for value in table["value"].to_pylist())

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        reader = spark.read.format("odradek").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", topic).option("minPartitions", PARTITIONS).load()

    def stream(self, spark: SparkSession, topic: str) -> DataFrame:
        reader = spark.readStream.format("odradek")
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def round_trips(spark: SparkSession, records: Records, checkpoint: Path) -> None:
    """Written in batch, read in batch; then a stream of two runs, from topic to topic."""
    first, second = records.topic("first"), records.topic("second")
    frame = spark.range(0, 1000, 1, 4).selectExpr("cast(id as string) value")
    to_broker = {"kafka.bootstrap.servers": records.bootstrap}
    frame.write.format("odradek").mode("append").options(**to_broker, topic=first).save()
    expected = sorted(str(number) for number in range(1000))
    found = records.read(spark, first).selectExpr("cast(value as string) value").collect()
    assert sorted(row.value for row in found) == expected

    def run() -> None:
        changed = records.stream(spark, first).selectExpr("key", "concat('<', value, '>') value")
        query = (
            changed.writeStream.format("odradek")
            .options(**to_broker, topic=second, checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None

    run()
    records.produce(first, ["more"])
    run()
    assert records.values(second) == sorted([f"<{value}>" for value in expected] + ["<more>"])
