"""Totals by airline, hour, day and month, for the tables, the chart and the page.

They are sums of the aggregates of the proof. Hours, days and months are those of New York's time
zone. Means are over flights, in minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeVar
from zoneinfo import ZoneInfo

from odradek.demo import rules
from odradek.demo.reference import Delays, Window

G = TypeVar("G", bound=Hashable)
NEW_YORK = ZoneInfo(rules.TIME_ZONE)


@dataclass(slots=True)
class Total:
    """Sums over several windows."""

    flights: int = 0
    late: int = 0
    departure_delay: int = 0
    arrival_delay: int = 0
    worst_arrival_delay: int = -10_000

    def add(self, delays: Delays) -> None:
        self.flights += delays.flights
        self.late += delays.late
        self.departure_delay += delays.departure_delay
        self.arrival_delay += delays.arrival_delay
        self.worst_arrival_delay = max(self.worst_arrival_delay, delays.worst_arrival_delay)

    @property
    def late_share(self) -> float:
        return self.late / self.flights if self.flights else 0.0

    @property
    def mean_departure_delay(self) -> float:
        return self.departure_delay / self.flights if self.flights else 0.0

    @property
    def mean_arrival_delay(self) -> float:
        return self.arrival_delay / self.flights if self.flights else 0.0


def local_hour(window: Window) -> datetime:
    """Return the start of a window in New York's time zone."""
    return datetime.fromtimestamp(window.hour_ms / 1000, UTC).astimezone(NEW_YORK)


def totals(
    windows: Mapping[Window, Delays], group: Callable[[Window, Delays], G]
) -> dict[G, Total]:
    """Return the sums of the windows for each value of `group`, sorted by that value."""
    found: dict[G, Total] = {}
    for window, delays in windows.items():
        found.setdefault(group(window, delays), Total()).add(delays)
    return dict(sorted(found.items(), key=lambda item: item[0]))  # type: ignore[arg-type,return-value]


def by_airline(windows: Mapping[Window, Delays]) -> dict[str, Total]:
    """Return the totals of the airlines, most flights first."""
    found = totals(windows, lambda _, delays: delays.airline)
    return dict(sorted(found.items(), key=lambda item: -item[1].flights))


def by_hour_of_day(windows: Mapping[Window, Delays]) -> dict[int, Total]:
    return totals(windows, lambda window, _: local_hour(window).hour)


def by_origin_and_hour(windows: Mapping[Window, Delays]) -> dict[tuple[str, int], Total]:
    return totals(windows, lambda window, _: (window.origin, local_hour(window).hour))


def by_origin_and_month(windows: Mapping[Window, Delays]) -> dict[tuple[str, int], Total]:
    return totals(windows, lambda window, _: (window.origin, local_hour(window).month))


def by_day(windows: Mapping[Window, Delays]) -> dict[date, Total]:
    return totals(windows, lambda window, _: local_hour(window).date())
