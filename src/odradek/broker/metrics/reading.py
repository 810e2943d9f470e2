"""Reading the table on the owner thread: how much of it before others have a turn of the loop.

    turn = TurnBudget(clock.monotonic_ns)
    for found in metric.read(scrape):
        ...                             # a sample, a column or a pause
        if turn.is_over():
            yield                       # back to the loop
            turn.begin()

All partitions of a large broker are seconds, so the values of one scrape are not of one instant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.broker.metrics.metric import (
    Found,
    LabelValues,
    Metric,
    MetricsPage,
    SampleColumn,
    Value,
)
from odradek.broker.metrics.table import METRICS

TURN_NS: Final = 250_000
"""The time after which a turn is over. One more step may follow: some 0.1 ms, interpreted too."""
MOST_STEPS: Final = 200
"""Steps after which it is over whatever the clock says: a simulated one stands still meanwhile."""


class TurnBudget:
    """How much more work a turn may do."""

    __slots__ = ("_now_ns", "_over_ns", "_steps")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.begin()

    def begin(self) -> None:
        """Begin a turn now."""
        self._over_ns = self._now_ns() + TURN_NS
        self._steps = 0

    def is_over(self) -> bool:
        """Count a step; True if it was the last one of this turn."""
        self._steps += 1
        return self._steps >= MOST_STEPS or self._now_ns() >= self._over_ns


def metrics_of(view: MetricsPage) -> list[Metric]:
    """The rows of a view, in the order of its page."""
    return [metric for metric in METRICS if metric.view is view]


def samples_of(found: Found) -> list[tuple[LabelValues, Value]]:
    """The samples of one step of reading: none of a pause, all of a column."""
    if found is None:
        return []
    return found.samples() if isinstance(found, SampleColumn) else [found]
