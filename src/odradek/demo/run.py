"""The main job from start to end: broker, flights, pipeline, proof, result.

    broker process ─► topics ─► replay ─┬─► queries to their end ─► proof ─► tables, page
    Spark session (meanwhile) ──────────┘

With `follow`, the queries run first and stay: they are warmed up with some flights, then the replay
keeps the pace of a faster clock, and a table shows the delays as they come back out of the topic.
Ctrl-C ends it wherever it is; what was sent by then is still finished and proven. A second Ctrl-C
ends everything at once. In every case the queries, Spark and the broker are stopped before this
returns.

The output directory is the demo's own: what an earlier run left there is replaced.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import Progress

from odradek import __version__
from odradek.demo import flights, page, pipeline, reference, replay, terminal
from odradek.demo.broker_process import BrokerProcess
from odradek.demo.page import MicroBatch, micro_batches
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC, REJECTED_TOPIC, Places
from odradek.demo.proof import Proof, open_consumer, prove
from odradek.demo.terminal import watch
from odradek.spark.session import local_session

MARKER = ".odradek-demo"
TOPICS = {FLIGHTS_TOPIC: 4, REJECTED_TOPIC: 1, DELAYS_TOPIC: 4}
POLL_SECONDS = 0.1
WARM_UP_FLIGHTS = 800
MASTER = "local[2]"


class OutputInUse(RuntimeError):
    """The output directory holds something that is not this demo's."""


@dataclass(slots=True)
class Settings:
    """What the command line can say. `limit`: only so many flights, the earliest reports."""

    output: Path
    follow: bool = False
    hours_per_second: float = 24.0
    limit: int | None = None


@dataclass(slots=True)
class Stages:
    """Seconds by what they were spent on."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began


def run(settings: Settings) -> int:
    """The exit code: 0 if the proof holds."""
    talk = terminal.console(stderr=True)
    output = prepare(settings.output)
    stages = Stages()
    stopped = threading.Event()
    with contextlib.ExitStack() as stack:
        if settings.follow:
            stack.enter_context(first_interrupt(stopped, talk))
        workers = stack.enter_context(ThreadPoolExecutor(3))
        with stages.timed("broker ready"):
            broker = stack.enter_context(BrokerProcess(output / "broker", output / "broker.log"))
            replay.create_topics(broker.bootstrap, TOPICS)
        talk.print(f"broker {broker.bootstrap}, data in {broker.data_dir}")
        spark = workers.submit(new_session, stack, output / "spark.log")
        sent = Flow(settings, Places(broker.bootstrap, output), talk, stages, stopped)
        count, late = sent.follow(spark.result) if settings.follow else sent.once(spark.result)
        if count == 0:
            talk.print("stopped before the first flight was sent: there is nothing to prove")
            return 0
        with stages.timed("reference and proof"), talk.status("reading everything back"):
            expected = reference.compute(count)
            consumer = stack.enter_context(open_consumer(broker.bootstrap))
            proof = prove(consumer, output / "delays", expected, late)
    show(proof, stages, sent.batches, output)
    return 0 if proof.holds else 1


def prepare(output: Path) -> Path:
    """An empty directory of the demo's own. Raises `OutputInUse`."""
    if output.exists() and any(output.iterdir()):
        if not (output / MARKER).exists():
            raise OutputInUse(f"{output} is not empty and not this demo's: name another --output")
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).write_text("Made by `odradek demo`; the next run replaces this directory.\n")
    return output.absolute()


def new_session(stack: contextlib.ExitStack, log_file: Path) -> SparkSession:
    spark = local_session("odradek demo", master=MASTER, quick_start=True, log_file=log_file)
    stack.callback(spark.stop)
    return spark


