"""The metrics as Prometheus text, read back by Prometheus' own parser."""

from __future__ import annotations

import itertools
import math

from prometheus_client.parser import text_string_to_metric_families

from odradek.broker.metrics import reading
from odradek.broker.metrics.exposition import (
    column_text,
    exposition,
    histogram_text,
    label_text,
)
from odradek.broker.metrics.metric import (
    NO_LABELS,
    Kind,
    MetricsPage,
    PartitionKeys,
    SampleColumn,
    gauge,
    histogram,
)
from odradek.broker.metrics.partition_metrics import of_open_logs
from odradek.broker.metrics.reading import TURN_NS
from odradek.broker.metrics.scrape import BLOCK, Scrape
from odradek.broker.metrics.table import METRICS
from odradek.model.histogram import Histogram
from unit.broker.memory_broker import MemoryBroker


def page(broker, view=MetricsPage.BROKER):
    text = b"".join(exposition(broker.node, view)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_every_row_of_a_started_broker_is_a_family_with_type_and_help():
    broker = MemoryBroker()
    broker.create("t", 2)
    families = page(broker) | page(broker, MetricsPage.PARTITIONS)
    for metric in METRICS:
        name = metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name
        family = families.get(name)
        if family is not None:
            assert (family.type, family.documentation) == (metric.kind, metric.help)
            for sample in family.samples:
                assert sample.name in metric.sample_names
                assert set(sample.labels) <= set(metric.sample_labels)
    assert families["odradek_partitions"].samples[0].value == 2


def test_partition_page_has_a_sample_of_each_partition():
    broker = MemoryBroker()
    broker.create("t", 3)
    family = page(broker, MetricsPage.PARTITIONS)["odradek_partition_log_end_offset"]
    assert [sample.labels for sample in family.samples] == [
        {"topic": "t", "partition": str(number)} for number in range(3)
    ]


def test_label_with_any_characters_is_escaped():
    text = label_text(("group", "empty"), ('a"b\\c\nd', ""))
    (family,) = text_string_to_metric_families(f"# TYPE m gauge\nm{text} 1\n")
    assert family.samples[0].labels == {"group": 'a"b\\c\nd'}


def test_histogram_is_cumulative_in_base_units():
    values = Histogram()
    for value in (1_000, 20_000, 5_000_000, 1 << 43):
        values.observe(value)
    metric = histogram("h_seconds", "seconds", "h", lambda _: iter(()))
    text = histogram_text(metric, NO_LABELS, values)
    (family,) = text_string_to_metric_families("# TYPE h_seconds histogram\n" + text)
    by_bound = {each.labels["le"]: each.value for each in family.samples if "le" in each.labels}
    assert (by_bound["1.6384e-05"], by_bound["3.2768e-05"], by_bound["+Inf"]) == (1, 2, 4)
    (total,) = (each.value for each in family.samples if each.name == "h_seconds_sum")
    assert math.isclose(total, values.sum / 1e9)


def test_page_comes_in_parts_of_a_bounded_time(monkeypatch):
    broker = MemoryBroker()
    broker.create("t", 2_000)
    half_turns = itertools.count(0, TURN_NS // 2)
    monkeypatch.setattr(broker.node.env.clock, "monotonic_ns", lambda: next(half_turns))
    parts = list(exposition(broker.node, MetricsPage.PARTITIONS))
    steps = 26 * 2_000 / BLOCK
    assert len(parts) >= steps / 2
    assert max(part.count(b"\n") for part in parts) <= 2 * BLOCK + 4


def test_page_comes_in_parts_although_the_clock_stands_still(monkeypatch):
    monkeypatch.setattr(reading, "MOST_STEPS", 5)
    broker = MemoryBroker()
    broker.create("t", 3)
    assert sum(1 for _ in exposition(broker.node)) > 20


def test_columns_of_the_same_partitions_share_their_keys():
    broker = MemoryBroker()
    broker.create("t", 3)
    scrape = Scrape(broker.node)
    columns = [
        found
        for metric in METRICS
        if metric.view is MetricsPage.PARTITIONS
        for found in metric.read(scrape)
        if isinstance(found, SampleColumn) and found.partitions
    ]
    assert len(columns) > 20
    assert len({id(column.partitions) for column in columns}) == 2  # of logs, of the metadata


def test_column_of_a_partition_that_fails_during_the_scrape_is_without_it():
    broker = MemoryBroker()
    broker.create("t", 3)
    scrape = Scrape(broker.node)
    read = of_open_logs(lambda partitions: [each.high_watermark for each in partitions])

    def partitions():
        return [list(found.partitions) for found in read(scrape) if isinstance(found, SampleColumn)]

    assert partitions() == [[("t", 0), ("t", 1), ("t", 2)]]
    broker.node.replicas.by_name["t", 1].fail(ValueError("damaged"))
    assert partitions() == [[("t", 0), ("t", 2)]]


def test_label_of_a_column_may_have_a_percent_sign():
    metric = gauge("m", "offset", "m", lambda _: iter(()), ("group", "topic", "partition"))
    column = SampleColumn(PartitionKeys([("t", 0), ("t", 1)]), [5, 6], ("100%d\0",))
    assert column_text(metric, column) == (
        'm{group="100%d\0",topic="t",partition="0"} 5\n'
        'm{group="100%d\0",topic="t",partition="1"} 6\n'
    )


def test_row_without_an_open_log_has_no_head():
    broker = MemoryBroker()
    broker.create("t")
    broker.node.replicas.by_name["t", 0].fail(ValueError("damaged"))
    families = page(broker, MetricsPage.PARTITIONS)
    assert "odradek_partition_offline" in families
    assert "odradek_partition_log_end_offset" not in families
