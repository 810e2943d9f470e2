"""Durations, moments and positions in a log, as people type them.

    duration   30s  10m  1h30m  500ms  2d
    moment     2026-01-31  2026-01-31T12:00:00Z  1700000000000 (ms)  1700000000 (s)
               now  -10m (that long ago)  now+5m
    position   start  end  stored  N (an offset)  +N (from the start)  -N (from the end)
               @MOMENT (the first record at or after it)
    range      POSITION, or POSITION:POSITION (the second excluded, either may be missing);
               @MOMENT:MOMENT

`s@` and `e@` of kcat, and `beginning`, `earliest`, `latest` of others are understood.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import click

from odradek.config import durations

DIGITS_OF_MS = 12
LAST_MS = 2**63 - 1
NAMES = {
    "start": "start",
    "beginning": "start",
    "earliest": "start",
    "end": "end",
    "latest": "end",
    "stored": "stored",
}


class NotUnderstood(click.UsageError):
    """What was typed has no such meaning; the message says what would have."""


class From(Enum):
    """What a position counts from."""

    START = "start"
    END = "end"
    ZERO = "offset"
    STORED = "stored"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a partition: `value` records after the start, before the end (negative), the
    offset itself, or milliseconds since the epoch.
    """

    origin: From
    value: int = 0


START, END = Position(From.START), Position(From.END)


def duration_ms(text: str) -> int:
    """`1h30m` -> 5_400_000."""
    try:
        return durations.duration_ms(text)
    except ValueError as error:
        raise NotUnderstood(str(error)) from None


def moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, as records have them: not before, and no more than 63 bits. Without
    a zone, times are UTC.
    """
    ms = any_moment_ms(text, now_ms)
    if ms > LAST_MS:
        raise NotUnderstood(f"{text!r} is later than any record can be: in ms, {LAST_MS}")
    return max(ms, 0)


def now_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def is_number(text: str) -> bool:
    """Whether it is a whole number, and not so long that Python refuses to read it."""
    return text.isdecimal() and len(text) <= 40


def any_moment_ms(text: str, now_ms: int) -> int:
    """As `moment_ms`, without bounds."""
    relative = re.fullmatch(r"(?:now)?([+-])(.+)", text)
    if relative is not None:
        sign = 1 if relative[1] == "+" else -1
        return now_ms + sign * duration_ms(relative[2])
    if text == "now":
        return now_ms
    if is_number(text):
        return int(text) if len(text) >= DIGITS_OF_MS else int(text) * 1000
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise NotUnderstood(
            f"{text!r} is not a moment: write 2026-01-31T12:00:00Z, a date, milliseconds since "
            "1970, or -10m for ten minutes ago"
        ) from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def position(text: str, now_ms: int) -> Position:
    """One position."""
    if text.lower() in NAMES:
        return Position(From(NAMES[text.lower()]))
    if text.startswith(("s@", "e@", "@")):
        return Position(From.TIME, moment_ms(text.partition("@")[2], now_ms))
    if re.fullmatch(r"\+\d{1,40}", text):
        return Position(From.START, int(text))
    if re.fullmatch(r"-\d{1,40}", text):
        return Position(From.END, int(text))
    if is_number(text):
        return Position(From.ZERO, int(text))
    raise NotUnderstood(f"{text!r} is not a position: write start, end, an offset, +N, -N or @TIME")


def offset_range(text: str, now_ms: int) -> tuple[Position, Position | None]:
    """From where, and to where (excluded); None: go on for ever. Moments keep their colons: a range
    of times is cut at `:@`, or where both halves are moments.
    """
    for cut in (index for index, letter in enumerate(text) if letter == ":"):
        first, last = text[:cut], text[cut + 1 :]
        if first.startswith("@") and last and not last.startswith(("@", "+", "-")):
            last = last if last.lower() in NAMES else "@" + last
        try:
            return (
                position(first, now_ms) if first else START,
                position(last, now_ms) if last else None,
            )
        except NotUnderstood:
            continue
    return position(text, now_ms), None
