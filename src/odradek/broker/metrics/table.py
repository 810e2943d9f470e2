"""The table of the broker's metrics: every row, in the order of the pages that show them.

The page `reference/metrics` of the documentation is rendered from this table. DescribeMetrics, the
HTTP pages and the tests of boards and alerts read it. A new metric is a row in one of the modules
below.
"""

from __future__ import annotations

from odradek.broker.metrics import (
    http_metrics,
    kafka_names,
    odradek_metrics,
    partition_metrics,
    process_metrics,
)
from odradek.broker.metrics.metric import Metric

METRICS: tuple[Metric, ...] = (
    *odradek_metrics.ROWS,
    *process_metrics.ROWS,
    *http_metrics.ROWS,
    *partition_metrics.ROWS,
    *kafka_names.ROWS,
)

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
