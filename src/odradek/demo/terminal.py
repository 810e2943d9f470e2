"""What the demo says in the terminal: progress on stderr while it works, results on stdout."""

from __future__ import annotations

import plotext
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

from odradek.demo import figures
from odradek.demo.proof import Proof

CHART_WIDTH = 76
CHART_HEIGHT = 16
FEWEST_FLIGHTS_IN_CHART = 100


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
    table = Table(title="Departures from New York, 2013", title_justify="left")
    table.add_column("airline")
    for name in ("flights", "late", "mean departure delay", "mean arrival delay", "worst"):
        table.add_column(name, justify="right")
    for airline, total in figures.by_airline(proof.windows).items():
        table.add_row(
            airline,
            f"{total.flights:,}",
            f"{total.late_share:.1%}",
            f"{total.mean_departure_delay:+.1f} min",
            f"{total.mean_arrival_delay:+.1f} min",
            f"{total.worst_arrival_delay:+,} min",
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


def delay_chart(proof: Proof) -> str:
    """Mean departure delay by hour of scheduled departure."""
    hours = {
        hour: total.mean_departure_delay
        for hour, total in figures.by_hour_of_day(proof.windows).items()
        if total.flights >= FEWEST_FLIGHTS_IN_CHART
    }
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(CHART_WIDTH, CHART_HEIGHT)
    plotext.bar([str(hour) for hour in hours], list(hours.values()), width=0.6)
    plotext.title("Mean departure delay (minutes) by scheduled hour: delays add up over the day")
    chart: str = plotext.build()
    return chart
