"""Histogram: counts of values by powers of two, cheap enough for every request.

Bucket 0 counts values up to 1, bucket k those above 2^(k-1) and up to 2^k. The bucket of a value is
its number of binary digits, so adding one is two additions: no search, no clock, no lock. A value
is a whole number of the smallest unit that matters (nanoseconds, bytes); whoever shows the
histogram converts it to base units.

Quantiles are interpolated within a bucket, whose upper bound is twice its lower one: enough for a
board, and two histograms can be added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LAST_BUCKET: Final = 44
"""2^44 ns are nearly five hours, 2^44 bytes 17 TB; larger values are counted here too."""


class Histogram:
    """The count of values in each bucket, and their sum."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (LAST_BUCKET + 1)
        self.sum = 0

    def observe(self, value: int) -> None:
        """Add a value; one below 0 counts as 0."""
        if value <= 0:
            self.counts[0] += 1
            return
        digits = (value - 1).bit_length()
        bucket = digits if digits < LAST_BUCKET else LAST_BUCKET
        counts = self.counts
        counts[bucket] = counts[bucket] + 1  # compiled, `+=` would be twice as slow
        self.sum += value

    def plus(self, other: Histogram) -> Histogram:
        """Return the sum of both."""
        both = Histogram()
        both.counts = [mine + others for mine, others in zip(self.counts, other.counts)]
        both.sum = self.sum + other.sum
        return both

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """The value below which this share (0 to 1) of the values lies; NaN if there are none."""
        return quantile(self.counts, share)


def quantile(counts: Sequence[int], share: float) -> float:
    """The quantile of a histogram's counts, linear within a bucket; NaN if all are 0."""
    wanted = share * sum(counts)
    if not any(counts):
        return float("nan")
    below = 0
    last = 0
    for bucket, count in enumerate(counts):
        if not count:
            continue
        last = bucket
        if below + count >= wanted:
            break
        below += count
    least = 0 if last == 0 else 1 << (last - 1)
    inside = min(1.0, max(0.0, (wanted - below) / counts[last]))
    return least + inside * ((1 << last) - least)
