"""Durations as people write them: 30s, 10m, 1h30m, 500ms, 2d."""

from __future__ import annotations

import math
import re

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
ISO_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,12})D)?"
    r"(?P<time>T(?:(?P<hours>\d{1,12})H)?(?:(?P<minutes>\d{1,12})M)?"
    r"(?:(?P<seconds>\d{1,12})(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE,
)


def duration_ms(text: str) -> int:
    """`1h30m` -> 5_400_000. Raises `ValueError`."""
    pieces = DURATION_PART.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise ValueError(f"{text!r} is not a duration: write 30s, 10m, 1h30m, 500ms or 2d")
    ms = sum(float(number) * UNITS_MS[unit] for number, unit in pieces)
    if math.isinf(ms):
        raise ValueError(f"{text[:20]}... is too long")
    return round(ms)


def iso_duration_ms(text: str) -> int:
    """An ISO 8601 duration, not negative, in milliseconds. Raises `ValueError`."""
    match = ISO_DURATION.fullmatch(text.strip())
    parts = match.groupdict() if match else {}
    amounts = [parts.get(unit) for unit in ("days", "hours", "minutes", "seconds")]
    if match is None or not any(amounts) or (parts["time"] or "").upper() == "T":
        raise ValueError(f"{text!r} is no duration such as P1DT2H30M or PT15M")
    days, hours, minutes, seconds = (int(amount or 0) for amount in amounts)
    thousandths = int(((parts["fraction"] or "") + "000")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + thousandths
