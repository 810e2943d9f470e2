"""Values of `auto.offset.reset`, and the durations in them."""

from __future__ import annotations

import pytest

from odradek.config.durations import iso_duration_ms
from odradek.config.offset_reset import (
    EARLIEST,
    LATEST,
    NONE,
    AutoOffsetResetStrategy,
    OffsetResetType,
    parse_offset_reset,
    valid_offset_reset,
)

HOUR_MS = 3_600_000


def test_the_names_of_strategies_are_parsed_in_any_case() -> None:
    assert [parse_offset_reset(text) for text in ("earliest", "latest", "none")] == [
        EARLIEST,
        LATEST,
        NONE,
    ]
    assert parse_offset_reset(" Earliest ") == EARLIEST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT15M", HOUR_MS // 4),
        ("P2D", 48 * HOUR_MS),
        ("P1DT2H3M4.5S", 26 * HOUR_MS + 3 * 60_000 + 4_500),
        ("pt0.25s", 250),
        ("PT1,5S", 1_500),
        ("PT0S", 0),
    ],
)
def test_iso_durations_are_parsed_as_java_does(text: str, expected: int) -> None:
    assert iso_duration_ms(text) == expected
    assert parse_offset_reset(f"by_duration:{text}") == AutoOffsetResetStrategy(
        OffsetResetType.BY_DURATION, expected
    )


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "15M", "PT15", "P1M", "-PT1S", "PT1.S1S"])
def test_an_invalid_iso_duration_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not an ISO 8601 duration"):
        iso_duration_ms(text)


def test_a_strategy_is_a_timestamp_of_list_offsets() -> None:
    assert (LATEST.timestamp(10**12), EARLIEST.timestamp(10**12)) == (-1, -2)
    assert parse_offset_reset("by_duration:PT1H").timestamp(10**12) == 10**12 - HOUR_MS
    assert parse_offset_reset("by_duration:P1D").timestamp(5) == 0, "never one of the special ones"


def test_the_validator_returns_the_problem_or_none() -> None:
    rule = valid_offset_reset()
    assert rule.problem("by_duration:PT1H") is None
    assert "expected earliest, latest, none" in (rule.problem("newest") or "")
    assert "PT15M" in (rule.problem("by_duration:soon") or "")
