"""DelayedDeleteRecords: a trim that waits until every live replica's log starts at the requested
offset, and will after a power failure.

With one replica the low watermark is its own log start offset, and what is waited for is the disk
(see `log_starts`). Without `log.durability=fsync` nothing waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.model.errors import ErrorCode
from odradek.replication.delayed_by_partition import DelayedByPartition
from odradek.replication.partition import Partition

NO_LOW_WATERMARK = -1


@dataclass(slots=True)
class DeleteRecordsStatus:
    """One partition of a trim: its answer so far. Pending ones start with REQUEST_TIMED_OUT."""

    partition: Partition | None
    target: int
    pending: bool
    error: ErrorCode
    low_watermark: int = NO_LOW_WATERMARK


class DelayedDeleteRecords(DelayedByPartition[DeleteRecordsStatus]):
    """See the module."""

    def settle(self, status: DeleteRecordsStatus) -> None:
        partition = status.partition
        assert partition is not None, "a pending status has a partition"
        error = partition.availability()
        if error is not ErrorCode.NONE:
            status.pending = False
            status.error = error
        elif partition.log.durable_log_start >= status.target:
            status.pending = False
            status.error = ErrorCode.NONE
            status.low_watermark = partition.log.durable_log_start
