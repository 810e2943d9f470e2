"""Times, durations and positions as typed on the command line."""

from __future__ import annotations

import pytest

from odradek.cli.positions import (
    END,
    START,
    InvalidValue,
    Origin,
    Position,
    duration_ms,
    offset_range,
    position,
    time_ms,
)

NOW = 1_700_000_000_000
NOON = 1_769_860_800_000
"""2026-01-31T12:00:00Z."""


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30s", 30_000),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("500ms", 500),
        ("2d", 172_800_000),
        ("1.5s", 1500),
        ("0s", 0),
    ],
)
def test_a_duration_is_read_as_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-10m", "10mm", "1h30", "x1h"])
def test_an_invalid_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidValue, match="1h30m"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T13:00:00+01:00", NOON),
        ("2026-01-31T12:00:00", NOON),
        ("2026-01-31", NOON - 12 * 3_600_000),
        ("1769860800000", NOON),
        ("1769860800", NOON),
        ("now", NOW),
        ("-10m", NOW - 600_000),
        ("now-10m", NOW - 600_000),
        ("now+5m", NOW + 300_000),
    ],
)
def test_a_time_is_parsed_to_milliseconds(text: str, ms: int) -> None:
    assert time_ms(text, NOW) == ms


@pytest.mark.parametrize(
    "text",
    ["1969-12-31T23:59:59.999Z", "1969-12-31T23:59:58Z", "0001-01-01T00:00:00+23:00", "-60w"],
)
def test_a_time_before_1970_becomes_0(text: str) -> None:
    """Negative times are special values of ListOffsets, such as earliest and latest."""
    assert time_ms(text, now_ms=1000) == 0


@pytest.mark.parametrize("text", ["9223372036854775808", "9" * 30, "now+9999999999999999w"])
def test_a_time_beyond_63_bits_is_refused(text: str) -> None:
    assert time_ms("9223372036854775807", NOW) == 2**63 - 1
    with pytest.raises(InvalidValue, match="later than any record"):
        position(f"@{text}", NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", START),
        ("beginning", START),
        ("earliest", START),
        ("end", END),
        ("latest", END),
        ("stored", Position(Origin.STORED)),
        ("42", Position(Origin.ZERO, 42)),
        ("+3", Position(Origin.START, 3)),
        ("-5", Position(Origin.END, -5)),
        ("@-10m", Position(Origin.TIME, NOW - 600_000)),
        ("s@1769860800000", Position(Origin.TIME, NOON)),
    ],
)
def test_a_position_is_read_from_its_text(text: str, expected: Position) -> None:
    assert position(text, NOW) == expected


def test_a_range_has_a_start_and_an_optional_end() -> None:
    assert offset_range("start", NOW) == (START, None)
    assert offset_range("5:9", NOW) == (Position(Origin.ZERO, 5), Position(Origin.ZERO, 9))
    assert offset_range(":9", NOW) == (START, Position(Origin.ZERO, 9))
    assert offset_range("5:end", NOW) == (Position(Origin.ZERO, 5), END)
    assert offset_range("5:", NOW) == (Position(Origin.ZERO, 5), None)


def test_a_range_of_times_keeps_the_colons_of_its_times() -> None:
    noon, later = Position(Origin.TIME, NOON), Position(Origin.TIME, NOON + 60_000)
    assert offset_range("@2026-01-31T12:00:00Z", NOW) == (noon, None)
    assert offset_range("@2026-01-31T12:00:00Z:2026-01-31T12:01:00Z", NOW) == (noon, later)
    assert offset_range("@2026-01-31T12:00:00Z:@2026-01-31T12:01:00Z", NOW) == (noon, later)
    assert offset_range("@-10m:end", NOW) == (Position(Origin.TIME, NOW - 600_000), END)


@pytest.mark.parametrize("text", ["", "middle", "1.5", "@", "@yesterday", "a:b"])
def test_an_invalid_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        offset_range(text, NOW)


@pytest.mark.parametrize("text", ["{}", "+{}", "-{}", "@{}"])
def test_an_offset_too_long_to_parse_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        position(text.format("9" * 5000), 0)
