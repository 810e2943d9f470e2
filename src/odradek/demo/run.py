"""The main job from start to end: broker, flights, pipeline, proof, result.

    broker process ─► topics ─► replay ─┬─► queries to their end ─┬─► proof ─► tables, page
    Spark session (meanwhile) ──────────┘                         └─► Spark stops (meanwhile)

With `follow`, the queries start first and keep running: they are warmed up with some flights, then
the replay follows a faster clock, and a table shows the delays as they come out of the topic.
Ctrl-C stops the replay; the flights sent by then are still processed and verified. A second Ctrl-C
ends everything at once. In every case the queries, Spark and the broker are stopped before this
returns.

The output directory belongs to the demo: the results of an earlier run are replaced.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
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
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC, REJECTED_TOPIC, Locations
from odradek.demo.proof import Proof, open_consumer, prove
from odradek.demo.terminal import watch
from odradek.spark.session import local_session

MARKER = ".odradek-demo"
TOPICS = {FLIGHTS_TOPIC: 4, REJECTED_TOPIC: 1, DELAYS_TOPIC: 4}
POLL_SECONDS = 0.1
WARM_UP_FLIGHTS = 800
MASTER = "local[2]"
SPARK_SETTINGS = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
"""A last micro-batch without flights would only remove windows that nobody asks for any more."""


class OutputInUse(RuntimeError):
    """The output directory has files that are not from the demo."""


@dataclass(slots=True)
class DemoSettings:
    """The options of the command line. `limit`: only the first flights by report time."""

    output: Path
    follow: bool = False
    hours_per_second: float = 24.0
    limit: int | None = None


@dataclass(slots=True)
class Stages:
    """The durations of the stages of the run, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began


def run(settings: DemoSettings) -> int:
    """Run the demo; return the exit code: 0 if the proof holds."""
    stderr_console = terminal.console(stderr=True)
    output = prepare(settings.output)
    stages = Stages()
    stopped = threading.Event()
    with contextlib.ExitStack() as stack:
        if settings.follow:
            stack.enter_context(first_interrupt(stopped, stderr_console))
        workers = stack.enter_context(ThreadPoolExecutor(3))
        spark = BackgroundSession(workers, output / "spark.log")
        stack.callback(spark.close)
        with stages.timed("broker ready"):
            broker = stack.enter_context(BrokerProcess(output / "broker", output / "broker.log"))
            replay.create_topics(broker.bootstrap, TOPICS)
        stderr_console.print(f"broker {broker.bootstrap}, data in {broker.data_dir}")
        stack.callback(spark.close)  # Before the broker stops.
        locations = Locations(broker.bootstrap, output)
        sent = DemoRun(settings, locations, stderr_console, stages, stopped, workers)
        count, late = sent.follow(spark.get) if settings.follow else sent.once(spark.get)
        if count == 0:
            stderr_console.print(
                "stopped before the first flight was sent: there is nothing to prove"
            )
            return 0
        spark.begin_stop()
        with stages.timed("reference and proof"), stderr_console.status("reading everything back"):
            expected = sent.expected(count)
            consumer = stack.enter_context(open_consumer(broker.bootstrap))
            proof = prove(consumer, output / "delays", expected, late)
        show(proof, stages, sent.batches, output)
    return 0 if proof.holds else 1


def prepare(output: Path) -> Path:
    """Return an empty output directory. Raises `OutputInUse`."""
    if output.exists() and any(output.iterdir()):
        if not (output / MARKER).exists():
            raise OutputInUse(f"{output} is not empty and not this demo's: name another --output")
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).write_text("Made by `odradek demo`; the next run replaces this directory.\n")
    return output.absolute()


class BackgroundSession:
    """A Spark session that starts, and stops, while other work goes on."""

    def __init__(self, workers: Executor, log_file: Path) -> None:
        self._workers = workers
        self._started = workers.submit(
            local_session,
            "odradek demo",
            master=MASTER,
            quick_start=True,
            log_file=log_file,
            config=SPARK_SETTINGS,
        )
        self._stopped: Future[None] | None = None

    def get(self) -> SparkSession:
        """Return the session when it has started. Raises what its start raised."""
        return self._started.result()

    def begin_stop(self) -> Future[None]:
        """Begin to stop the session; once."""
        if self._stopped is None:
            self._stopped = self._workers.submit(self._stop)
        return self._stopped

    def _stop(self) -> None:
        if self._started.exception() is None:
            self._started.result().stop()

    def close(self) -> None:
        """Stop the session, and wait for that. May be called again."""
        self.begin_stop().result()


