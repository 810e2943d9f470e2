"""DelayedDeleteRecords: a trim that waits until every live replica's log starts at the requested
offset.

With one replica the low watermark is its own log start offset, so nothing ever waits; the operation
is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.timing import DelayedOperation

NO_LOW_WATERMARK = -1


@dataclass(slots=True)
class DeleteRecordsStatus:
    """One partition of a trim: its answer so far. Pending ones start with REQUEST_TIMED_OUT."""

    partition: Partition | None
    target: int
    pending: bool
    error: ErrorCode
    low_watermark: int = NO_LOW_WATERMARK


class DelayedDeleteRecords(DelayedOperation):
    """Completes when no partition is pending; `respond` is called once with all statuses."""

    def __init__(
        self,
        delay_ms: int,
        statuses: Sequence[DeleteRecordsStatus],
        respond: Callable[[Sequence[DeleteRecordsStatus]], None],
    ) -> None:
        super().__init__(delay_ms)
        self.statuses = statuses
        self.respond = respond

    def try_complete(self) -> bool:
        for status in self.statuses:
            if status.pending:
                settle(status)
        if any(status.pending for status in self.statuses):
            return False
        return self.force_complete()

    def on_complete(self) -> None:
        self.respond(self.statuses)

    def on_expiration(self) -> None:
        """The statuses still pending already say REQUEST_TIMED_OUT."""


def settle(status: DeleteRecordsStatus) -> None:
    """Decide one pending partition, if it can be decided now."""
    partition = status.partition
    assert partition is not None, "a pending status has a partition"
    error = partition.availability()
    if error is not ErrorCode.NONE:
        status.pending = False
        status.error = error
    elif partition.log.log_start_offset >= status.target:
        status.pending = False
        status.error = ErrorCode.NONE
        status.low_watermark = partition.log.log_start_offset
