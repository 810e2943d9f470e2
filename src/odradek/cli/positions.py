"""Durations, times and positions in a log as users type them, and the offsets they mean.

    duration   30s  10m  1h30m  500ms  2d
    time       2026-01-31  2026-01-31T12:00:00Z  1700000000000 (ms)  1700000000 (s)
               now  -10m (ten minutes ago)  now+5m
    position   start  end  stored  N (an offset)  +N (from the start)  -N (from the end)
               @TIME (the first record at or after it)
    range      POSITION, or POSITION:POSITION (the second excluded, either may be missing);
               @TIME:TIME

`s@` and `e@` of kcat, and `beginning`, `earliest`, `latest` of other tools are accepted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING

import click

from odradek.client.errors import UnknownTopicOrPartition
from odradek.config import durations
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.admin.results import Topic


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


class InvalidValue(click.UsageError):
    """What was typed has no such meaning; the message says what would have."""


class Origin(Enum):
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

    origin: Origin
    value: int = 0


START, END = Position(Origin.START), Position(Origin.END)


def duration_ms(text: str) -> int:
    """`1h30m` -> 5_400_000."""
    try:
        return durations.duration_ms(text)
    except ValueError as error:
        raise InvalidValue(str(error)) from None


def time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, as records have them: not before, and no more than 63 bits. Without
    a zone, times are UTC.
    """
    ms = unbounded_time_ms(text, now_ms)
    if ms > LAST_MS:
        raise InvalidValue(f"{text!r} is later than any record can be: in ms, {LAST_MS}")
    return max(ms, 0)


def now_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def is_number(text: str) -> bool:
    """Whether it is a whole number, and not so long that Python refuses to read it."""
    return text.isdecimal() and len(text) <= 40


def unbounded_time_ms(text: str, now_ms: int) -> int:
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
        raise InvalidValue(
            f"{text!r} is not a moment: write 2026-01-31T12:00:00Z, a date, milliseconds since "
            "1970, or -10m for ten minutes ago"
        ) from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def position(text: str, now_ms: int) -> Position:
    """One position."""
    if text.lower() in NAMES:
        return Position(Origin(NAMES[text.lower()]))
    if text.startswith(("s@", "e@", "@")):
        return Position(Origin.TIME, time_ms(text.partition("@")[2], now_ms))
    if re.fullmatch(r"\+\d{1,40}", text):
        return Position(Origin.START, int(text))
    if re.fullmatch(r"-\d{1,40}", text):
        return Position(Origin.END, int(text))
    if is_number(text):
        return Position(Origin.ZERO, int(text))
    raise InvalidValue(f"{text!r} is not a position: write start, end, an offset, +N, -N or @TIME")


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
        except InvalidValue:
            continue
    return position(text, now_ms), None


@dataclass(frozen=True, slots=True)
class ClampedOffset:
    """An offset, kept within its log; `asked` is what the position said."""

    offset: int
    requested: int

    @property
    def clamped(self) -> bool:
        return self.offset != self.requested


def clamped_offsets_at(
    cluster: Admin, partitions: Collection[TopicPartition], where: Position
) -> dict[TopicPartition, ClampedOffset]:
    """The place that `where` means in each partition."""
    if where.origin is Origin.STORED:
        raise InvalidValue("`stored` is where a group is: name the group with -g")
    starts, ends = cluster.beginning_offsets(partitions), cluster.end_offsets(partitions)
    if where.origin is Origin.TIME:
        found = cluster.list_offsets(dict.fromkeys(partitions, where.value))
        offsets = {p: ends[p] if each.offset < 0 else each.offset for p, each in found.items()}
        return {p: ClampedOffset(offset, offset) for p, offset in offsets.items()}
    origins = {
        Origin.START: starts,
        Origin.END: ends,
        Origin.ZERO: dict.fromkeys(partitions, 0),
    }[where.origin]
    requested = {p: origins[p] + where.value for p in partitions}
    return {p: ClampedOffset(min(max(requested[p], starts[p]), ends[p]), requested[p]) for p in partitions}


def offsets_at(
    cluster: Admin, partitions: Collection[TopicPartition], where: Position
) -> dict[TopicPartition, int]:
    """The offset that `where` means in each partition, kept within its log."""
    return {p: place.offset for p, place in clamped_offsets_at(cluster, partitions, where).items()}


def log_offsets(
    cluster: Admin, topic: Topic
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where the logs of a topic begin and where they end, as far as somebody leads them."""
    led = [
        TopicPartition(topic.name, each.partition) for each in topic.partitions if each.leader >= 0
    ]
    return cluster.beginning_offsets(led), cluster.end_offsets(led)


def partition_ranges(text: str) -> list[range]:
    """`0,3-5` -> `[range(0, 1), range(3, 6)]`: as wide as somebody likes, so never counted out."""
    found: list[range] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        numbers = (first, last if dash else first)
        if not all(is_number(each) for each in numbers) or int(numbers[0]) > int(numbers[1]):
            raise InvalidValue(f"{text!r} are not partitions: write 0,1 or 0-3")
        found.append(range(int(numbers[0]), int(numbers[1]) + 1))
    return found


def select_partitions(known: Collection[TopicPartition], text: str) -> list[TopicPartition]:
    """Those of `known` that have the numbers in `text`. Raises for the first that none has."""
    ranges = partition_ranges(text)
    there = {each.partition for each in known}
    for numbers in ranges:
        missing = next((number for number in numbers if number not in there), None)
        if missing is not None:
            raise UnknownTopicOrPartition(f"there is no partition {missing}")
    return [each for each in known if any(each.partition in numbers for numbers in ranges)]