class DemoRun:
    """Sends the flights through topic and pipeline: all at once, or on a faster clock."""

    def __init__(
        self,
        settings: DemoSettings,
        locations: Locations,
        stderr_console: Console,
        stages: Stages,
        stopped: threading.Event,
        workers: Executor,
    ) -> None:
        self.settings = settings
        self.locations = locations
        self.stderr_console = stderr_console
        self.stages = stages
        self.stopped = stopped
        self.batches: list[MicroBatch] = []
        self.workers = workers
        self.reference: Future[reference.Result] | None = None
        """The expected result, if it was begun while Spark starts."""

    def expected(self, count: int) -> reference.Result:
        """Return the result that the pipeline must have for so many flights."""
        begun = self.reference
        return reference.compute(count) if begun is None else begun.result()

    def once(self, session: Callable[[], SparkSession]) -> tuple[int, int]:
        """Send all flights, then run the pipeline. Returns the flights sent and those dropped as
        late."""
        with self.stages.timed("flights read"), self.stderr_console.status("reading the flights"):
            events = flights.events(self.settings.limit)
        with terminal.progress_bars(self.stderr_console) as bars:
            with self.stages.timed("flights produced"):
                sent = self.replay(events, bars)
            self.reference = self.workers.submit(reference.compute, sent)
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
        """Start the pipeline, then send the flights on a faster clock and show the results live."""
        with self.stages.timed("flights read"), self.stderr_console.status("reading the flights"):
            events = flights.events(self.settings.limit)
        with (
            self.stages.timed("Spark started, beyond that"),
            self.stderr_console.status("starting Spark"),
        ):
            spark = session()
            if self.stopped.is_set():
                return 0, 0
            queries = self.start(spark, live=True)
        first, rest = events[:WARM_UP_FLIGHTS], events[WARM_UP_FLIGHTS:]
        with self.stages.timed("warmed up"):
            sent = self.warm_up(first, queries)
        if not self.stopped.is_set():
            pace = replay.ReplaySpeed(self.settings.hours_per_second)
            with self.stages.timed("followed"):
                sent += watch(
                    self.locations.bootstrap, rest, pace, self.stopped, queries, self.stderr_console
                )
        with (
            self.stages.timed("pipeline's rest"),
            self.stderr_console.status("finishing what was sent"),
        ):
            for query in queries.values():
                query.processAllAvailable()
            late = pipeline.late_rows(queries["delays"])
            for query in queries.values():
                query.stop()
        self.keep_progress(queries)
        return sent, late

    def keep_progress(self, queries: dict[str, StreamingQuery]) -> None:
        """Keep the micro-batches of the progress reports that Spark still has, for the page."""
        for name, query in queries.items():
            self.batches += micro_batches(name, query.recentProgress)

    def warm_up(self, events: list[flights.FlightEvent], queries: dict[str, StreamingQuery]) -> int:
        """Send the first flights at full speed and wait until they are processed or `stopped`: the
        first micro-batch of a query is much slower than the next. Returns the number sent."""
        waits = ThreadPoolExecutor(1)
        try:
            with terminal.progress_bars(self.stderr_console) as bars:
                sent = self.replay(events, bars)
                through = waits.submit(queries["delays"].processAllAvailable)
                self.progress(queries, bars, sent, lambda: through.done() or self.stopped.is_set())
            if through.done():
                through.result()
        finally:
            waits.shutdown(wait=False)
        return sent

    def replay(self, events: list[flights.FlightEvent], bars: Progress) -> int:
        bar = bars.add_task("flights produced", total=len(events))
        return replay.replay(
            self.locations.bootstrap,
            FLIGHTS_TOPIC,
            events,
            progress=lambda done: bars.update(bar, completed=done),
            stopped=self.stopped,
        )

    def start(self, spark: SparkSession, *, live: bool) -> dict[str, StreamingQuery]:
        airlines = pipeline.airlines_table(spark)

        def checked(query: str) -> DataFrame:
            records = pipeline.read_flights(spark, self.locations, query)
            return pipeline.check(pipeline.parse(records), airlines)

        return {
            "delays": pipeline.start_delays(checked("delays"), self.locations, live),
            "rejected": pipeline.start_rejected(checked("rejected"), self.locations, live),
        }

    def progress(
        self,
        queries: dict[str, StreamingQuery],
        bars: Progress,
        sent: int,
        ended: Callable[[], bool],
    ) -> None:
        """Show how many flights each query has read, until `ended`."""
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
def first_interrupt(stopped: threading.Event, stderr_console: Console) -> Iterator[None]:
    """Let the first Ctrl-C set `stopped`; a second one interrupts as usual."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        stderr_console.print(
            "stopping: finishing and proving what was sent (Ctrl-C again: at once)"
        )

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def show(proof: Proof, stages: Stages, batches: list[MicroBatch], output: Path) -> None:
    """Print tables and chart, and write the page to the output directory."""
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
