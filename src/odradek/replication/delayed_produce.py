"""DelayedProduce: a produce with `acks=-1` that waits until the in-sync replicas have its records.

Parked when `acks` is -1 and at least one partition took its batch. Each such partition starts out
pending with REQUEST_TIMED_OUT preset, so that expiry needs no work. `try_complete` settles a
partition when it is no longer led here, when its directory went offline, or when its high watermark
has reached the required offset.
"""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.replication.delayed_by_partition import DelayedByPartition
from odradek.replication.partition import AppendResult, Partition


class ProduceStatus:
    """One partition of a produce: its answer so far, and what it still waits for."""

    __slots__ = ("error", "partition", "pending", "result")

    def __init__(
        self, result: AppendResult, partition: Partition | None, pending: bool, error: ErrorCode
    ) -> None:
        self.result = result
        self.partition = partition
        self.pending = pending
        self.error = error


def settle(status: ProduceStatus) -> None:
    """Decide a pending partition, if it can be decided now."""
    partition = status.partition
    assert partition is not None, "a pending status has a partition"
    error = partition.availability()
    if error is not ErrorCode.NONE:
        status.pending = False
        status.error = error
    elif partition.high_watermark >= status.result.required_offset:
        status.pending = False
        status.error = partition.acknowledgement_error()


class DelayedProduce(DelayedByPartition[ProduceStatus]):
    """See the module."""

    def settle(self, status: ProduceStatus) -> None:
        settle(status)
