"""The metrics as Prometheus text (version 0.0.4 of the exposition format), slice by slice.

    # HELP odradek_connections Open connections.
    # TYPE odradek_connections gauge
    odradek_connections 3

    for part in exposition(node, View.BROKER):    # b"" is a pause
        send(part); give others a turn

Each step reads and renders at most `scrape.SAMPLES_PER_SLICE` samples, well below a millisecond
when compiled or not, so a caller that returns to the loop between steps delays nobody, whatever the
number of partitions. Only the part in hand is in memory: a reader that is slow should stop taking
parts. Call it on the owner thread only; a started exposition may be dropped at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import QUANTILES, Buckets, Kind, Metric, Value, View
from odradek.broker.metrics.scrape import read_metrics
from odradek.model.histogram import Histogram, quantile

if TYPE_CHECKING:
    from odradek.broker.node import Node

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(node: Node, view: View = View.BROKER) -> Iterator[bytes]:
    """Yield a view's page in parts; b"" is a pause. See the module for how to take them."""
    last: Metric | None = None
    for metric, samples in read_metrics(node, view):
        lines: list[str] = []
        if metric is not last and samples:
            last = metric
            lines.append(f"# HELP {metric.name} {escaped_help(metric.help)}\n")
            lines.append(f"# TYPE {metric.name} {metric.kind}\n")
        for values, value in samples:
            lines.append(sample_text(metric, values, value))
        yield "".join(lines).encode()


def sample_text(metric: Metric, values: Sequence[str], value: Value) -> str:
    """The lines of one sample: one, or those of a histogram or summary."""
    labels = label_text(metric.labels, values)
    if not isinstance(value, Histogram):
        return f"{metric.name}{braced(labels)} {number_text(value)}\n"
    buckets = metric.buckets
    assert buckets is not None, metric.name
    if metric.kind is Kind.SUMMARY:
        return summary_text(metric.name, labels, value, buckets.scale)
    return histogram_text(metric.name, labels, value, buckets)


def histogram_text(name: str, labels: str, value: Histogram, buckets: Buckets) -> str:
    """The cumulative buckets of a histogram, its sum and count."""
    counts = value.counts
    comma = "," if labels else ""
    lines = []
    below = counted = 0
    for exponent, bound in bounds(buckets):
        while counted <= exponent:
            below += counts[counted]
            counted += 1
        lines.append(f'{name}_bucket{{{labels}{comma}le="{bound}"}} {below}\n')
    count = below + sum(counts[counted:])
    lines.append(f'{name}_bucket{{{labels}{comma}le="+Inf"}} {count}\n')
    lines.append(f"{name}_sum{braced(labels)} {number_text(value.sum * buckets.scale)}\n")
    lines.append(f"{name}_count{braced(labels)} {count}\n")
    return "".join(lines)


@lru_cache(16)
def bounds(buckets: Buckets) -> list[tuple[int, str]]:
    """The exponent of each bucket that is shown, and its upper bound as text, in base units."""
    return [
        (each, number_text(round((1 << each) * buckets.scale, 12))) for each in buckets.exponents()
    ]


def summary_text(name: str, labels: str, value: Histogram, scale: float) -> str:
    """The quantiles of all values since the start, their sum and count."""
    comma = "," if labels else ""
    lines = [
        f'{name}{{{labels}{comma}quantile="{share}"}} '
        f"{number_text(quantile(value.counts, share) * scale)}\n"
        for share in QUANTILES
    ]
    lines.append(f"{name}_sum{braced(labels)} {number_text(value.sum * scale)}\n")
    lines.append(f"{name}_count{braced(labels)} {value.count}\n")
    return "".join(lines)


@lru_cache(4096)
def label_text(names: Sequence[str], values: Sequence[str]) -> str:
    """The labels without their braces; one with the value "" is left out."""
    return ",".join(
        f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True) if value
    )


def braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def escaped(value: str) -> str:
    """A label's value: client software and group ids may have any character."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def number_text(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
