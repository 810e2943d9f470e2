"""Durations as people write them."""

from __future__ import annotations

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def milliseconds(text: str) -> int:
    """The milliseconds of `300ms`, `10s`, `1m`."""
    number = text.rstrip("msh")
    return int(number) * UNITS_MS[text.removeprefix(number)]


def duration(value_ms: int) -> str:
    """The text of a duration in the largest unit of which it is a multiple."""
    for unit in ("h", "m", "s"):
        if value_ms and value_ms % UNITS_MS[unit] == 0:
            return f"{value_ms // UNITS_MS[unit]}{unit}"
    return f"{value_ms}ms"
