"""DelayedDeleteRecords: a DeleteRecords that waits until every live replica's log durably starts at
the requested offset.

With one replica the low watermark is its own log start offset, and the request waits for the disk
(see `log_start_sync`). Without `log.durability=fsync` it does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.replication.produce import DelayedByPartition

NO_LOW_WATERMARK = -1


@dataclass(slots=True)
class DeleteRecordsStatus:
    """The result for one partition. While `pending` its error is REQUEST_TIMED_OUT."""

    partition: Partition | None
    target: int
    pending: bool
    error: ErrorCode
    low_watermark: int = NO_LOW_WATERMARK


class DelayedDeleteRecords(DelayedByPartition[DeleteRecordsStatus]):
    """Waits until the durable log start of each partition reaches its target."""

    def update_status(self, status: DeleteRecordsStatus) -> None:
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