class Flow:
    """The flights' way through topic and pipeline: all at once, or followed."""

    def __init__(
        self,
        settings: Settings,
        places: Places,
        talk: Console,
        stages: Stages,
        stopped: threading.Event,
    ) -> None:
        self.settings = settings
        self.places = places
        self.talk = talk
        self.stages = stages
        self.stopped = stopped
        self.batches: list[MicroBatch] = []

    def once(self, session: Callable[[], SparkSession]) -> tuple[int, int]:
        """All flights, then the pipeline over them. (flights sent, flights dropped as late)."""
        with self.stages.timed("flights read"), self.talk.status("reading the flights"):
            events = flights.events(self.settings.limit)
        with terminal.progress_bars(self.talk) as bars:
            with self.stages.timed("flights produced"):
                sent = self.replay(events, bars)
            with self.stages.timed("Spark started, beyond that"):
                spark = session()
            with self.stages.timed("pipeline"):
                queries = self.start(spark, live=False)
                self.progress(queries, bars, sent, lambda: not any_active(queries))
                for query in queries.values():
                    query.awaitTermination()
        self.keep_progress(queries)
        return sent, pipeline.late_rows(queries["delays"])

    def follow(self, session: Callable[[], SparkSession]) -> tuple[int, int]:
        """The pipeline first, then the flights at their pace, shown as they come back."""
        with self.stages.timed("flights read"), self.talk.status("reading the flights"):
            events = flights.events(self.settings.limit)
        with self.stages.timed("Spark started, beyond that"), self.talk.status("starting Spark"):
            spark = session()
            if self.stopped.is_set():
                return 0, 0
            queries = self.start(spark, live=True)
        first, rest = events[:WARM_UP_FLIGHTS], events[WARM_UP_FLIGHTS:]
        with self.stages.timed("warmed up"):
            sent = self.warm_up(first, queries)
        if not self.stopped.is_set():
            pace = replay.Pace(self.settings.hours_per_second)
            with self.stages.timed("followed"):
                sent += watch(self.places.bootstrap, rest, pace, self.stopped, queries, self.talk)
        with self.stages.timed("pipeline's rest"), self.talk.status("finishing what was sent"):
            for query in queries.values():
                query.processAllAvailable()
            late = pipeline.late_rows(queries["delays"])
            for query in queries.values():
                query.stop()
        self.keep_progress(queries)
        return sent, late

    def keep_progress(self, queries: dict[str, StreamingQuery]) -> None:
        """The micro-batches that Spark still remembers, for the page."""
        for name, query in queries.items():
            self.batches += micro_batches(name, query.recentProgress)

    def warm_up(self, events: list[flights.Event], queries: dict[str, StreamingQuery]) -> int:
        """The first flights at full speed, until they are through or `stopped`: the first
        micro-batch of a query takes many times as long as the next. The number sent."""
        waits = ThreadPoolExecutor(1)
        try:
            with terminal.progress_bars(self.talk) as bars:
                sent = self.replay(events, bars)
                through = waits.submit(queries["delays"].processAllAvailable)
                self.progress(queries, bars, sent, lambda: through.done() or self.stopped.is_set())
            if through.done():
                through.result()
        finally:
            waits.shutdown(wait=False)
        return sent

    def replay(self, events: list[flights.Event], bars: Progress) -> int:
        bar = bars.add_task("flights produced", total=len(events))
        return replay.replay(
            self.places.bootstrap,
            FLIGHTS_TOPIC,
            events,
            progress=lambda done: bars.update(bar, completed=done),
            stopped=self.stopped,
        )

    def start(self, spark: SparkSession, *, live: bool) -> dict[str, StreamingQuery]:
        airlines = pipeline.airlines_table(spark)

        def checked(query: str) -> DataFrame:
            records = pipeline.read_flights(spark, self.places, query)
            return pipeline.check(pipeline.parse(records), airlines)

        return {
            "delays": pipeline.start_delays(checked("delays"), self.places, live),
            "rejected": pipeline.start_rejected(checked("rejected"), self.places, live),
        }

    def progress(
        self,
        queries: dict[str, StreamingQuery],
        bars: Progress,
        sent: int,
        ended: Callable[[], bool],
    ) -> None:
        """Bars of how many flights each query has read, until `ended`."""
        names = {"delays": "checked, joined, aggregated", "rejected": "checked, rejects kept"}
        shown = {name: bars.add_task(names[name], total=sent) for name in queries}
        last = False
        while not last:
            last = ended()
            for name, query in queries.items():
                done = sum(progress.numInputRows for progress in query.recentProgress)
                bars.update(shown[name], completed=done)
            if not last:
                self.stopped.wait(POLL_SECONDS)


def any_active(queries: dict[str, StreamingQuery]) -> bool:
    return any(query.isActive for query in queries.values())


@contextlib.contextmanager
def first_interrupt(stopped: threading.Event, talk: Console) -> Iterator[None]:
    """The first Ctrl-C sets `stopped`; a second one interrupts as usual."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        talk.print("stopping: finishing and proving what was sent (Ctrl-C again: at once)")

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def show(proof: Proof, stages: Stages, batches: list[MicroBatch], output: Path) -> None:
    """Tables and chart on stdout, the page in the output directory."""
    out = terminal.console()
    out.print(terminal.airlines_table(proof))
    out.print(terminal.delay_chart(proof))
    out.print(terminal.rejected_table(proof))
    out.print(terminal.proof_table(proof))
    target = output / "flights.html"
    target.write_text(page.render(proof, stages.seconds, batches, __version__), encoding="utf-8")
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stages.seconds.items())
    out.print(f"{sum(stages.seconds.values()):.1f} s in all: {spent}")
    out.print(f"page: {target}    table: {output / 'delays'} (Parquet)")
