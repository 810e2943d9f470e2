"""`auto.offset.reset`: where a consumer begins without a valid position of a partition.

earliest                 at the first record
latest                   after the last record
none                     nowhere: it is an error
by_duration:PnDTnHnMnS   at the first record that is not older than this (KIP-1106)
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
    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class AutoOffsetResetStrategy(NamedTuple):
    """A parsed `auto.offset.reset`; `duration_ms` is only used by `BY_DURATION`."""

    type: OffsetResetType
    duration_ms: int = 0

    def timestamp(self, wall_ms: int) -> int:
        """The timestamp to look up with ListOffsets, at the wall-clock time `wall_ms`."""
        if self.type is OffsetResetType.BY_DURATION:
            return max(0, wall_ms - self.duration_ms)
        if self.type is OffsetResetType.EARLIEST:
            return EARLIEST_TIMESTAMP
        return LATEST_TIMESTAMP

    def __str__(self) -> str:
        if self.type is OffsetResetType.BY_DURATION:
            return f"{self.type.value} ({self.duration_ms} ms)"
        return str(self.type.value)


EARLIEST = AutoOffsetResetStrategy(OffsetResetType.EARLIEST)
LATEST = AutoOffsetResetStrategy(OffsetResetType.LATEST)
NONE = AutoOffsetResetStrategy(OffsetResetType.NONE)
STRATEGIES = {reset.type.value: reset for reset in (EARLIEST, LATEST, NONE)}


def parse_offset_reset(text: str) -> AutoOffsetResetStrategy:
    """Parse a value of `auto.offset.reset`. Raises `ValueError`."""
    name = text.strip().lower()
    if name in STRATEGIES:
        return STRATEGIES[name]
    if name.startswith(BY_DURATION):
        return AutoOffsetResetStrategy(
            OffsetResetType.BY_DURATION, iso_duration_ms(name.removeprefix(BY_DURATION))
        )
    raise ValueError(f"expected earliest, latest, none or {BY_DURATION}PnDTnHnMnS, not {text!r}")


def valid_offset_reset() -> Validator[str]:
    """Values that `parse_offset_reset` accepts."""

    def problem(value: str) -> str | None:
        try:
            parse_offset_reset(value)
        except ValueError as error:
            return str(error)
        return None

    return Validator("`earliest`, `latest`, `none`, or `by_duration:` and an ISO duration", problem)
