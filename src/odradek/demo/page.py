"""The result as one HTML page that stands alone: inline SVG, no script, no external files.

`page.html` is the frame; this module draws its parts. Colours come from the page's style, so the
plots follow the reader's light or dark preference.

The time line shows how long each micro-batch took. Spark's progress reports give the start of each
micro-batch and the duration of each of its steps; the steps are grouped into four kinds and drawn
on one time line for all queries.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from html import escape
from importlib import resources
from string import Template

from pyspark.sql.streaming.listener import StreamingQueryProgress

from odradek.demo import figures
from odradek.demo.proof import Proof

COLOURS = ("var(--a)", "var(--b)", "var(--c)")
WIDTH = 480
HEIGHT = 240
LEFT, RIGHT, TOP, BOTTOM = 34, 16, 18, 24
CALENDAR_COOL, CALENDAR_HOT = -5.0, 60.0
FEWEST_FLIGHTS = 100


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line of a plot: its name and its points."""

    name: str
    points: Sequence[tuple[int, float]]


def render(
    proof: Proof, stages: Mapping[str, float], batches: Sequence[MicroBatch], version: str
) -> str:
    """Return the page. `stages`: seconds by stage of the run."""
    windows = proof.windows
    verdict = "All of it is proven below." if proof.holds else "The proof below fails."
    hours = by_origin(figures.by_origin_and_hour(windows))
    months = by_origin(figures.by_origin_and_month(windows))
    frame = resources.files("odradek.demo").joinpath("page.html").read_text(encoding="utf-8")
    return Template(frame).substitute(
        summary=escape(verdict),
        numbers=numbers(proof, stages),
        proof=proof_rows(proof),
        calendar=calendar_plot(figures.by_day(windows)),
        hours=line_plot(hours, [(h, f"{h}:00") for h in range(6, 24, 3)]),
        months=line_plot(months, [(m, calendar.month_abbr[m]) for m in range(1, 13)]),
        airlines=bars(
            [
                (name, total.late_share, f"{total.late_share:.1%} of {total.flights:,}")
                for name, total in figures.by_airline(windows).items()
            ]
        ),
        rejected=table(
            ("reason", "flights"),
            [(r, f"{n:,}") for r, n in sorted(proof.rejected.items(), key=lambda i: -i[1])],
        ),
        stages=table(("stage", "seconds"), [(n, f"{s:.1f}") for n, s in stages.items()]),
        time_line=time_line(batches),
        micro_batches=table(("micro-batch", "rows", "seconds", *STEPS), rows_of(batches)),
        version=escape(version),
    )


def numbers(proof: Proof, stages: Mapping[str, float]) -> str:
    accepted = sum(delays.flights for delays in proof.windows.values())
    rejected = sum(proof.rejected.values())
    shown = [
        (f"{accepted + rejected:,}", "flights in"),
        (f"{accepted:,}", "accepted"),
        (f"{rejected:,}", "rejected"),
        (f"{len(proof.windows):,}", "hours × airports × airlines"),
        (f"{sum(stages.values()):.0f} s", "from start to proof"),
    ]
    return "".join(f"<div><b>{value}</b>{escape(name)}</div>" for value, name in shown)


def proof_rows(proof: Proof) -> str:
    rows = []
    for check in proof.checks:
        mark = (
            '<span class="holds">holds</span>'
            if check.holds
            else '<span class="fails">fails</span>'
        )
        difference = f"<br>{escape(check.difference)}" if check.difference else ""
        statement = f'<td class="text">{escape(check.statement)}{difference}</td>'
        rows.append(
            f"<tr><td>{mark}</td>{statement}<td>{check.expected}</td><td>{check.found}</td></tr>"
        )
    head = '<tr><th></th><th class="text">statement</th><th>expected</th><th>found</th></tr>'
    return f"<table>{head}{''.join(rows)}</table>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    rest = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{first}</tr>{rest}</table>"


