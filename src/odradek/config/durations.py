"""Durations as people write them: 30s, 10m, 1h30m, 500ms, 2d."""

from __future__ import annotations

import math
import re

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def duration_ms(text: str) -> int:
    """`1h30m` -> 5_400_000. Raises `ValueError`."""
    pieces = PIECE.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise ValueError(f"{text!r} is not a duration: write 30s, 10m, 1h30m, 500ms or 2d")
    ms = sum(float(number) * UNITS_MS[unit] for number, unit in pieces)
    if math.isinf(ms):
        raise ValueError(f"{text[:20]}... is too long")
    return round(ms)
