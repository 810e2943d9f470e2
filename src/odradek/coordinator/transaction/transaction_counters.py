"""TransactionCounters: what a coordinator counts, apart from it for those who only read."""

from __future__ import annotations


class TransactionCounters:
    """Totals since the start, for metrics."""

    def __init__(self) -> None:
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        """How many of the aborted were open for longer than their timeout."""
