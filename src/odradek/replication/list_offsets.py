"""DelayedListOffsets: a ListOffsets that waits until records that were appended before it are
committed.

With `log.durability=fsync` the high watermark follows the disk: a record that `acks=0` or `acks=1`
has acknowledged is on its way there for some milliseconds. Kafka's clients expect an end offset to
count it, as it does in Kafka for a partition with one replica. So the request waits for the flush
that is under way. Its deadline does no harm: the response is the high watermark at that time.

With followers the answer is Kafka's, the high watermark at the time of the request. Only a new
leader waits: until its high watermark has reached its first offset.
"""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.replication.produce import DelayedByPartition


class CommitStatus:
    """A partition that waits until its high watermark reaches the log end of its request."""

    __slots__ = ("end", "partition", "pending")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        leadership = partition.leadership
        self.end = partition.log.log_end_offset if leadership is None else leadership.epoch_start
        self.pending = True


class DelayedListOffsets(DelayedByPartition[CommitStatus]):
    """Waits until the high watermark of each partition reaches its end."""

    def update_status(self, status: CommitStatus) -> None:
        partition = status.partition
        if partition.availability() is not ErrorCode.NONE or partition.high_watermark >= status.end:
            status.pending = False
