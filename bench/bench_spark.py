"""The data source `odradek` beside Spark's own JVM connector, in one Spark session on one broker.

    python -m bench spark -- [--quick] [--only WORD]

Both read and write the same topics of one Odradek broker (`log.durability=os`), so what differs is
the source. Runs alternate, after both were warmed up; a row shows the medians, and the median of
the ratios of the pairs with the least and the greatest. CPU is that of the JVM and of the Python
workers together; a row of its own has the broker's with it. Every run is appended to
`bench/results/spark.jsonl`.

JSON topic -> typed columns: the flights of the demo by `valueFormat=json`, against `from_json` of
what the source `odradek` reads, and in a second row of what the JVM connector reads. There the
columns of the table are these, and those of `exactly / at least once` are our sink with the one and
the other delivery.

The start of a job takes some 0.2 s with both, so writes are of millions of rows, those of a stream
in four micro-batches. Raw rows of before 2026-11-24 18:30 UTC have a fifth to an eighth of them.

Latency is from producing a record to consuming what a streaming query with trigger "0 seconds" made
of it: from a topic that its sink of the same kind writes, or from the function of `foreachBatch`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import queue
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import broker_load as load
import raw_client
from cpu_below import CpuBelow
from odradek import leaves
from odradek.demo import flights
from odradek.demo.pipeline import FLIGHT
from odradek.spark import local_session
from odradek.spark.commit_protocol import Task
from odradek.spark.exactly_once.protocol import ExactlyOnce
from odradek.spark.options import write_options
from odradek.spark.task_writer import TaskWriter
from peers import ROOT, KafkaMissing, Odradek, class_path, cpu_s, pss_mib, started

RESULTS = Path(__file__).parent / "results" / "spark.jsonl"
POM = ROOT / "tests" / "interop" / "spark-kafka-pom.xml"
SOURCES = ("odradek", "kafka")
WARM_UP_RUNS = 6
"""After three, the JVM's compiler still took a third of a core in some of the runs that count."""
WARM_UP_STREAMS = 20
"""The same of micro-batches, whose planning the JVM compiles later: an eighth of the processor time
of both sources after six runs, a tenth after twenty."""
IDLE_SETTLE_S, IDLE_SECONDS = 8, 20
STREAM_BATCHES = 4
FILES_GONE_S = 2
"""Longer than a deleted topic keeps its files (`raw_client.DELETED_SOON`)."""
Figures = dict[str, float]


class Bench:
    """A broker, a Spark session that knows both sources, and what was measured."""

    def __init__(
        self, spark: SparkSession, broker: Odradek, cpu: CpuBelow, arguments: argparse.Namespace
    ) -> None:
        self.spark, self.broker = spark, broker
        self.cpu = cpu
        self.cpu_s = cpu.seconds
        self.bootstrap = f"127.0.0.1:{broker.port}"
        self.quick: bool = arguments.quick
        self.only: str = arguments.only
        self.pairs: int = 2 if self.quick else arguments.pairs
        self.run_id = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.table = Table(
            title=f"Spark {spark.version}, local[2], leaves {leaves.mode()}, {self.pairs} pairs"
        )
        for column in ("row", "unit", "odradek", "JVM connector", "ratio", "min - max"):
            self.table.add_column(column, justify="left" if column in ("row", "unit") else "right")

    def measure(
        self,
        row: str,
        units: dict[str, str],
        run: Callable[[str], Figures],
        sources: tuple[str, str] = SOURCES,
        warm_up: int = WARM_UP_RUNS,
        pairs: int | None = None,
    ) -> None:
        """Both sources in turn, `pairs` times, after `warm_up` runs that do not count."""
        if self.only not in row:
            return
        taken: dict[str, list[Figures]] = {source: [] for source in sources}
        for number in range(-warm_up, self.pairs if pairs is None else pairs):
            for source in sources:
                figures = run(source)
                if number >= 0:
                    taken[source].append(figures)
                    self.record(row, source, figures)
        for figure, unit in units.items():
            mine, theirs = ([each[figure] for each in taken[source]] for source in sources)
            ratios = [a / b if b else math.inf for a, b in zip(mine, theirs, strict=True)]
            self.table.add_row(
                row,
                unit,
                f"{statistics.median(mine):,.2f}",
                f"{statistics.median(theirs):,.2f}",
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f} - {max(ratios):.2f}",
            )

    def record(self, row: str, source: str, figures: Figures) -> None:
        line = {
            "run": self.run_id,
            "row": row,
            "source": source,
            "leaves": leaves.mode(),
            "spark": self.spark.version,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            **{name: round(value, 4) for name, value in figures.items()},
        }
        with RESULTS.open("a") as out:
            out.write(json.dumps(line) + "\n")
        shown = "  ".join(f"{name} {value:,.2f}" for name, value in figures.items())
        print(f"  {row}: {source} {shown}", file=sys.stderr)

    def read(self, source: str, topic: str) -> DataFrame:
        reader = self.spark.read.format(source).option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", topic).load()


