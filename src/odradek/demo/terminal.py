"""The demo in the terminal: progress and the live screen on stderr, results on stdout.

With `--follow` the replay runs on a thread of its own and `watch` draws the screen from the topic
`flights.delays`, read twice a second with our own client: the figures have been through the broker,
Spark and the broker again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from odradek.demo import figures, replay
from odradek.demo.flights import FlightEvent
from odradek.demo.pipeline import DELAYS_TOPIC, FLIGHTS_TOPIC
from odradek.demo.proof import Proof, TopicReader, decode_line, open_consumer
from odradek.demo.reference import Delays, Window

WIDEST = 1000
"""The greatest width of a table in a pipe; it uses only what its cells need."""

CHART_HEIGHT = 12
EIGHTHS = " ▁▂▃▄▅▆▇█"
FEWEST_FLIGHTS_IN_CHART = 100


def console(*, stderr: bool = False) -> Console:
    """Return a console for stdout or stderr. Without a terminal it wraps no lines, so that `grep`
    finds whole lines."""
    found = Console(stderr=stderr)
    if not found.is_terminal:
        found.soft_wrap, found.width = True, WIDEST
    return found


def progress_bars(console: Console) -> Progress:
    """Return progress bars that stay visible when they are done."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<34}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def airlines_table(proof: Proof) -> Table:
    table = Table(
        title="Departures from New York, 2013: mean delays in minutes", title_justify="left"
    )
    table.add_column("airline", no_wrap=True)
    for name in ("flights", "late", "departure", "arrival", "worst"):
        table.add_column(name, justify="right")
    for airline, total in figures.by_airline(proof.windows).items():
        table.add_row(
            airline,
            f"{total.flights:,}",
            f"{total.late_share:.1%}",
            f"{total.mean_departure_delay:+.1f}",
            f"{total.mean_arrival_delay:+.1f}",
            f"{total.worst_arrival_delay:+,}",
        )
    return table


def rejected_table(proof: Proof) -> Table:
    table = Table(title="Rejected, to flights.rejected", title_justify="left")
    table.add_column("reason")
    table.add_column("flights", justify="right")
    for reason, count in sorted(proof.rejected.items(), key=lambda item: -item[1]):
        table.add_row(reason, f"{count:,}")
    return table


def proof_table(proof: Proof) -> Table:
    table = Table(title="Proof", title_justify="left")
    table.add_column("")
    table.add_column("statement")
    table.add_column("expected", justify="right")
    table.add_column("found", justify="right")
    for check in proof.checks:
        mark = "[green]holds[/]" if check.holds else "[red]FAILS[/]"
        statement = check.statement + (f"\n[red]{check.difference}[/]" if check.difference else "")
        table.add_row(mark, statement, check.expected, check.found)
    return table


def delay_chart(proof: Proof) -> Text:
    """Draw the mean departure delay by hour of scheduled departure, as columns."""
    hours = {
        hour: total.mean_departure_delay
        for hour, total in figures.by_hour_of_day(proof.windows).items()
        if total.flights >= FEWEST_FLIGHTS_IN_CHART
    }
    lines = ["Mean departure delay by scheduled hour, minutes: delays add up over the day", ""]
    step = max(hours.values(), default=1.0) / CHART_HEIGHT
    for level in range(CHART_HEIGHT, 0, -1):
        label = f"{level * step:6.1f} " if level % 4 == 0 else " " * 7
        lines.append(label + "".join(column(delay / step - level + 1) for delay in hours.values()))
    lines.append(" " * 7 + "".join(f"{hour:^3}" for hour in hours))
    return Text("\n".join(lines))


def column(share: float) -> str:
    """Return one level of a column that fills `share` of it."""
    eighths = max(0, min(8, round(share * 8)))
    return f" {EIGHTHS[eighths] * 2}"


DRAW_SECONDS = 0.5
BAR_MINUTES = 2.0


class QueryFailed(RuntimeError):
    """A query of the pipeline ended by itself; the message has its error."""


def watch(
    bootstrap: str,
    events: Sequence[FlightEvent],
    pace: replay.ReplaySpeed,
    stopped: threading.Event,
    queries: Mapping[str, StreamingQuery],
    stderr_console: Console,
) -> int:
    """Replay at `pace` and draw until it ends or `stopped`; return the number of flights sent."""
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
            with Live(console=stderr_console, refresh_per_second=4) as screen:
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
    """Draw the clock, the counts, and each airline's last day."""
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
    """Return the duration of the last micro-batch of the aggregate, as text."""
    progress = queries["delays"].lastProgress
    if progress is None:
        return ""
    return f"last micro-batch {progress.numInputRows:,} rows in {progress.batchDuration:,} ms"
