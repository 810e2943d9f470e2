"""TransactionCounters: a module of its own because metrics of a broker that never loads the
coordinator read it, too.
"""

from __future__ import annotations


class TransactionCounters:
    """Totals since the start, for metrics."""

    def __init__(self) -> None:
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        """How many of the aborted were open for longer than their timeout."""