def timed(bench: Bench, rows: int, work: Callable[[], object]) -> Figures:
    """Rows per second, and CPU for a million rows of everything below this process, without the
    broker and with it."""
    broker, cpu, start = cpu_s(bench.broker.pid), bench.cpu_s(), time.perf_counter()
    work()
    elapsed, cpu = time.perf_counter() - start, bench.cpu_s() - cpu
    broker = cpu_s(bench.broker.pid) - broker
    return {
        "rows_per_s": rows / elapsed,
        "cpu_s_per_million": cpu / rows * 1e6,
        "whole_cpu_s_per_million": (cpu + broker) / rows * 1e6,
    }


def timed_stream(bench: Bench, rows: int, query: StreamingQuery) -> Figures:
    """The same of a query until it ends, and its rows per second of its micro-batches alone."""
    figures = timed(bench, rows, query.awaitTermination)
    batches = [each for each in query.recentProgress if each.numInputRows]
    in_triggers_ms = sum(each.durationMs["triggerExecution"] for each in batches)
    return {**figures, "rows_per_s_in_triggers": rows / in_triggers_ms * 1e3}


RATES = {
    "rows_per_s": "rows/s",
    "cpu_s_per_million": "CPU s/million rows",
    "whole_cpu_s_per_million": "CPU s/million rows, broker's too",
}
STREAM_RATES = {**RATES, "rows_per_s_in_triggers": "rows/s within triggers"}


def reads(bench: Bench, size: int, rows: int) -> None:
    """A backlog read as a batch, to nowhere."""
    topic = load.new_topic(bench.broker)
    load.produce(bench.broker, size, rows, topic)

    def run(source: str) -> Figures:
        frame = bench.read(source, topic)
        return timed(bench, rows, lambda: frame.write.format("noop").mode("overwrite").save())

    bench.measure(f"batch read, {size} B", RATES, run)


def micro_batches(bench: Bench, size: int, rows: int, per_trigger: int) -> None:
    """The same backlog as a stream that ends where it ends now."""
    topic = load.new_topic(bench.broker)
    load.produce(bench.broker, size, rows, topic)

    def run(source: str) -> Figures:
        stream = (
            bench.spark.readStream.format(source)
            .option("kafka.bootstrap.servers", bench.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", per_trigger)
            .load()
        )
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as checkpoint:
            writer = stream.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", checkpoint).start()
            return timed_stream(bench, rows, query)

    row = f"micro-batches of {per_trigger:,} rows, {size} B"
    bench.measure(row, STREAM_RATES, run, warm_up=WARM_UP_STREAMS)


def record_columns(ids: DataFrame, size: int) -> DataFrame:
    """Keys and values made of a column `id`."""
    value = "x" * (size - 8)
    return ids.selectExpr(
        "cast(id as string) key", f"concat(lpad(cast(id as string), 8, '0'), '{value}') value"
    )


def json_columns(bench: Bench) -> None:
    """The demo's flights as typed columns, decoded by the source or by Spark, to nowhere."""
    row = "JSON topic -> typed columns"
    rows = {
        row: ("valueFormat", "from_json"),
        f"{row}, against the JVM connector": ("valueFormat", "kafka"),
    }
    if not any(bench.only in each for each in rows):
        return
    topic = load.new_topic(bench.broker)
    values = [event.value for event in flights.events()]
    producer = Producer({"bootstrap.servers": bench.bootstrap, "linger.ms": 20})
    for value in values:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)

    def run(source: str) -> Figures:
        reader = bench.spark.read.format("kafka" if source == "kafka" else "odradek")
        reader = reader.option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", bench.bootstrap)
        if source == "valueFormat":
            reader = reader.option("valueFormat", "json").option("valueSchema", FLIGHT)
            frame = reader.option("columns", "data").load()
        else:
            if source == "from_json":
                reader = reader.option("columns", "value")
            data = f.from_json(f.expr("string(value)"), FLIGHT)
            frame = reader.load().withColumn("data", data)
        writer = frame.select("data.*").write.format("noop").mode("overwrite")
        figures = timed(bench, len(values), writer.save)
        return {**figures, "rows_per_cpu_s": 1e6 / figures["cpu_s_per_million"]}

    units = {**RATES, "rows_per_cpu_s": "rows/CPU s"}
    for row, sources in rows.items():
        bench.measure(row, units, run, sources)


