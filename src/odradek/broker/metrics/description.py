"""The metrics as a response of DescribeMetrics, in parts and slices.

One answer has samples of at most `MOST_WORK`, because it is written in one piece; the next one
begins at the cursor that it has. Values of different parts are of different times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from odradek.broker.metrics.metric import LabelValues, Metric, Value, View
from odradek.broker.metrics.reading import HISTOGRAM_COST, SLICE, Piece, pieces
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
"""Samples of one answer; a histogram counts as `HISTOGRAM_COST`. Writing them takes 1 to 2 ms."""


def describe_metrics(node: Node, request: DescribeMetricsRequest) -> Slices:
    """Return the requested metrics from the cursor on, in slices: see the module."""
    unknown = unknown_name(request)
    if unknown is not None:
        return DescribeMetricsResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"There is no metric {unknown!r} of this broker.",
        )
    view = View.PARTITIONS if request.partitions else View.BROKER
    metrics = requested_metrics(request, view)
    response = DescribeMetricsResponse(error_code=ErrorCode.NONE)
    skip = 0 if request.cursor is None else max(0, request.cursor.sample)
    scrape = Scrape(node)
    done = since_pause = 0
    for metric in metrics:
        cost = 1 if metric.buckets is None else HISTOGRAM_COST
        row = described(metric)
        position = skip
        for piece in after(pieces(metric, metric.read(scrape)), skip):
            room = max(0, (MOST_WORK - done) // cost)
            row.samples += [sample_of(metric, *each) for each in piece.samples[:room]]
            position += min(room, len(piece.samples))
            done += cost * min(room, len(piece.samples))
            if len(piece.samples) > room:
                if row.samples:
                    response.metrics.append(row)
                response.next_cursor = MetricCursor(name=metric.name, sample=position)
                return response
            since_pause += piece.cost
            if since_pause >= SLICE:
                since_pause = 0
                yield
        response.metrics.append(row)
        skip = 0
    return response


def unknown_name(request: DescribeMetricsRequest) -> str | None:
    """Return the first requested name that the table has not."""
    cursor = [] if request.cursor is None else [request.cursor.name]
    return next((name for name in [*request.names, *cursor] if name not in BY_NAME), None)


def requested_metrics(request: DescribeMetricsRequest, view: View) -> list[Metric]:
    """Return the metrics by name, or those of a view, from the cursor on."""
    if request.names:
        wanted = set(request.names)
        found = [metric for metric in METRICS if metric.name in wanted]
    else:
        found = [metric for metric in METRICS if metric.view is view]
    if request.cursor is not None:
        names = [metric.name for metric in found]
        if request.cursor.name in names:
            return found[names.index(request.cursor.name) :]
    return found


def after(read: Iterator[Piece], skip: int) -> Iterator[Piece]:
    """Yield the pieces without their first `skip` samples."""
    for piece in read:
        dropped = min(skip, len(piece.samples))
        skip -= dropped
        yield piece._replace(samples=list(islice(piece.samples, dropped, None)))


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
