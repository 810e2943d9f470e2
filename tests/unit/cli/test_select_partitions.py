"""Partition lists of `-p`."""

from __future__ import annotations

import pytest

from odradek.cli.positions import InvalidValue, partition_ranges, select_partitions
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.topics import TopicPartition

KNOWN = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(4)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", [0]), ("3,1", [1, 3]), ("1-2", [1, 2]), ("0, 2-3", [0, 2, 3]), ("2-2,2", [2])],
)
def test_numbers_and_ranges_select_partitions(text: str, numbers: list[int]) -> None:
    assert select_partitions(KNOWN, text) == [each for each in KNOWN if each.partition in numbers]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("4", 4),
        ("0-4", 4),
        ("0-9999999999999999999999", 4),
        ("99999999999-99999999999999", 99999999999),
    ],
)
def test_the_first_missing_partition_is_named(text: str, missing: int) -> None:
    """Large ranges are not expanded to find it."""
    with pytest.raises(UnknownTopicOrPartition, match=f"no partition {missing}$"):
        select_partitions(KNOWN, text)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "3-1", "1-2-3"])
def test_an_invalid_partition_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="0,1 or 0-3"):
        select_partitions(KNOWN, text)


def test_a_partition_number_too_long_to_parse_is_refused() -> None:
    with pytest.raises(InvalidValue):
        partition_ranges("9" * 5000)
