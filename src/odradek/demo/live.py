"""The demo followed live: the replay at its pace, and what comes back out of the topic of delays.

The replay runs on a thread of its own. The screen is drawn from the topic `flights.delays`, read
twice a second with our own client: what one sees has been through the broker, Spark and the broker
again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from odradek.demo import figures, replay
from odradek.demo.flights import Event
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC
from odradek.demo.readback import TopicReader, decode_line, open_consumer
from odradek.demo.reference import Delays, Window

DRAW_SECONDS = 0.5
BAR_MINUTES = 2.0


class QueryFailed(RuntimeError):
    """A query of the pipeline ended by itself."""


def watch(
    bootstrap: str,
    events: Sequence[Event],
    pace: replay.Pace,
    stopped: threading.Event,
    queries: Mapping[str, StreamingQuery],
    talk: Console,
) -> int:
    """Replay at `pace` and draw until it ends or `stopped`; the number of flights sent."""
    acknowledged = 0
    if not events:
        return 0

    def progress(done: int) -> None:
        nonlocal acknowledged
        acknowledged = done

    windows: dict[Window, Delays] = {}
    with ThreadPoolExecutor(1) as worker, open_consumer(bootstrap) as consumer:
        delays = TopicReader(consumer, DELAYS_TOPIC)
        replaying = worker.submit(
            replay.replay,
            bootstrap,
            FLIGHTS_TOPIC,
            events,
            progress=progress,
            pace=pace,
            stopped=stopped,
        )
        try:
            with Live(console=talk, refresh_per_second=4) as screen:
                while not replaying.done():
                    for record in delays.new_records():
                        line = decode_line(record.value or b"")
                        windows[line.window()] = line.delays()
                    now = events[min(acknowledged, len(events) - 1)].reported_ms
                    screen.update(draw(now, acknowledged, windows, queries))
                    raise_failures(queries)
                    stopped.wait(DRAW_SECONDS)
                    if stopped.is_set():
                        break
        finally:
            stopped.set()
        return replaying.result()


def raise_failures(queries: Mapping[str, StreamingQuery]) -> None:
    for name, query in queries.items():
        if not query.isActive:
            failure = query.exception()
            raise QueryFailed(f"query {name} ended: {failure}")


def draw(
    now_ms: int,
    sent: int,
    windows: Mapping[Window, Delays],
    queries: Mapping[str, StreamingQuery],
) -> Group:
    """The clock, the counts, and each airline's last day."""
    clock = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(figures.NEW_YORK)
    through = sum(delays.flights for delays in windows.values())
    head = Text.assemble(
        (f"{clock:%a %d %b %Y %H:%M} in New York", "bold"),
        f"    {sent:,} flights sent, {through:,} aggregated",
        f"    {latency(queries)}",
    )
    table = Table(box=None)
    table.add_column("airline, last 24 hours")
    table.add_column("flights", justify="right")
    table.add_column("late", justify="right")
    table.add_column("mean departure delay")
    recent = {w: d for w, d in windows.items() if w.hour_ms > now_ms - 86_400_000}
    for airline, total in figures.by_airline(recent).items():
        minutes = total.mean_departure_delay
        bar = "█" * max(0, min(40, round(minutes / BAR_MINUTES)))
        table.add_row(
            airline, str(total.flights), f"{total.late_share:.0%}", f"{minutes:+6.1f} {bar}"
        )
    return Group(head, table)


def latency(queries: Mapping[str, StreamingQuery]) -> str:
    """How long the last micro-batch of the aggregate took."""
    progress = queries["delays"].lastProgress
    if progress is None:
        return ""
    return f"last micro-batch {progress.numInputRows:,} rows in {progress.batchDuration:,} ms"
