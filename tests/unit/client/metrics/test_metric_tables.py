"""The tables have every metric of Kafka's own clients, or the page says why not.

`tests/golden/kafka_client_metrics.txt` was written by the Java clients of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from odradek.client.metrics.metric import MetricTemplate, MetricType
from scripts.reference.client_metrics import LEFT_OUT, TABLES

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka_client_metrics.txt"

Key = tuple[str, str, tuple[str, ...]]


def kafkas() -> set[Key]:
    found = set()
    for line in GOLDEN.read_text().splitlines():
        if not line.startswith("#"):
            group, name, *tags = line.removesuffix(" KIP-848").split()
            found.add((group, name, tuple(tags[0].split(",")) if tags else ()))
    return found


def rows() -> list[MetricTemplate]:
    return [row for _, tables in TABLES.values() for row in chain(*tables)]


def key(row: MetricTemplate) -> Key:
    return row.group, row.name, row.tags


def is_left_out(name: str) -> bool:
    return any(
        name.startswith(each) if each.endswith("-") else name == each
        for beginnings, _ in LEFT_OUT.values()
        for each in beginnings
    )


def test_every_metric_of_kafka_has_a_row_or_a_reason() -> None:
    ours = {key(row) for row in rows()}
    missing = {each for each in kafkas() - ours if not is_left_out(each[1])}
    assert missing == set()


def test_a_metric_that_is_listed_as_left_out_is_in_no_table() -> None:
    assert [row.name for row in rows() if is_left_out(row.name)] == []
    names = {name for _, name, _ in kafkas()}
    for beginnings, _ in LEFT_OUT.values():
        for each in beginnings:
            assert any(name.startswith(each) for name in names), each


def test_rows_say_correctly_whether_kafka_has_them() -> None:
    theirs = kafkas()
    wrong = [key(row) for row in rows() if row.in_kafka is not (key(row) in theirs)]
    assert wrong == []


def test_no_metric_has_two_rows() -> None:
    assert [each for each, count in Counter(map(key, rows())).items() if count > 1] == []


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.group} {row.name}")
def test_the_name_of_a_row_fits_its_type(row: MetricTemplate) -> None:
    assert row.name.endswith("-total") is (row.type is MetricType.COUNTER)
    is_rate = row.name.endswith(("-rate", "-rate-per-hour"))
    assert is_rate is (row.type is MetricType.RATE) or row.name == "compression-rate"
    assert row.description.endswith(".")
