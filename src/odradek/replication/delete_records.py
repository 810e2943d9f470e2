"""DelayedDeleteRecords: a DeleteRecords that waits until the logs of all replicas that are alive
or in sync durably start at the requested offset.

The low watermark is the least log start of these replicas; a follower raises its own to the
leader's and tells it with its next fetch. The request waits for each partition in two steps:

    uncommitted ──high watermark reaches the target──► deleted, not durable ──► done

Records that were appended when the request arrived may be on their way to the disk: only then the
high watermark counts them. (In Kafka a single replica has committed a record when it is appended.)
The sync of the log start is that of `log_start_sync`. Without `log.durability=fsync` and followers
nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable
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
    delete: Callable[[DeleteRecordsStatus], None] | None = None
    """Deletes the records below the target when they are committed. None: they are deleted."""


class DelayedDeleteRecords(DelayedByPartition[DeleteRecordsStatus]):
    """Waits until the records of each partition are committed and durably deleted."""

    def update_status(self, status: DeleteRecordsStatus) -> None:
        partition = status.partition
        assert partition is not None, "a pending status has a partition"
        error = partition.availability()
        if error is not ErrorCode.NONE:
            status.pending = False
            status.error = error
        elif status.delete is not None:
            if partition.high_watermark >= status.target:
                delete, status.delete = status.delete, None
                delete(status)
        else:
            low_watermark = partition.low_watermark
            if low_watermark >= status.target:
                status.pending = False
                status.error = ErrorCode.NONE
                status.low_watermark = low_watermark
