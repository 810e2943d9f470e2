"""Timestamps and dates parsed as Spark's `stringToTimestamp` and `stringToDate` parse them.

    [+-]yyyy*[-[m]m[-[d]d]]                      for dates, with any text after a space or `T`
    [date ][T][h]h:[m]m[:[s]s[.ffffff]][zone]    for timestamps; a time alone is one of today

A zone is `Z`, `+h`, `+hh:mm`, `UTC+1`, `Europe/Prague`, or one of Java's short names. A text
without one is in the session's zone (`session_zone`). Results are microseconds and days since 1970,
as in Arrow.

Spark sends the settings of a session with every task; the zone is among them if it was set
(`local_session` sets it). Otherwise it is the JVM's default, which on one machine is that of the
system.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from pyspark import TaskContext

SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}
NO_ZONES = frozenset(("EST", "MST", "HST", "ROC", "Factory", "localtime"))
"""Names that are in Python's table and not in Java's."""

OFFSET = re.compile(
    r"([+-])(?:(\d)|(\d\d)|(\d\d):(\d\d)|(\d\d)(\d\d)|(\d\d):(\d\d):(\d\d)|(\d\d)(\d\d)(\d\d))",
    re.ASCII,
)
ONE_DIGIT_HOUR = re.compile(r"([+-])(\d):", re.ASCII)
ONE_DIGIT_MINUTE = re.compile(r"([+-])(\d\d):(\d)$", re.ASCII)
DAY_NUMBER = re.compile(r"[+-]?\d+")

DAY_SECONDS = 86_400
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
LAST_JULIAN_DAY = -141_428
"""The day before the first day of the Gregorian calendar, 1582-10-15."""
CYCLE_YEARS, CYCLE_DAYS = 400, 146_097
MAX_OFFSET_SECONDS = 18 * 3600
Zone = Callable[[], tzinfo]
"""Returns the session's zone when it is needed. Raises `ValueError` if it is unknown."""

TRIMMED = "".join(map(chr, range(0x21))) + "\x7f"
EMPTY_PARTS = (1, 1, 1, 0, 0, 0, 0, 0, 0)


class InvalidTime(ValueError):
    """A text that is not a timestamp, date or zone."""


class TimestampParts(NamedTuple):
    """The parts of a timestamp: year to microsecond, its zone, and True if it has no date."""

    numbers: list[int]
    zone: tzinfo | None
    time_only: bool


def timestamp(text: str, zone: Zone, clock: Callable[[], float] = time.time) -> int:
    """Parse a timestamp to microseconds since 1970, in UTC. Raises `InvalidTime`."""
    try:
        return zoned(text, zone, clock)
    except InvalidTime:
        # The form that Spark 2 wrote.
        return zoned(text.replace("GMT", ""), zone, clock)


def zoned(text: str, session: Zone, clock: Callable[[], float]) -> int:
    parts = parse(text)
    zone = parts.zone or session()
    year, month, day = parts.numbers[:3]
    if parts.time_only:
        today = datetime.fromtimestamp(clock(), zone)
        year, month, day = today.year, today.month, today.day
    days = day_of(year, month, day)
    seconds, micros = time_of_day(parts.numbers)
    total = days * DAY_SECONDS + seconds
    return within_long((total - offset_seconds(zone, days, seconds)) * 1_000_000 + micros)


def timestamp_ntz(text: str) -> int:
    """Parse a timestamp without a zone to microseconds since 1970. Raises `InvalidTime`."""
    parts = parse(text)
    if parts.time_only or parts.zone is not None:
        raise InvalidTime("it has a zone, or no date")
    year, month, day = parts.numbers[:3]
    seconds, micros = time_of_day(parts.numbers)
    return within_long((day_of(year, month, day) * DAY_SECONDS + seconds) * 1_000_000 + micros)


def parse(text: str) -> TimestampParts:
    """Split a timestamp into its parts. Raises `InvalidTime`.

    A port of Spark's `parseTimestampString`, with its oddities.
    """
    trimmed = text.lstrip(TRIMMED)
    at = 0
    start = len(text) - len(trimmed)
    trimmed = trimmed.rstrip(TRIMMED)
    if not trimmed:
        raise InvalidTime("it is empty")
    numbers = list(EMPTY_PARTS)
    sign = {"-": -1, "+": 1}.get(trimmed[0])
    if sign is not None:
        at = 1
    part = value = digits = fraction_digits = 0
    zone: tzinfo | None = None
    time_only = False
    while at < len(trimmed):
        character = trimmed[at]
        if "0" <= character <= "9":
            fraction_digits += part == 6
            if part != 6 or digits < 6:
                value = value * 10 + int(character)
            digits += 1
            at += 1
            continue
        if at == 0 and start == 0 and character == "T":
            time_only, part, at = True, 3, 1
            continue
        if part == 0 and character == ":" and sign is None:
            time_only = True
            part = 3
        check_digits(part, digits)
        numbers[part] = value
        if part in (5, 6) and not (part == 5 and character == "."):
            zone = zone_of(trimmed[at:].strip(TRIMMED[:-1]))
            part, value, digits = 7, 0, 0
            break
        if character not in SEPARATORS[part]:
            raise InvalidTime(f"it has {character!r} at {at}")
        part, value, digits = part + 1, 0, 0
        at += 1
    check_digits(part, digits)
    numbers[part] = value
    if fraction_digits < 6:
        numbers[6] *= 10 ** (6 - fraction_digits)
    numbers[0] *= sign or 1
    return TimestampParts(numbers, zone, time_only)


SEPARATORS = ("-", "-", " T", ":", ":", ".")
"""The separators after each part of a timestamp."""


