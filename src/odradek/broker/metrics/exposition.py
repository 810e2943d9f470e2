"""The metrics as Prometheus text (version 0.0.4 of the exposition format), slice by slice.

    # HELP odradek_connections Open connections.
    # TYPE odradek_connections gauge
    odradek_connections 3

    for part in exposition(node, View.BROKER):    # b"" is a pause
        send(part); give others a turn

Each step reads and renders `reading.SLICE` samples, well below a millisecond when compiled or not,
so a caller that returns to the loop between steps delays nobody, whatever the number of partitions.
Only the part in hand is in memory: a reader that is slow should stop taking parts. Call it on the
owner thread only; a started exposition may be dropped at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import (
    QUANTILES,
    Buckets,
    Kind,
    LabelValues,
    Metric,
    Value,
    View,
)
from odradek.broker.metrics.reading import SLICE, read_metrics
from odradek.model.histogram import Histogram, quantile

if TYPE_CHECKING:
    from odradek.broker.node import Node

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(node: Node, view: View = View.BROKER) -> Iterator[bytes]:
    """Yield a view's page in parts; b"" is a pause. See the module for how to take them."""
    last: Metric | None = None
    lines: list[str] = []
    cost = 0
    for metric, samples, work in read_metrics(node, view):
        if metric is not last and samples:
            last = metric
            lines.append(f"# HELP {metric.name} {escaped_help(metric.help)}\n")
            lines.append(f"# TYPE {metric.name} {metric.kind}\n")
        if metric.buckets is None:
            name, labels = metric.name, metric.labels
            lines += [
                f"{name}{label_text(labels, values)} {number_text(value)}\n"  # type: ignore[arg-type]
                for values, value in samples
            ]
        else:
            lines += [histogram_text(metric, values, value) for values, value in samples]
        cost += work
        if cost >= SLICE:
            yield "".join(lines).encode()
            lines, cost = [], 0
    yield "".join(lines).encode()


def histogram_text(metric: Metric, values: LabelValues, value: Value) -> str:
    """The lines of a histogram or summary."""
    assert isinstance(value, Histogram) and metric.buckets is not None, metric.name
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
def label_text(names: Sequence[str], values: LabelValues) -> str:
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