@contextlib.contextmanager
def topic_of_one_run(bench: Bench) -> Iterator[str]:
    """A new topic, deleted at the end: the runs of a row together would fill the disk."""
    topic = load.new_topic(bench.broker)
    yield topic
    raw_client.delete_topic(bench.broker.port, topic)
    time.sleep(FILES_GONE_S)


def writes(bench: Bench, size: int, rows: int) -> None:
    """Rows made by Spark, written to a new topic."""

    def run(source: str) -> Figures:
        frame = record_columns(bench.spark.range(rows), size)
        writer = frame.write.format(source).option("kafka.bootstrap.servers", bench.bootstrap)
        with topic_of_one_run(bench) as topic:
            return timed(bench, rows, writer.option("topic", topic).mode("append").save)

    bench.measure(f"batch write, {size} B", RATES, run)


def stream_writes(bench: Bench, size: int, rows: int, ids: Path) -> None:
    """The same rows in `STREAM_BATCHES` micro-batches."""

    def run(source: str) -> Figures:
        return streamed(bench, size, rows, ids, source, {})

    bench.measure(f"stream write, {size} B", STREAM_RATES, run)


DELIVERIES = ("exactly_once", "at_least_once")


def exactly_once_writes(bench: Bench, size: int, rows: int, ids: Path) -> None:
    """The same micro-batches, each in transactions that a ledger names, and without them."""

    def run(delivery: str) -> Figures:
        return streamed(bench, size, rows, ids, "odradek", {"delivery": delivery})

    bench.measure(f"stream write, exactly / at least once, {size} B", STREAM_RATES, run, DELIVERIES)


def streamed(
    bench: Bench, size: int, rows: int, ids: Path, source: str, options: dict[str, str]
) -> Figures:
    """Rows written as a stream to a new topic. Only numbers come from files, in `ids`, which costs
    next to nothing, and all sinks the same."""
    files = ids / str(rows)
    if not files.exists():
        numbers = bench.spark.range(0, rows, 1, 2 * STREAM_BATCHES)
        numbers.write.mode("overwrite").parquet(str(files))
    stream = bench.spark.readStream.schema("id long").option("maxFilesPerTrigger", 2)
    frame = record_columns(stream.parquet(str(files)), size)
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as checkpoint:
        writer = frame.writeStream.format(source).trigger(availableNow=True)
        writer = writer.option("kafka.bootstrap.servers", bench.bootstrap).options(**options)
        with topic_of_one_run(bench) as topic:
            writer = writer.option("topic", topic)
            query = writer.option("checkpointLocation", checkpoint).start()
            return timed_stream(bench, rows, query)


