"""SampledStat: average and maximum of the values recorded lately, for the metrics of clients.

    recorded ─► this window of 30 s ─► the one before ─► forgotten

So the results are of the last 30 to 60 seconds, and cost a few numbers. Compiled, as it is used for
each request.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

WINDOW_MS: Final[i64] = 30_000


@final
class SampledStat:
    """Average and maximum of the values of the last two windows."""

    def __init__(self) -> None:
        self._since_ms: i64 = 0
        self._count: i64 = 0
        self._sum: i64 = 0
        self._max: i64 = 0
        self._old_count: i64 = 0
        self._old_sum: i64 = 0
        self._old_max: i64 = 0

    def record(self, value: i64, now_ms: i64) -> None:
        self._roll(now_ms)
        self._count += 1
        self._sum += value
        if value > self._max:
            self._max = value

    def _roll(self, now_ms: i64) -> None:
        passed = now_ms - self._since_ms
        if passed < WINDOW_MS:
            return
        if passed < 2 * WINDOW_MS:
            self._old_count, self._old_sum, self._old_max = self._count, self._sum, self._max
        else:
            self._old_count = self._old_sum = self._old_max = 0
        self._count = self._sum = self._max = 0
        self._since_ms = now_ms

    def average(self, now_ms: i64) -> float:
        """Return the average; 0.0 without values."""
        self._roll(now_ms)
        count = self._count + self._old_count
        return float(self._sum + self._old_sum) / float(count) if count else 0.0

    def maximum(self, now_ms: i64) -> float:
        """Return the maximum; 0.0 without values."""
        self._roll(now_ms)
        return float(max(self._max, self._old_max))