def by_origin(totals: Mapping[tuple[str, int], figures.Total]) -> list[PlotLine]:
    """Return one line per airport: mean departure delay over hours or months."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for (origin, at), total in totals.items():
        if total.flights >= FEWEST_FLIGHTS:
            lines.setdefault(origin, []).append((at, total.mean_departure_delay))
    return [PlotLine(origin, points) for origin, points in sorted(lines.items())]


def line_plot(lines: Sequence[PlotLine], ticks: Sequence[tuple[int, str]]) -> str:
    """Draw lines over a common axis, with a legend; values in minutes."""
    points = [point for line in lines for point in line.points]
    if not points:
        return "<p>Too few flights for a plot.</p>"
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    high_y = max(10.0, max(y for _, y in points) * 1.08)
    low_y = min(0.0, min(y for _, y in points))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low_x) / max(1, high_x - low_x)
        up = (y - low_y) / (high_y - low_y)
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - up) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for value in range(0, int(high_y) + 1, 5 if high_y < 40 else 10):
        _, y = place(low_x, value)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for at, name in ticks:
        if low_x <= at <= high_x:
            x, _ = place(at, 0)
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{name}</text>')
    for index, line in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line.points))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2"/>'
        )
        for point in line.points:
            x, y = place(*point)
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}">'
                f"<title>{escape(line.name)}: {point[1]:.1f} min</title></circle>"
            )
        at = LEFT + 10 + index * 60
        parts.append(f'<rect x="{at}" y="2" width="10" height="10" rx="2" fill="{colour}"/>')
        parts.append(f'<text class="name" x="{at + 14}" y="11">{escape(line.name)}</text>')
    return "".join(parts) + "</svg>"


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Draw horizontal bars: name, length as a share of one, and text behind it."""
    step, left, width = 24, 220, 980
    most = max((share for _, share, _ in rows), default=0.0) or 1.0
    parts = [f'<svg viewBox="0 0 {width} {step * len(rows) + 4}" role="img">']
    for index, (name, share, text) in enumerate(rows):
        y = index * step
        long = share / most * (width - left - 150)
        at = f'x="{left - 10}" y="{y + 16}" text-anchor="end"'
        parts.append(f'<text class="name" {at}>{escape(name)}</text>')
        parts.append(
            f'<rect x="{left}" y="{y + 4}" width="{long:.1f}" height="16" rx="3" fill="var(--a)"/>'
        )
        parts.append(f'<text x="{left + long + 8:.1f}" y="{y + 16}">{escape(text)}</text>')
    return "".join(parts) + "</svg>"


def calendar_plot(days: Mapping[date, figures.Total]) -> str:
    """Draw a row per month and a cell per day, coloured by mean departure delay."""
    cell, left = 30, 44
    parts = [f'<svg viewBox="0 0 {left + 31 * cell} {13 * 24}" role="img">']
    for day in range(1, 32):
        x = left + (day - 1) * cell + cell / 2
        parts.append(f'<text x="{x}" y="14" text-anchor="middle">{day}</text>')
    parts += [
        f'<text x="0" y="{month * 24 + 13}">{calendar.month_abbr[month]}</text>'
        for month in range(1, 13)
    ]
    for when, total in days.items():
        x, y = left + (when.day - 1) * cell, when.month * 24
        colour, delay = heat(total.mean_departure_delay), total.mean_departure_delay
        parts.append(
            f'<rect x="{x + 1}" y="{y}" width="{cell - 2}" height="20" rx="3" fill="{colour}">'
            f"<title>{when}: {total.flights:,} flights, {delay:+.1f} min</title></rect>"
        )
    return "".join(parts) + "</svg>"


def heat(minutes: float) -> str:
    """Return a colour from pale yellow to dark red."""
    share = (minutes - CALENDAR_COOL) / (CALENDAR_HOT - CALENDAR_COOL)
    share = min(1.0, max(0.0, share))
    return f"hsl({52 - 52 * share:.0f} 85% {88 - 50 * share:.0f}%)"


