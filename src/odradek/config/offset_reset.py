"""Where to begin reading a partition when no position is known, or the known one does not exist.

    earliest              at the first record there is
    latest                behind the last one
    none                  nowhere: it is an error
    by_duration:PnDTnHnMnS   at the first record that is not older than this (KIP-1106)

The duration is in ISO 8601 as Java's `Duration` reads it: `PT15M`, `P2D`, `P1DT2H30M`, `PT1.5S`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from odradek.config.durations import iso_duration_ms
from odradek.config.setting import Validator

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2

BY_DURATION = "by_duration:"


class OffsetResetType(Enum):
    """The kinds of it."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class AutoOffsetResetStrategy(NamedTuple):
    """A strategy; `duration_ms` counts for `BY_DURATION` alone."""

    strategy: OffsetResetType
    duration_ms: int = 0

    def timestamp(self, wall_ms: int) -> int:
        """What to ask ListOffsets for when it is `wall_ms`."""
        if self.strategy is OffsetResetType.BY_DURATION:
            return max(0, wall_ms - self.duration_ms)
        if self.strategy is OffsetResetType.EARLIEST:
            return EARLIEST_TIMESTAMP
        return LATEST_TIMESTAMP

    def __str__(self) -> str:
        if self.strategy is OffsetResetType.BY_DURATION:
            return f"{self.strategy.value} ({self.duration_ms} ms)"
        return str(self.strategy.value)


EARLIEST = AutoOffsetResetStrategy(OffsetResetType.EARLIEST)
LATEST = AutoOffsetResetStrategy(OffsetResetType.LATEST)
NONE = AutoOffsetResetStrategy(OffsetResetType.NONE)
STRATEGIES = {reset.strategy.value: reset for reset in (EARLIEST, LATEST, NONE)}


def parse_offset_reset(text: str) -> AutoOffsetResetStrategy:
    """What a value of `auto.offset.reset` means. Raises `ValueError`."""
    name = text.strip().lower()
    if name in STRATEGIES:
        return STRATEGIES[name]
    if name.startswith(BY_DURATION):
        return AutoOffsetResetStrategy(
            OffsetResetType.BY_DURATION, iso_duration_ms(name.removeprefix(BY_DURATION))
        )
    raise ValueError(f"expected earliest, latest, none or {BY_DURATION}PnDTnHnMnS, not {text!r}")


def valid_offset_reset() -> Validator[str]:
    """Values that `offset_reset` understands."""

    def problem(value: str) -> str | None:
        try:
            parse_offset_reset(value)
        except ValueError as error:
            return str(error)
        return None

    return Validator("`earliest`, `latest`, `none`, or `by_duration:` and an ISO duration", problem)
