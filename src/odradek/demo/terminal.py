"""What the demo says in the terminal: progress on stderr while it works, results on stdout."""

from __future__ import annotations

from rich.console import Console
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

from odradek.demo import figures
from odradek.demo.proof import Proof

WIDEST = 1000
"""Columns that a table in a pipe may have; it takes what its cells need."""

CHART_HEIGHT = 12
EIGHTHS = " ▁▂▃▄▅▆▇█"
FEWEST_FLIGHTS_IN_CHART = 100


def console(*, stderr: bool = False) -> Console:
    """For stdout or stderr. Where that is no terminal nothing is wrapped: who reads it later has a
    width of his own, and `grep` wants lines that are whole."""
    found = Console(stderr=stderr)
    if not found.is_terminal:
        found.soft_wrap, found.width = True, WIDEST
    return found


def progress_bars(console: Console) -> Progress:
    """Bars that stay when they are done."""
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
    """Mean departure delay by hour of scheduled departure, as columns."""
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
    """One level of a column that fills `share` of it."""
    eighths = max(0, min(8, round(share * 8)))
    return f" {EIGHTHS[eighths] * 2}"