def commits(bench: Bench, count: int) -> None:
    """The commit of a micro-batch of two tasks, in this process as in Spark's driver."""
    row = "commit of a micro-batch"
    if bench.only not in row:
        return
    given = {"kafka.bootstrap.servers": bench.bootstrap, "delivery": "exactly_once"}
    options = write_options(given | {"topic": load.new_topic(bench.broker)}, streaming=True)
    protocol = ExactlyOnce.on_driver(options)
    rows = pa.record_batch({"value": pa.array([b"x" * 100] * 1000, pa.binary())})
    taken = []
    for number in range(count):
        tasks = [Task("bench", number, partition, 0) for partition in range(2)]
        reports = [TaskWriter(options, protocol, task).write([rows]) for task in tasks]
        began = time.perf_counter()
        protocol.commit(number, reports)
        taken.append((time.perf_counter() - began) * 1e3)
    figures = latencies(taken[count // 10 :])
    bench.record(row, "odradek", figures)
    for name, unit in (("p50_ms", "p50 ms"), ("p99_ms", "p99 ms")):
        bench.table.add_row(row, unit, f"{figures[name]:,.2f}", "", "", "")


def topic_latency(bench: Bench, count: int, delivery: str = "at_least_once") -> None:
    """One record at a time through a running query into another topic, by our sink with this
    delivery and by the other, which knows one only.
    """

    def run(source: str) -> Figures:
        asked, answered = load.new_topic(bench.broker), load.new_topic(bench.broker)
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as checkpoint:
            writer = latest(bench, source, asked).writeStream.format(source)
            if source == "odradek":
                writer = writer.option("delivery", delivery)
            writer = writer.option("kafka.bootstrap.servers", bench.bootstrap)
            writer = writer.option("topic", answered).option("checkpointLocation", checkpoint)
            query = writer.trigger(processingTime="0 seconds").start()
            try:
                with reading(bench.bootstrap, answered) as answer:
                    return latencies(round_trips(bench.bootstrap, asked, answer, count))
            finally:
                query.stop()

    units = {"p50_ms": "p50 ms", "p99_ms": "p99 ms"}
    row = "latency, topic -> Spark -> topic"
    if delivery == "exactly_once":
        row += ", ours exactly once"
    bench.measure(row, units, run, warm_up=1)


def function_latency(bench: Bench, count: int) -> None:
    """One record at a time through a running query to the function of its `foreachBatch`, which
    collects the rows."""

    def run(source: str) -> Figures:
        asked = load.new_topic(bench.broker)
        collected: queue.SimpleQueue[bytes] = queue.SimpleQueue()

        def collect(batch: DataFrame, number: int) -> None:
            for row in batch.select("value").collect():
                collected.put(bytes(row.value))

        def answer(timeout: float) -> bytes | None:
            try:
                return collected.get(timeout=timeout)
            except queue.Empty:
                return None

        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as checkpoint:
            writer = latest(bench, source, asked).writeStream.foreachBatch(collect)
            writer = writer.option("checkpointLocation", checkpoint)
            query = writer.trigger(processingTime="0 seconds").start()
            try:
                return latencies(round_trips(bench.bootstrap, asked, answer, count))
            finally:
                query.stop()

    units = {"p50_ms": "p50 ms", "p99_ms": "p99 ms"}
    bench.measure("latency, record -> foreachBatch", units, run, warm_up=1)


def latest(bench: Bench, source: str, topic: str) -> DataFrame:
    """What comes to a topic from now on, as a stream of keys and values."""
    reader = bench.spark.readStream.format(source).option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", bench.bootstrap)
    return reader.option("startingOffsets", "latest").load().select("key", "value")


def latencies(times: list[float]) -> Figures:
    times.sort()
    return {"p50_ms": statistics.median(times), "p99_ms": times[int(len(times) * 0.99)]}


def idle(bench: Bench, held_back: bool) -> None:
    """A query with nothing to do, or that waits for more than comes; one look at each source."""
    row = "idle stream that holds back" if held_back else "idle stream"

    def run(source: str) -> Figures:
        topic = load.new_topic(bench.broker)
        reader = bench.spark.readStream.format(source).option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", bench.bootstrap)
        if held_back:
            reader = reader.option("minOffsetsPerTrigger", 1_000_000)
            reader = reader.option("maxTriggerDelay", "1h")
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as checkpoint:
            writer = reader.load().writeStream.format("noop").trigger(processingTime="0 seconds")
            query = writer.option("checkpointLocation", checkpoint).start()
            producer = Producer({"bootstrap.servers": bench.bootstrap})
            try:
                trickle(producer, topic if held_back else None, IDLE_SETTLE_S)
                before, began = bench.cpu_s(), time.monotonic()
                trickle(producer, topic if held_back else None, IDLE_SECONDS)
                used = (bench.cpu_s() - before) / (time.monotonic() - began)
            finally:
                query.stop()
        return {"percent_of_a_core": used * 100}

    bench.measure(row, {"percent_of_a_core": "% of a core"}, run, warm_up=0, pairs=1)


def trickle(producer: Producer, topic: str | None, seconds: float) -> None:
    """Ten records a second to the topic, if there is one, for so long."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if topic is not None:
            producer.produce(topic, b"one more")
            producer.poll(0)
        time.sleep(0.1)


def memory(bench: Bench, rows: int) -> None:
    """The most that the JVM, and any one Python process, had while 1 KB records streamed by."""
    topic = load.new_topic(bench.broker)
    load.produce(bench.broker, 1024, rows, topic)

    def run(source: str) -> Figures:
        reader = bench.spark.readStream.format(source).option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", bench.bootstrap)
        reader = reader.option("startingOffsets", "earliest")
        stream = reader.option("maxOffsetsPerTrigger", 200_000).load()
        most = {"jvm_mib": 0.0, "python_mib": 0.0}
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as checkpoint:
            writer = stream.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", checkpoint).start()
            while query.isActive:
                for pid in bench.cpu.below():
                    with contextlib.suppress(OSError):
                        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
                        kind = "jvm_mib" if program.endswith(b"/java") else "python_mib"
                        most[kind] = max(most[kind], pss_mib(pid))
                time.sleep(0.2)
        return most

    units = {"jvm_mib": "JVM, MiB Pss", "python_mib": "largest Python process, MiB Pss"}
    bench.measure("memory while 1 KB records stream", units, run, warm_up=1, pairs=1)


Answer = Callable[[float], bytes | None]
"""The value of the next record that comes out, or None after so many seconds."""


@contextlib.contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Answer]:
    """The values of a topic's only partition, but for the one that made the topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 1)])

    def answer(timeout: float) -> bytes | None:
        message = consumer.poll(timeout)
        return None if message is None else message.value()

    try:
        yield answer
    finally:
        consumer.close()


def round_trips(bootstrap: str, asked: str, answer: Answer, count: int) -> list[float]:
    """Times in ms; the first few, while the query starts, do not count."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    started_at, running = time.monotonic(), False
    while not running:
        # "latest" is where the query began, which is some time after it was started.
        producer.produce(asked, b"is anybody there?")
        producer.flush(10)
        running = answer(1) is not None
        if time.monotonic() - started_at > 120:
            raise RuntimeError("the query answers nothing")
    while answer(1.5) is not None:
        pass
    times = []
    for number in range(count + 5):
        start = time.perf_counter()
        producer.produce(asked, b"%d" % number)
        producer.flush(10)
        value = answer(60)
        if value != b"%d" % number:
            raise RuntimeError(f"record {number} was answered by {value!r}")
        times.append((time.perf_counter() - start) * 1e3)
    return times[5:]


def jars() -> str:
    """The connector's jars, as Spark wants them. Raises `KafkaMissing`."""
    cache = ROOT / ".setup"
    cache.mkdir(exist_ok=True)
    return class_path(cache, POM).replace(":", ",")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and pairs")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="rows that have this in their name")
    arguments = parser.parse_args()
    try:
        connector = jars()
    except KafkaMissing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 1
    part = 4 if arguments.quick else 1
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as work:
        broker = started(Odradek(Path(work) / "data", {"log.durability": "os"}))
        os.sched_setaffinity(broker.pid, range(os.cpu_count() or 1))
        raw_client.first_ack(broker.port, "first")
        spark = local_session(
            "bench",
            memory="2g",
            log_file=Path(work) / "spark.log",
            config={"spark.jars": connector},
        )
        try:
            with CpuBelow(without=broker.pid) as cpu:
                bench = Bench(spark, broker, cpu, arguments)
                # First: the JVM keeps in its heap what earlier rows left behind.
                memory(bench, 1_000_000 // part)
                reads(bench, 1024, 1_000_000 // part)
                reads(bench, 100, 4_000_000 // part)
                micro_batches(bench, 1024, 1_000_000 // part, 200_000)
                json_columns(bench)
                writes(bench, 1024, 1_000_000 // part)
                writes(bench, 100, 8_000_000 // part)
                stream_writes(bench, 1024, 1_600_000 // part, Path(work) / "ids")
                stream_writes(bench, 100, 8_000_000 // part, Path(work) / "ids")
                exactly_once_writes(bench, 100, 8_000_000 // part, Path(work) / "ids")
                commits(bench, 50 if arguments.quick else 300)
                topic_latency(bench, 25 if arguments.quick else 100)
                topic_latency(bench, 25 if arguments.quick else 100, "exactly_once")
                function_latency(bench, 25 if arguments.quick else 100)
                idle(bench, held_back=False)
                idle(bench, held_back=True)
        finally:
            spark.stop()
            broker.kill()
    Console(width=130).print(bench.table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
