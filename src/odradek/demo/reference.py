"""The expected result of the pipeline, computed from the same file without Spark and the broker.

It uses plain pandas on the CSV file and shares only the names of the reasons with the pipeline. The
result is exact (whole numbers only), so the proof compares with `==`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from odradek.demo import flights, rules

TIME_COLUMNS = ("dep_time", "sched_dep_time", "arr_time", "sched_arr_time")


class Window(NamedTuple):
    """One hour of scheduled departures of an airline from an airport. `hour_ms`: its start, UTC."""

    hour_ms: int
    origin: str
    carrier: str


class Delays(NamedTuple):
    """The aggregate of a window; delays in minutes, negative when early."""

    airline: str
    flights: int
    late: int
    departure_delay: int
    arrival_delay: int
    worst_arrival_delay: int


@dataclass(slots=True)
class Result:
    """The result that the pipeline must match."""

    rows: int = 0
    accepted: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    windows: dict[Window, Delays] = field(default_factory=dict)


def compute(keep: int | None = None) -> Result:
    """Compute the result over all flights, or the first `keep` in the order of their reports."""
    table = pd.read_csv(flights.flights_file(), keep_default_na=False, na_values=[flights.MISSING])
    names = pd.read_csv(flights.airlines_file()).set_index("carrier")["name"]
    hour = pd.to_datetime(table["time_hour"], utc=True)
    table["hour_ms"] = hour.astype("int64") // 1_000_000
    if keep is not None:
        minutes = table["minute"] + table["dep_delay"].fillna(0)
        order = (table["hour_ms"] + minutes * 60_000).sort_values(kind="stable").index
        table = table.loc[order[:keep]]
    reason = reasons(table, set(names.index))
    good = table[reason == ""]
    return Result(
        rows=len(table),
        accepted=len(good),
        rejected={str(r): int(n) for r, n in reason[reason != ""].value_counts().items()},
        windows=aggregate(good, names),
    )


def reasons(table: pd.DataFrame, known_carriers: set[str]) -> pd.Series:
    """Return the reason why each row is rejected, "" for none. The last assignment wins."""
    local = pd.to_datetime(table[["year", "month", "day", "hour"]], errors="coerce")
    zoned = local.dt.tz_localize(rules.TIME_ZONE, ambiguous="NaT", nonexistent="NaT")
    minute = {name: table[name] // 100 * 60 + table[name] % 100 for name in TIME_COLUMNS}
    off_departure = (minute["sched_dep_time"] + table["dep_delay"] - minute["dep_time"]) % 1440
    off_arrival = (minute["sched_arr_time"] + table["arr_delay"] - minute["arr_time"]) % 1440
    bad_clock = pd.Series(False, index=table.index)
    for name in TIME_COLUMNS:
        value = table[name]
        bad_clock |= (value < 1) | (value > 2400) | (value % 100 > 59)
    too_fast = table["distance"] * 60 > rules.FASTEST_MPH * table["air_time"]
    wrong_minute = table["hour"] * 100 + table["minute"] != table["sched_dep_time"]
    reason = pd.Series("", index=table.index)
    reason[too_fast | (table["distance"] <= 0) | (table["air_time"] <= 0)] = rules.SPEED
    reason[(off_departure != 0) | (off_arrival != 0)] = rules.TIMES
    reason[bad_clock] = rules.CLOCK
    reason[table["arr_delay"].isna() | table["air_time"].isna()] = rules.NO_ARRIVAL_DELAY
    reason[table["arr_time"].isna()] = rules.NO_ARRIVAL
    reason[table["dep_time"].isna() | table["dep_delay"].isna()] = rules.NO_DEPARTURE
    reason[~table["carrier"].isin(known_carriers)] = rules.UNKNOWN_AIRLINE
    reason[(zoned.astype("int64") // 1_000_000 != table["hour_ms"]) | wrong_minute] = rules.CALENDAR
    return reason


def aggregate(good: pd.DataFrame, names: pd.Series) -> dict[Window, Delays]:
    """Return the sums per hour of scheduled departure, origin and carrier."""
    late = (good["arr_delay"] >= rules.LATE_MINUTES).astype("int64")
    grouped = good.assign(late=late).groupby(["hour_ms", "origin", "carrier"], sort=True)
    sums: Any = grouped.agg(
        flights=("flight", "size"),
        late=("late", "sum"),
        departure_delay=("dep_delay", "sum"),
        arrival_delay=("arr_delay", "sum"),
        worst=("arr_delay", "max"),
    )
    airlines = names.to_dict()
    figures = zip(*(sums[name].astype("int64").tolist() for name in sums.columns), strict=True)
    return {
        Window(hour_ms, origin, carrier): Delays(airlines[carrier], *of_window)
        for (hour_ms, origin, carrier), of_window in zip(sums.index, figures, strict=True)
    }
