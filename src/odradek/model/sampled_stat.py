"""SampledStat: total, rate, average, maximum and minimum of recorded values, for clients' metrics.

    recorded ─► this window of 30 s ─► the one before ─► forgotten

Totals and counts are those since the start. All else is of the last 30 to 60 seconds, as with
Kafka's default of two windows (`metrics.num.samples`, `metrics.sample.window.ms`). A rate divides
by the time since the window before began; time before the first value counts as a window without
values, as in Kafka.

Recording has one thread. Reading changes nothing, so any thread may read; what it sees is then as
consistent as the moment allows. Compiled, as it is used for each request.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

WINDOW_MS: Final[i64] = 30_000
NO_MAXIMUM: Final[i64] = -(1 << 62)
NO_MINIMUM: Final[i64] = 1 << 62


@final
class SampledStat:
    """Totals, and figures of the values of the last two windows. Without values they are 0."""

    def __init__(self) -> None:
        self.total: i64 = 0
        """The sum of all values."""
        self.count: i64 = 0
        """The number of all values."""
        self._since_ms: i64 = -(1 << 62)
        """When the present window began."""
        self._max: i64 = NO_MAXIMUM
        self._min: i64 = NO_MINIMUM
        self._total_before: i64 = 0
        """`total` when the present window began."""
        self._count_before: i64 = 0
        self._old_max: i64 = NO_MAXIMUM
        self._old_min: i64 = NO_MINIMUM
        self._old_total_before: i64 = 0
        """`total` when the window before began."""
        self._old_count_before: i64 = 0

    def record(self, value: i64, now_ms: i64) -> None:
        if now_ms - self._since_ms >= WINDOW_MS:
            self._roll(now_ms)
        self.count += 1
        self.total += value
        if value > self._max:
            self._max = value
        if value < self._min:
            self._min = value

    def _roll(self, now_ms: i64) -> None:
        if now_ms - self._since_ms < 2 * WINDOW_MS:
            self._since_ms += WINDOW_MS
            self._old_total_before = self._total_before
            self._old_count_before = self._count_before
            self._old_max, self._old_min = self._max, self._min
        else:
            self._since_ms = now_ms
            self._old_total_before, self._old_count_before = self.total, self.count
            self._old_max, self._old_min = NO_MAXIMUM, NO_MINIMUM
        self._total_before, self._count_before = self.total, self.count
        self._max, self._min = NO_MAXIMUM, NO_MINIMUM

    def _recent_total(self, now_ms: i64) -> i64:
        """Return the sum of the values of the last two windows."""
        passed = now_ms - self._since_ms
        if passed < WINDOW_MS:
            return self.total - self._old_total_before
        return self.total - self._total_before if passed < 2 * WINDOW_MS else 0

    def _recent_count(self, now_ms: i64) -> i64:
        """Return the number of values of the last two windows."""
        passed = now_ms - self._since_ms
        if passed < WINDOW_MS:
            return self.count - self._old_count_before
        return self.count - self._count_before if passed < 2 * WINDOW_MS else 0

    def _elapsed_ms(self, now_ms: i64) -> i64:
        """Return the time to divide by: between one window and two."""
        passed = now_ms - self._since_ms
        if passed < WINDOW_MS:
            return passed + WINDOW_MS
        return passed if passed < 2 * WINDOW_MS else WINDOW_MS

    def average(self, now_ms: i64) -> float:
        """Return the average; 0.0 without values."""
        count = self._recent_count(now_ms)
        return float(self._recent_total(now_ms)) / float(count) if count else 0.0

    def maximum(self, now_ms: i64) -> float:
        """Return the maximum; 0.0 without values."""
        passed = now_ms - self._since_ms
        found: i64 = NO_MAXIMUM
        if passed < 2 * WINDOW_MS:
            found = self._max
        if passed < WINDOW_MS and self._old_max > found:
            found = self._old_max
        return float(found) if found != NO_MAXIMUM else 0.0

    def minimum(self, now_ms: i64) -> float:
        """Return the minimum; 0.0 without values."""
        passed = now_ms - self._since_ms
        found: i64 = NO_MINIMUM
        if passed < 2 * WINDOW_MS:
            found = self._min
        if passed < WINDOW_MS and self._old_min < found:
            found = self._old_min
        return float(found) if found != NO_MINIMUM else 0.0

    def has_values(self, now_ms: i64) -> bool:
        """True if a value was recorded in the last two windows."""
        return self._recent_count(now_ms) > 0

    def rate(self, now_ms: i64) -> float:
        """Return the sum of the values per second."""
        return 1000.0 * float(self._recent_total(now_ms)) / float(self._elapsed_ms(now_ms))

    def count_rate(self, now_ms: i64) -> float:
        """Return the number of values per second."""
        return 1000.0 * float(self._recent_count(now_ms)) / float(self._elapsed_ms(now_ms))
