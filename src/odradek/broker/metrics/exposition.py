"""The metrics as Prometheus text (version 0.0.4 of the exposition format), slice by slice.

    # HELP odradek_connections Open connections.
    # TYPE odradek_connections gauge
    odradek_connections{listener="PLAINTEXT"} 3

    for part in exposition(node, View.BROKER):    # b"" is a pause
        send(part); give others a turn

Each step takes about a quarter of a millisecond (`reading.TurnBudget`), so a caller that returns to
the loop between steps delays nobody, whatever the number of partitions. Only the part in hand is in
memory: a reader that is slow should stop taking parts. Call it on the owner thread only; a started
exposition may be dropped at any step.

The columns of single partitions differ in names and values only. What else is in their lines is
prepared once a scrape (`column_lines`), and a `SampleColumn` is formatted in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import (
    QUANTILES,
    Buckets,
    Kind,
    LabelValues,
    Metric,
    MetricsPage,
    PartitionKeys,
    SampleColumn,
    Value,
)
from odradek.broker.metrics.reading import TurnBudget, metrics_of
from odradek.broker.metrics.scrape import Scrape
from odradek.model.histogram import Histogram, quantile

if TYPE_CHECKING:
    from odradek.broker.node import Node

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BEGIN_MARK: Final = "\0"
"""Stands for the name and the first labels in prepared lines. No topic's name has this character,
nor a percent sign."""


def exposition(node: Node, view: MetricsPage = MetricsPage.BROKER) -> Iterator[bytes]:
    """Yield a view's page in parts; b"" is a pause. See the module for how to take them."""
    turn = TurnBudget(node.env.clock.monotonic_ns)
    scrape = Scrape(node)
    lines: list[str] = []
    for metric in metrics_of(view):
        is_first = True
        for found in metric.read(scrape):
            text = ""
            if isinstance(found, SampleColumn):
                text = column_text(metric, found)
            elif found is not None:
                text = sample_text(metric, *found)
            if is_first and text:
                lines.append(head(metric))
                is_first = False
            lines.append(text)
            if turn.is_over():
                yield "".join(lines).encode()
                lines.clear()
                turn.begin()
    yield "".join(lines).encode()


def head(metric: Metric) -> str:
    """The lines before the samples of a metric."""
    return f"# HELP {metric.name} {escaped_help(metric.help)}\n# TYPE {metric.name} {metric.kind}\n"


def column_text(metric: Metric, column: SampleColumn) -> str:
    """The lines of a column."""
    partitions = column.partitions
    if not partitions.lines:
        partitions.lines = column_lines(partitions)
    common = label_text(metric.labels[:-2], column.common)
    begin = f"{metric.name}{common[:-1]}," if common else f"{metric.name}{{"
    # In this order, since a group's id may have a percent sign.
    return (partitions.lines % tuple(column.values)).replace(BEGIN_MARK, begin)


def column_lines(partitions: PartitionKeys) -> str:
    """The lines of a column, each with `BEGIN_MARK` and a place for the value."""
    return "".join(
        [f'{BEGIN_MARK}topic="{topic}",partition="{number}"}} %d\n' for topic, number in partitions]
    )


def sample_text(metric: Metric, values: LabelValues, value: Value) -> str:
    """The line of a number, or those of a histogram or summary."""
    if isinstance(value, Histogram):
        return histogram_text(metric, values, value)
    return f"{metric.name}{label_text(metric.labels, values)} {number_text(value)}\n"


def histogram_text(metric: Metric, values: LabelValues, value: Histogram) -> str:
    """The lines of a histogram or summary."""
    assert metric.buckets is not None, metric.name
    labels = label_text(metric.labels, values)
    more = f"{labels[:-1]}," if labels else "{"
    if metric.kind is Kind.SUMMARY:
        lines = quantile_lines(metric.name, more, value, metric.buckets.scale)
    else:
        lines = bucket_lines(metric.name, more, value, metric.buckets)
    lines.append(f"{metric.name}_sum{labels} {number_text(value.sum * metric.buckets.scale)}\n")
    lines.append(f"{metric.name}_count{labels} {value.count}\n")
    return "".join(lines)


def bucket_lines(name: str, more: str, value: Histogram, buckets: Buckets) -> list[str]:
    """The buckets of a histogram, each with the values of those below it."""
    counts = value.counts
    lines = []
    below = counted = 0
    for exponent, bound in bounds(buckets):
        while counted <= exponent:
            below += counts[counted]
            counted += 1
        lines.append(f'{name}_bucket{more}le="{bound}"}} {below}\n')
    lines.append(f'{name}_bucket{more}le="+Inf"}} {value.count}\n')
    return lines


def quantile_lines(name: str, more: str, value: Histogram, scale: float) -> list[str]:
    """The quantiles of all values since the start."""
    return [
        f'{name}{more}quantile="{share}"}} {number_text(quantile(value.counts, share) * scale)}\n'
        for share in QUANTILES
    ]


@lru_cache(16)
def bounds(buckets: Buckets) -> list[tuple[int, str]]:
    """The exponent of each bucket that is shown, and its upper bound as text, in base units."""
    return [
        (each, number_text(round((1 << each) * buckets.scale, 12))) for each in buckets.exponents()
    ]


@lru_cache(4096)
def label_text(names: tuple[str, ...], values: LabelValues) -> str:
    """The labels in braces; one with the value "" is left out."""
    labels = ",".join(
        f'{name}="{escaped(str(value))}"'
        for name, value in zip(names, values, strict=True)
        if value != ""
    )
    return f"{{{labels}}}" if labels else ""


def escaped(value: str) -> str:
    """A label's value: client software and group ids may have any character."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def number_text(value: float) -> str:
    if type(value) is int:
        return str(value)
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