def check_digits(part: int, digits: int) -> None:
    """Raise `InvalidTime` unless a part may have this many digits."""
    if part == 6:
        return
    least, most = (4, 6) if part == 0 else (0, 2) if part == 7 else (1, 2)
    if not least <= digits <= most:
        raise InvalidTime(f"a part has {digits} digits")


def time_of_day(numbers: list[int]) -> tuple[int, int]:
    """Return seconds and microseconds since midnight. Raises `InvalidTime`."""
    hour, minute, second, micros = numbers[3:7]
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidTime("there is no such time of day")
    return (hour * 60 + minute) * 60 + second, micros


def day_of(year: int, month: int, day: int) -> int:
    """Return days since 1970 in the Gregorian calendar, for any year. Raises `InvalidTime`."""
    cycles, within = divmod(year - 1, CYCLE_YEARS)
    try:
        ordinal = date(within + 1, month, day).toordinal()
    except ValueError as error:
        raise InvalidTime(str(error)) from None
    return ordinal + cycles * CYCLE_DAYS - EPOCH_ORDINAL


def offset_seconds(zone: tzinfo, days: int, seconds: int) -> int:
    """Return the offset of local time from UTC: the earlier one when clocks go back, the one
    before when they go forward, as in Java."""
    ordinal = days + EPOCH_ORDINAL
    first, last = 1 + CYCLE_DAYS, date.max.toordinal() - CYCLE_DAYS
    if ordinal < first:
        ordinal = first
    elif ordinal > last:
        ordinal = last - CYCLE_DAYS + 1 + (ordinal - last - 1) % CYCLE_DAYS
    local = datetime.fromordinal(ordinal) + timedelta(seconds=seconds)
    offset = zone.utcoffset(local)
    assert offset is not None
    return offset // timedelta(seconds=1)


def within_long(micros: int) -> int:
    if not -(2**63) <= micros < 2**63:
        raise InvalidTime("it is too far away")
    return micros


def parse_date(text: str) -> int:
    """Parse a date to days since 1970. Raises `InvalidTime`."""
    try:
        return day_text(text)
    except InvalidTime:
        found = DAY_NUMBER.fullmatch(text)
        if found is not None and -(2**31) <= int(text) < 2**31:
            # The form that Spark 1.5 wrote.
            return gregorian_day(int(text))
        raise


def day_text(text: str) -> int:
    trimmed = text.strip(TRIMMED)
    found = DATE.match(trimmed)
    if found is None:
        raise InvalidTime("it is no date")
    sign, year, month, day = found.groups()
    if day is None and found.end() < len(trimmed):
        raise InvalidTime("something follows the date")
    number = day_of(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
    if not -(2**31) <= number < 2**31:
        raise InvalidTime("it is too far away")
    return number


DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?=[ T]|\Z))?)?", re.ASCII)


def gregorian_day(number: int) -> int:
    """Return the day whose Gregorian date is the date of this day in the calendar of its time: the
    Julian calendar until 1582."""
    if number > LAST_JULIAN_DAY:
        return number
    # Days since March 1st of year 0 of the Julian calendar.
    cycles, within = divmod(number + 719_470, 1461)
    year = min(within // 365, 3)
    of_year = within - year * 365
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    year += cycles * 4 + (month >= 10)
    # February 29th of a year that is a leap year in only one calendar is March 1st in the other.
    return day_of(year, month + 3 if month < 10 else month - 9, 1) + day - 1


@cache
def zone_of(name: str) -> tzinfo:
    """Return the zone of a Java identifier. Raises `InvalidTime`."""
    name = ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", name, count=1)
    name = ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", name, count=1)
    name = SHORT_IDS.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    for prefix in ("UTC", "GMT", "UT"):
        if name.startswith((prefix + "+", prefix + "-")):
            return fixed_zone(name[len(prefix) :])
    if name.startswith(("+", "-")):
        return fixed_zone(name)
    if name in NO_ZONES or name not in known_zones():
        raise InvalidTime(f"there is no time zone {name!r}")
    return ZoneInfo(name)


@cache
def known_zones() -> frozenset[str]:
    """The names of all zones. Finding them reads the directories of the time zone database, some 20
    ms each time."""
    return frozenset(available_timezones())


def fixed_zone(text: str) -> tzinfo:
    found = OFFSET.fullmatch(text)
    if found is None:
        raise InvalidTime(f"there is no time zone {text!r}")
    sign, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    total = (hours * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or total > MAX_OFFSET_SECONDS:
        raise InvalidTime(f"there is no time zone {text!r}")
    return timezone(timedelta(seconds=-total if sign == "-" else total))


SETTING = "spark.sql.session.timeZone"
SYSTEM_ZONE = Path("/etc/localtime")
ZONE_TABLE = "/zoneinfo/"


def session_zone() -> tzinfo:
    """Return the zone of the Spark session. Raises `ValueError` if it is not known."""
    context = TaskContext.get()
    name = context.getLocalProperty(SETTING) if context is not None else None
    if name is None:
        name = system_zone_name()
    try:
        return zone_of(name)
    except InvalidTime as error:
        raise ValueError(
            f"a timestamp has no time zone, and that of the session is not known ({error}): "
            f"set {SETTING}"
        ) from None


def system_zone_name() -> str:
    """Return the name of this machine's zone, as Java determines it."""
    given = os.environ.get("TZ", "").lstrip(":")
    if given:
        return given
    _, _, name = str(SYSTEM_ZONE.resolve()).rpartition(ZONE_TABLE)
    return name if SYSTEM_ZONE.exists() else "UTC"