STEPS = {
    "offsets": ("latestOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "work": ("addBatch",),
    "checkpoint": ("walCommit", "commitOffsets", "commitBatch"),
}
"""The steps of a micro-batch by Spark's names, for each kind that is shown."""
STEP_COLOURS = ("var(--c)", "var(--b)", "var(--a)", "var(--soft)")
TIME_LINE_WIDTH, TIME_LINE_LEFT, STEP, LEGEND, AXIS = 980, 90, 26, 24, 22


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch of a query. `began_s` since 1970; `steps` in seconds, by kind."""

    query: str
    number: int
    rows: int
    began_s: float
    seconds: float
    steps: Mapping[str, float]


def micro_batches(query: str, reports: Iterable[StreamingQueryProgress]) -> list[MicroBatch]:
    """Return the micro-batches of a query, without triggers that found nothing new."""
    found = []
    for report in reports:
        spent = report.durationMs
        if "addBatch" not in spent:
            continue
        steps = {
            kind: sum(spent.get(name, 0) for name in names) / 1000 for kind, names in STEPS.items()
        }
        began_s = datetime.fromisoformat(report.timestamp).timestamp()
        seconds = spent["triggerExecution"] / 1000
        found.append(
            MicroBatch(query, report.batchId, report.numInputRows, began_s, seconds, steps)
        )
    return found


def time_line(batches: Sequence[MicroBatch]) -> str:
    """Draw a row for each query and a bar for each micro-batch with its steps, as SVG."""
    if not batches:
        return "<p>No micro-batch was run.</p>"
    queries = list(dict.fromkeys(batch.query for batch in batches))
    first = min(batch.began_s for batch in batches)
    last = max(batch.began_s + batch.seconds for batch in batches)
    scale = (TIME_LINE_WIDTH - TIME_LINE_LEFT - 10) / max(last - first, 0.1)
    height = LEGEND + STEP * len(queries) + AXIS
    parts = [f'<svg viewBox="0 0 {TIME_LINE_WIDTH} {height}" role="img">', *legend()]
    for row, query in enumerate(queries):
        y = LEGEND + row * STEP
        parts.append(f'<text class="name" x="0" y="{y + 15}">{escape(query)}</text>')
        for batch in batches:
            if batch.query == query:
                parts += bar(batch, TIME_LINE_LEFT + (batch.began_s - first) * scale, y, scale)
    every = next((step for step in (1, 2, 5, 10, 30, 60) if (last - first) / step <= 15), 300)
    for second in range(0, int(last - first) + 1, every):
        x, y = TIME_LINE_LEFT + second * scale, height - 6
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{second} s</text>')
    return "".join(parts) + "</svg>"


def legend() -> list[str]:
    parts = []
    for index, (kind, colour) in enumerate(zip(STEPS, STEP_COLOURS, strict=True)):
        x = TIME_LINE_LEFT + index * 110
        parts.append(f'<rect x="{x}" y="3" width="10" height="10" rx="2" fill="{colour}"/>')
        parts.append(f'<text class="name" x="{x + 15}" y="12">{kind}</text>')
    return parts


def bar(batch: MicroBatch, x: float, y: float, scale: float) -> list[str]:
    text = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in batch.steps.items())
    title = f"{batch.query} {batch.number}: {batch.rows:,} rows, {batch.seconds:.2f} s ({text})"
    parts = [f"<g><title>{escape(title)}</title>"]
    for (_, seconds), colour in zip(batch.steps.items(), STEP_COLOURS, strict=True):
        width = seconds * scale
        parts.append(
            f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{STEP - 8}" '
            f'fill="{colour}"/>'
        )
        x += width
    return [*parts, "</g>"]


def rows_of(batches: Iterable[MicroBatch]) -> list[tuple[str, ...]]:
    """Return table rows: query and number, rows, seconds, and the seconds of each kind of step."""
    return [
        (
            f"{batch.query} {batch.number}",
            f"{batch.rows:,}",
            f"{batch.seconds:.2f}",
            *(f"{seconds:.2f}" for seconds in batch.steps.values()),
        )
        for batch in batches
    ]
