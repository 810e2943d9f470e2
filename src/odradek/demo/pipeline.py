"""The pipeline: Structured Streaming from the topic of flights to hourly delays and rejects.

    topic flights ─► parse ─► airline ─► check ─┬─► rejected ─► topic flights.rejected
                                                └─► accepted ─► watermark ─► hours ─┐
                                  topic flights.delays, Parquet delays/batch=N ◄────┘

Two queries, each with its own checkpoint, read the same topic. The aggregate runs in *update* mode:
every micro-batch writes the windows it changed, so the figures of an hour change while late flights
arrive. Each line replaces the earlier one of the same key (hour, origin, carrier): readers keep the
last by offset in the topic, by batch number in Parquet. A micro-batch that is run again after a
crash overwrites its own Parquet directory and repeats its own keys, so the result is the same.

A flight is as late in event time as it left, 21 h 41 min at worst in 2013; the watermark trails by
two days. Spark has one watermark over all partitions, and would read a backlog unevenly: after a
few batches a partition of carriers that fly mostly in winter is months ahead of the others, whose
flights then count as late and are dropped. So the source cuts its micro-batches at one record time
in all partitions (`maxTimestampSpanPerTrigger`). Spark counts the flights it dropped; `late_rows`
returns that count, and the proof fails unless it is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from odradek.demo import flights, rules

FLIGHTS_TOPIC = "flights"
REJECTED_TOPIC = "flights.rejected"
DELAYS_TOPIC = "flights.delays"
WATERMARK = "2 days"

FLIGHT = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
    sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string,
    dest string, air_time int, distance int, hour int, minute int, time_hour timestamp
"""
UNUSED = ("flight", "tailnum", "dest")
"""Fields that no rule and no result needs: they stay in the value and are not decoded."""
DECODED = ",".join(field for field in FLIGHT.split(",") if field.split()[0] not in UNUSED)
COLUMNS = {"delays": "data", "rejected": "key, value, data"}
"""The columns of the source that each query reads."""
NEVER_MISSING = ("year", "month", "day", "hour", "minute", "sched_dep_time", "sched_arr_time")
NEVER_MISSING_NAMES = ("carrier", "origin", "time_hour")


@dataclass(frozen=True, slots=True)
class Locations:
    """The addresses and directories that the pipeline reads and writes."""

    bootstrap: str
    directory: Path
    span: str = "122d"
    min_partitions: int = 2

    def checkpoint(self, query: str) -> str:
        return str(self.directory / "checkpoints" / query)

    @property
    def parquet(self) -> str:
        return str(self.directory / "delays")


def flights_options(locations: Locations) -> dict[str, str]:
    """Return the options to read a topic of flights from its beginning, decoded."""
    return {
        "kafka.bootstrap.servers": locations.bootstrap,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "valueFormat": "json",
        "valueSchema": DECODED,
    }


def read_flights(spark: SparkSession, locations: Locations, query: str) -> DataFrame:
    """Return the topic of flights as a stream, in time order over all partitions."""
    return (
        spark.readStream.format("odradek")
        .options(**flights_options(locations))
        .option("subscribe", FLIGHTS_TOPIC)
        .option("columns", COLUMNS[query])
        .option("maxTimestampSpanPerTrigger", locations.span)
        .option("minPartitions", str(locations.min_partitions))
        .option("checkpointLocation", locations.checkpoint(query))
        .load()
    )


def parse(records: DataFrame) -> DataFrame:
    """Turn decoded records into flights: the columns of `DECODED`, null if they cannot be decoded,
    and `event_time` (UTC)."""
    seconds = f.unix_seconds("time_hour") + f.col("minute") * 60
    flight = records.select("*", "data.*").drop("data")
    return flight.withColumn("event_time", f.timestamp_seconds(seconds))


def check(parsed: DataFrame, airlines: DataFrame) -> DataFrame:
    """Add `airline` and `reason`: why a flight is rejected, null if it is accepted (see
    `odradek.demo.rules`)."""
    named = parsed.join(f.broadcast(airlines), parsed.carrier == airlines.airline_carrier, "left")
    tests: list[tuple[str, Column]] = [
        (rules.UNREADABLE, missing(*NEVER_MISSING, *NEVER_MISSING_NAMES)),
        (rules.CALENDAR, calendar_disagrees()),
        (rules.UNKNOWN_AIRLINE, f.col("airline").isNull()),
        (rules.NO_DEPARTURE, missing("dep_time", "dep_delay")),
        (rules.NO_ARRIVAL, missing("arr_time")),
        (rules.NO_ARRIVAL_DELAY, missing("arr_delay", "air_time")),
        (rules.CLOCK, impossible_clock("dep_time", "sched_dep_time", "arr_time", "sched_arr_time")),
        (rules.TIMES, off_by("dep") | off_by("arr")),
        (rules.SPEED, impossible_speed()),
    ]
    reason = f.lit(None).cast("string")
    for name, applies in reversed(tests):
        reason = f.when(applies, f.lit(name)).otherwise(reason)
    return named.withColumn("reason", reason)


def missing(*fields: str) -> Column:
    return f.greatest(*[f.col(name).isNull() for name in (*fields, fields[0])])


