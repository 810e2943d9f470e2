"""DescribeMetrics (key 20001, version 0): the broker's metrics with their values. Odradek's own.

A response has a part of the table, in its order. With `next_cursor` there is more: the next request
begins there.
"""

from __future__ import annotations

from odradek.protocol.schema import f64, field, i16, i32, i64, message, struct


@struct
class MetricCursor:
    """A position in the table: a metric, and how many of its samples to pass over."""

    name: str
    sample: i32


@message(api=20_001, versions=(0, 0), flexible=0)
class DescribeMetricsRequest:
    """Requests metrics by name."""

    names: list[str] = field(factory=list, doc="Empty: all of the broker, or of partitions.")
    partitions: bool = field(default=False, doc="Those of single partitions, not of the broker.")
    cursor: MetricCursor | None = None


@struct
class MetricBucket:
    """The number of values up to a bound, those in lower buckets included."""

    upper_bound: f64
    count: i64


@struct
class DescribedSample:
    """A value of a metric, with the values of its labels."""

    labels: list[str] = field(doc="In the order of the metric's labels; empty: left out.")
    value: f64 = field(doc="Of a histogram: the sum of its values.")
    count: i64 = field(default=0, doc="Of a histogram: the number of its values.")
    buckets: list[MetricBucket] = field(factory=list)


@struct
class DescribedMetric:
    """A row of the table, or a name that is not in it."""

    name: str
    error_code: i16 = field(
        default=0, doc="RESOURCE_NOT_FOUND: there is no such metric; the rest is empty."
    )
    kind: str = field(doc="counter, gauge, histogram or summary; a summary is a histogram here.")
    unit: str
    help: str
    labels: list[str]
    samples: list[DescribedSample]


@message(api=20_001, versions=(0, 0), flexible=0)
class DescribeMetricsResponse:
    """A part of the table."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    metrics: list[DescribedMetric] = field(factory=list)
    next_cursor: MetricCursor | None = None
