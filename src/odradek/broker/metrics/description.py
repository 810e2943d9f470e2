"""The metrics as a response of DescribeMetrics, in parts and slices.

One answer has samples of at most `MOST_WORK`, because it is written in one piece; the next one
begins at the cursor that it has. Values of different parts are of different times. A name that is
not in the table is answered in the first part, with an error of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import LabelValues, Metric, MetricsPage, Value
from odradek.broker.metrics.reading import TurnBudget, metrics_of, samples_of
from odradek.broker.metrics.scrape import Scrape
from odradek.broker.metrics.table import BY_NAME, METRICS
from odradek.broker.sliced_answers import Slices
from odradek.model.errors import ErrorCode
from odradek.model.histogram import Histogram
from odradek.protocol.api.describe_metrics import (
    DescribedMetric,
    DescribedSample,
    DescribeMetricsRequest,
    DescribeMetricsResponse,
    MetricBucket,
    MetricCursor,
)

if TYPE_CHECKING:
    from odradek.broker.node import Node

MOST_WORK: Final = 1_000
"""Samples of one answer; writing them takes 1 to 2 ms."""
HISTOGRAM_COST: Final = 25
"""A histogram counts as so many samples."""
MOST_NAMES: Final = 1_000
"""Names in one request: more than there are metrics."""


def describe_metrics(node: Node, request: DescribeMetricsRequest) -> Slices:
    """Return the requested metrics from the cursor on, in slices: see the module."""
    refusal = why_refused(request)
    if refusal is not None:
        return DescribeMetricsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=refusal)
    response = DescribeMetricsResponse(error_code=ErrorCode.NONE)
    if request.cursor is None:
        response.metrics += [
            unknown(name) for name in dict.fromkeys(request.names) if name not in BY_NAME
        ]
    skip = 0 if request.cursor is None else max(0, request.cursor.sample)
    done = 0
    scrape = Scrape(node)
    turn = TurnBudget(node.env.clock.monotonic_ns)
    for metric in requested_metrics(request):
        cost = 1 if metric.buckets is None else HISTOGRAM_COST
        row = described(metric)
        position = 0
        for found in metric.read(scrape):
            samples = samples_of(found)
            first = min(len(samples), max(0, skip - position))
            end = min(len(samples), first + max(0, (MOST_WORK - done) // cost))
            row.samples += [sample_of(metric, *each) for each in samples[first:end]]
            done += cost * (end - first)
            position += end
            if end < len(samples):
                if row.samples:
                    response.metrics.append(row)
                response.next_cursor = MetricCursor(name=metric.name, sample=position)
                return response
            if turn.is_over():
                yield
                turn.begin()
        response.metrics.append(row)
        skip = 0
    return response


def why_refused(request: DescribeMetricsRequest) -> str | None:
    """Return why a request cannot be answered at all; None if it can."""
    if len(request.names) > MOST_NAMES:
        return f"{len(request.names)} metrics by name; ask for at most {MOST_NAMES}."
    if request.cursor is not None and request.cursor.name not in BY_NAME:
        return f"There is no metric {request.cursor.name!r} of this broker to go on with."
    return None


def unknown(name: str) -> DescribedMetric:
    """Answer for a name that the table has not."""
    return DescribedMetric(
        name=name,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        kind="",
        unit="",
        help="",
        labels=[],
        samples=[],
    )


def requested_metrics(request: DescribeMetricsRequest) -> list[Metric]:
    """Return the metrics by name, or those of a view, from the cursor on."""
    if request.names:
        wanted = set(request.names)
        found = [metric for metric in METRICS if metric.name in wanted]
    else:
        found = metrics_of(MetricsPage.PARTITIONS if request.partitions else MetricsPage.BROKER)
    if request.cursor is not None:
        names = [metric.name for metric in found]
        if request.cursor.name in names:
            return found[names.index(request.cursor.name) :]
    return found


def described(metric: Metric) -> DescribedMetric:
    return DescribedMetric(
        name=metric.name,
        kind=str(metric.kind),
        unit=metric.unit,
        help=metric.help,
        labels=list(metric.labels),
        samples=[],
    )


def sample_of(metric: Metric, labels: LabelValues, value: Value) -> DescribedSample:
    """Describe one value; that of a summary as the histogram that it is."""
    texts = [str(each) for each in labels]
    if not isinstance(value, Histogram):
        return DescribedSample(labels=texts, value=float(value))
    assert metric.buckets is not None, metric.name
    scale = metric.buckets.scale
    return DescribedSample(
        labels=texts,
        value=value.sum * scale,
        count=value.count,
        buckets=cumulative(value.counts, metric.buckets.exponents(), scale),
    )


def cumulative(counts: Sequence[int], exponents: range, scale: float) -> list[MetricBucket]:
    """Return the number of values up to each bound. The last bound has fewer than all if some
    values are larger."""
    buckets = []
    below = counted = 0
    for exponent in exponents:
        below += sum(counts[counted : exponent + 1])
        counted = exponent + 1
        buckets.append(MetricBucket(upper_bound=round((1 << exponent) * scale, 12), count=below))
    return buckets