def calendar_disagrees() -> Column:
    """True if the hours in UTC and in local time differ, or the scheduled time is another."""
    local = f.from_utc_timestamp("time_hour", rules.TIME_ZONE)
    zero = f.lit(0)
    stated = f.try_make_timestamp(
        f.col("year"), f.col("month"), f.col("day"), f.col("hour"), zero, zero
    )
    minute = f.col("hour") * 100 + f.col("minute") == f.col("sched_dep_time")
    return ~f.coalesce((local == stated) & minute, f.lit(False))


def impossible_clock(*fields: str) -> Column:
    bad = f.lit(False)
    for name in fields:
        value = f.col(name)
        bad = bad | ~value.between(1, 2400) | (value % 100 > 59)
    return bad


def minutes_of_day(field: str) -> Column:
    return f.col(field) - f.expr(f"{field} div 100") * 40


def off_by(which: str) -> Column:
    """True if scheduled time plus delay is not the actual time of day."""
    promised = minutes_of_day(f"sched_{which}_time") + f.col(f"{which}_delay")
    return f.pmod(promised - minutes_of_day(f"{which}_time"), f.lit(1440)) != 0


def impossible_speed() -> Column:
    distance, air_time = f.col("distance"), f.col("air_time")
    too_fast = distance * 60 > air_time * rules.FASTEST_MPH
    return f.coalesce(too_fast | (distance <= 0) | (air_time <= 0), f.lit(True))


def hourly_delays(checked: DataFrame) -> DataFrame:
    """Aggregate accepted flights by hour of scheduled departure, origin and carrier; delays in
    whole minutes."""
    late = f.when(f.col("arr_delay") >= rules.LATE_MINUTES, 1).otherwise(0)
    return (
        checked.filter(f.col("reason").isNull())
        .withWatermark("event_time", WATERMARK)
        .groupBy(f.window("event_time", "1 hour").alias("window"), "origin", "carrier", "airline")
        .agg(
            f.count("*").alias("flights"),
            f.sum(late).alias("late"),
            f.sum("dep_delay").alias("departure_delay"),
            f.sum("arr_delay").alias("arrival_delay"),
            f.max("arr_delay").alias("worst_arrival_delay"),
        )
        .withColumn("hour", f.col("window.start"))
        .drop("window")
    )


def start_rejected(checked: DataFrame, locations: Locations, live: bool) -> StreamingQuery:
    """Start the query of rejected flights: unchanged values, with the reason as a header."""
    reason = f.struct(f.lit("reason").alias("key"), f.encode("reason", "utf-8").alias("value"))
    rejected = checked.filter(f.col("reason").isNotNull()).select(
        "key", "value", f.array(reason).alias("headers")
    )
    writer = (
        rejected.writeStream.queryName("rejected")
        .format("odradek")
        .option("kafka.bootstrap.servers", locations.bootstrap)
        .option("topic", REJECTED_TOPIC)
        .option("checkpointLocation", locations.checkpoint("rejected"))
    )
    return start(writer, live)


def start_delays(checked: DataFrame, locations: Locations, live: bool) -> StreamingQuery:
    """Start the query of hourly delays, to the topic and to Parquet."""
    writer = (
        hourly_delays(checked)
        .writeStream.queryName("delays")
        .outputMode("update")
        .foreachBatch(delays_writer(locations))
        .option("checkpointLocation", locations.checkpoint("delays"))
    )
    return start(writer, live)


def start(writer: DataStreamWriter, live: bool) -> StreamingQuery:
    """Start a query. `live`: until it is stopped; else over the records that exist now."""
    if live:
        return writer.trigger(processingTime="0 seconds").start()
    return writer.trigger(availableNow=True).start()


def delays_writer(locations: Locations) -> Callable[[DataFrame, int], None]:
    """Return the function that writes each micro-batch of changed windows."""

    def write(changed: DataFrame, batch: int) -> None:
        changed.persist()
        try:
            changed.write.mode("overwrite").parquet(f"{locations.parquet}/batch={batch}")
            hour = f.date_format("hour", "yyyy-MM-dd'T'HH:mm:ss'Z'")
            named = f.struct(hour.alias("hour"), *[c for c in changed.columns if c != "hour"])
            (
                changed.select(
                    f.concat_ws("|", hour, "origin", "carrier").alias("key"),
                    f.to_json(named).alias("value"),
                )
                .write.format("odradek")
                .mode("append")
                .option("kafka.bootstrap.servers", locations.bootstrap)
                .option("topic", DELAYS_TOPIC)
                .save()
            )
        finally:
            changed.unpersist()

    return write


def late_rows(query: StreamingQuery) -> int:
    """Return the number of flights that Spark dropped as late, over the progress reports that it
    still has."""
    return sum(
        operator.numRowsDroppedByWatermark
        for progress in query.recentProgress
        for operator in progress.stateOperators
    )


def airlines_table(spark: SparkSession) -> DataFrame:
    """Return carriers and names. As Arrow they become part of the plan; Python workers would read
    rows of Python objects in every micro-batch."""
    airlines = flights.airlines()
    columns = {"airline_carrier": list(airlines), "airline": list(airlines.values())}
    return spark.createDataFrame(pa.table(columns))
