"""Where the time of the queries went, micro-batch by micro-batch.

Spark's progress reports say for each micro-batch when it was begun and how long each of its steps
took. They are sorted here into four kinds, and drawn on one time line for all queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from pyspark.sql.streaming.listener import StreamingQueryProgress

STEPS = {
    "offsets": ("latestOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "work": ("addBatch",),
    "checkpoint": ("walCommit", "commitOffsets", "commitBatch"),
}
"""Spark's names of what a micro-batch's time is spent on, by the kind that is shown."""
STEP_COLOURS = ("var(--c)", "var(--b)", "var(--a)", "var(--soft)")
TIME_LINE_WIDTH, TIME_LINE_LEFT, STEP, LEGEND, AXIS = 980, 90, 26, 24, 22


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch of one query. `began_s` since 1970; `steps` in seconds, by kind."""

    query: str
    number: int
    rows: int
    began_s: float
    seconds: float
    steps: Mapping[str, float]


def micro_batches(query: str, reports: Iterable[StreamingQueryProgress]) -> list[MicroBatch]:
    """Those of a query that ran: reports of triggers that found nothing new are left out."""
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
    """A row for each query, a bar for each micro-batch with its steps in it, as SVG."""
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
    """Table rows: query and number, rows, seconds, and those of each kind of step."""
    return [
        (
            f"{batch.query} {batch.number}",
            f"{batch.rows:,}",
            f"{batch.seconds:.2f}",
            *(f"{seconds:.2f}" for seconds in batch.steps.values()),
        )
        for batch in batches
    ]
