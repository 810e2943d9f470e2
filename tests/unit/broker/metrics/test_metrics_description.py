"""DescribeMetrics: the table with its values, in parts that follow each other."""

from __future__ import annotations

import math
from typing import Any

import pytest

from odradek.broker.metrics import description
from odradek.broker.metrics.description import cumulative
from odradek.broker.metrics.metric import MetricsPage
from odradek.broker.metrics.reading import metrics_of, samples_of
from odradek.broker.metrics.scrape import Scrape
from odradek.broker.metrics.table import METRICS
from odradek.model.errors import ErrorCode
from odradek.model.histogram import Histogram
from odradek.protocol.api.describe_metrics import (
    DescribedMetric,
    DescribeMetricsRequest,
    DescribeMetricsResponse,
    MetricCursor,
)
from unit.broker.memory_broker import MemoryBroker


def ask(node: MemoryBroker, **wanted: Any) -> DescribeMetricsResponse:
    node.pass_time(200)  # A broker answers five times a second.
    return node.call(DescribeMetricsRequest(**wanted), 0, DescribeMetricsResponse)


def read_all(node: MemoryBroker, **wanted: Any) -> tuple[list[DescribedMetric], int]:
    """All parts put together, and how many there were."""
    rows: list[DescribedMetric] = []
    cursor: MetricCursor | None = None
    parts = 0
    while parts == 0 or cursor is not None:
        answer = ask(node, cursor=cursor, **wanted)
        assert answer.error_code == 0
        parts += 1
        for row in answer.metrics:
            if rows and rows[-1].name == row.name:
                rows[-1].samples += row.samples
            else:
                rows.append(row)
        cursor = answer.next_cursor
    return rows, parts


def busy() -> MemoryBroker:
    node = MemoryBroker()
    node.create("t", partitions=20)
    assert node.produce_and_wait("t") == 0
    return node


def test_every_metric_of_the_broker_is_there_in_the_order_of_the_table() -> None:
    rows, _ = read_all(busy())
    assert [row.name for row in rows] == [
        each.name for each in METRICS if each.view is MetricsPage.BROKER
    ]
    assert all(row.help and row.kind for row in rows)


def test_a_value_is_that_of_the_table_with_its_labels() -> None:
    node = busy()
    (row,) = ask(node, names=["odradek_partition_log_end_offset"]).metrics
    assert row.labels == ["topic", "partition"]
    values = {tuple(each.labels): each.value for each in row.samples}
    assert values["t", "0"] == 1.0 and values["t", "1"] == 0.0


def test_the_parts_together_are_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    node = busy()
    whole = {
        (metric.name, tuple(map(str, labels)))
        for metric in metrics_of(MetricsPage.PARTITIONS)
        for found in metric.read(Scrape(node.node))
        for labels, _ in samples_of(found)
    }
    monkeypatch.setattr(description, "MOST_WORK", 26)
    rows, parts = read_all(node, partitions=True)
    found = [(row.name, tuple(each.labels)) for row in rows for each in row.samples]
    assert parts > 5
    assert len(found) == len(set(found)) and set(found) == whole


def test_a_part_is_bounded_and_a_histogram_counts_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    node = busy()
    monkeypatch.setattr(description, "MOST_WORK", 60)
    cursor: MetricCursor | None = None
    for _ in range(5):
        answer = ask(node, cursor=cursor)
        work = sum(25 if each.buckets else 1 for row in answer.metrics for each in row.samples)
        assert 0 < work <= 60
        cursor = answer.next_cursor
        assert cursor is not None


def test_a_name_that_is_not_in_the_table_has_an_error_beside_the_metrics_that_are() -> None:
    wanted = ["odradek_wishes", "odradek_connections", "odradek_wishes"]
    answer = ask(busy(), names=wanted)
    assert answer.error_code == 0
    unknown, connections = answer.metrics
    assert (unknown.name, unknown.error_code) == ("odradek_wishes", ErrorCode.RESOURCE_NOT_FOUND)
    assert (connections.name, connections.error_code) == ("odradek_connections", 0)
    assert connections.samples


def test_a_name_that_is_not_in_the_table_is_answered_in_the_first_part_only() -> None:
    cursor = MetricCursor(name="odradek_connections", sample=0)
    answer = ask(busy(), names=["odradek_wishes", "odradek_connections"], cursor=cursor)
    assert [row.name for row in answer.metrics] == ["odradek_connections"]


def test_a_cursor_at_a_metric_that_is_not_there_is_refused() -> None:
    answer = ask(busy(), cursor=MetricCursor(name="gone", sample=0))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "'gone'" in (answer.error_message or "")


def test_more_names_than_there_can_be_metrics_are_refused() -> None:
    answer = ask(busy(), names=[f"odradek_{number}" for number in range(1_001)])
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "1001 metrics by name; ask for at most 1000."


def test_a_cursor_beyond_the_samples_goes_on_with_the_next_metric() -> None:
    node = busy()
    cursor = MetricCursor(name="odradek_connections", sample=1_000_000)
    first, second, *_ = ask(node, cursor=cursor).metrics
    assert (first.name, first.samples) == ("odradek_connections", [])
    assert second.samples


def test_buckets_are_cumulative_and_in_the_unit_of_the_metric() -> None:
    histogram = Histogram()
    for value in (1, 3, 4, 1000, 5000):
        histogram.observe(value)
    found = cumulative(histogram.counts, range(1, 13, 1), 1e-3)
    counts = {round(math.log2(each.upper_bound * 1000)): each.count for each in found}
    assert (counts[1], counts[2], counts[9], counts[10], counts[12]) == (1, 3, 3, 4, 4)


def test_the_sixth_answer_of_a_second_is_refused() -> None:
    node = busy()
    node.pass_time(1000)
    for _ in range(5):
        assert node.call(DescribeMetricsRequest(), 0, DescribeMetricsResponse).error_code == 0
    refused = node.call(DescribeMetricsRequest(), 0, DescribeMetricsResponse)
    assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms == 1000
