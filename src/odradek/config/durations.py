"""Durations as text: `1h30m` on command lines, ISO 8601 `PT1H30M` in `auto.offset.reset`."""

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
    """Milliseconds of a duration: `1h30m` is 5,400,000. Raises `ValueError`."""
    parts = DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: write 30s, 10m, 1h30m, 500ms or 2d")
    ms = sum(float(number) * UNITS_MS[unit] for number, unit in parts)
    if math.isinf(ms):
        raise ValueError(f"{text[:20]}... is too long")
    return round(ms)


def iso_duration_ms(text: str) -> int:
    """Milliseconds of a non-negative ISO 8601 duration, as Java's `Duration` parses it.

    `PT15M`, `P2D`, `P1DT2H30M` and `PT1.5S` are such. Raises `ValueError`.
    """
    match = ISO_DURATION.fullmatch(text.strip())
    parts = match.groupdict() if match else {}
    amounts = [parts.get(unit) for unit in ("days", "hours", "minutes", "seconds")]
    if match is None or not any(amounts) or (parts["time"] or "").upper() == "T":
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as P1DT2H30M or PT15M")
    days, hours, minutes, seconds = (int(amount or 0) for amount in amounts)
    thousandths = int(((parts["fraction"] or "") + "000")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + thousandths
