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
    """A value that cannot be parsed; the message says what is accepted."""


class Origin(Enum):
    """The origin that a position counts from."""

    START = "start"
    END = "end"
    ZERO = "offset"
    STORED = "stored"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a partition: `value` records after the start, before the end (negative), the
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
    """Parse a time to milliseconds since 1970, from 0 to 63 bits as in records. Without
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
    """True for a whole number that is short enough for Python to parse."""
    return text.isdecimal() and len(text) <= 40


def unbounded_time_ms(text: str, now_ms: int) -> int:
    """Like `time_ms`, without bounds."""
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
            f"{text!r} is not a time: write 2026-01-31T12:00:00Z, a date, milliseconds since "
            "1970, or -10m for ten minutes ago"
        ) from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def position(text: str, now_ms: int) -> Position:
    """Parse one position."""
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
    """Parse a range to its start and its end (excluded; None: no end). Times may have colons: a
    range of times is split at `:@`, or at a colon where both halves are times.
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
    """An offset, clamped to its log; `requested` is the offset of the position."""

    offset: int
    requested: int

    @property
    def clamped(self) -> bool:
        return self.offset != self.requested


def clamped_offsets_at(
    cluster: Admin, partitions: Collection[TopicPartition], where: Position
) -> dict[TopicPartition, ClampedOffset]:
    """Return the offset of a position in each partition, clamped to the log."""
    if where.origin is Origin.STORED:
        raise InvalidValue("`stored` is the position of a group: name the group with -g")
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
    return {
        p: ClampedOffset(min(max(requested[p], starts[p]), ends[p]), requested[p])
        for p in partitions
    }


def offsets_at(
    cluster: Admin, partitions: Collection[TopicPartition], where: Position
) -> dict[TopicPartition, int]:
    """Return the offset of a position in each partition, within the log."""
    return {p: place.offset for p, place in clamped_offsets_at(cluster, partitions, where).items()}


def log_offsets(
    cluster: Admin, topic: Topic
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the start and end offsets of a topic's partitions that have a leader."""
    led = [
        TopicPartition(topic.name, each.partition) for each in topic.partitions if each.leader >= 0
    ]
    return cluster.beginning_offsets(led), cluster.end_offsets(led)


def partition_ranges(text: str) -> list[range]:
    """`0,3-5` -> `[range(0, 1), range(3, 6)]`. Ranges, because a user may type a huge one."""
    found: list[range] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        numbers = (first, last if dash else first)
        if not all(is_number(each) for each in numbers) or int(numbers[0]) > int(numbers[1]):
            raise InvalidValue(f"{text!r} is not a list of partitions: write 0,1 or 0-3")
        found.append(range(int(numbers[0]), int(numbers[1]) + 1))
    return found


def select_partitions(known: Collection[TopicPartition], text: str) -> list[TopicPartition]:
    """Return the partitions of `known` with these numbers. Raises for the first missing one."""
    ranges = partition_ranges(text)
    there = {each.partition for each in known}
    for numbers in ranges:
        missing = next((number for number in numbers if number not in there), None)
        if missing is not None:
            raise UnknownTopicOrPartition(f"there is no partition {missing}")
    return [each for each in known if any(each.partition in numbers for numbers in ranges)]
