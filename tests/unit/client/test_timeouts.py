"""Timeouts as applications give them, in seconds: one rule for all calls."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from odradek.client.arguments import FOREVER_MS, limit_ms, milliseconds_of


@pytest.mark.parametrize(
    ("seconds", "ms"),
    [(0, 0), (0.0, 0), (1, 1000), (0.0001, 1), (2.5, 2500), (True, 1000), (Fraction(1, 2), 500)],
)
def test_seconds_become_milliseconds_rounded_up(seconds: float, ms: int) -> None:
    assert milliseconds_of(seconds) == ms
    assert limit_ms(seconds) == ms


@pytest.mark.parametrize("seconds", [None, -1, -0.5, math.inf, -math.inf, 1e10, 1e300])
def test_none_negative_and_infinite_timeouts_are_for_ever(
    seconds: float | None,
) -> None:
    assert milliseconds_of(seconds) is None
    assert limit_ms(seconds) == FOREVER_MS


def test_an_argument_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="nan is no timeout: give seconds, or None"):
        milliseconds_of(math.nan)
    given: Any = "5"
    with pytest.raises(TypeError, match="'5' is no timeout: give seconds, or None"):
        milliseconds_of(given)
