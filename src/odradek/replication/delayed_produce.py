"""DelayedProduce: a produce with `acks=-1` that waits until the in-sync replicas have its records.

Parked when `acks` is -1 and at least one partition took its batch. Each such partition starts out
pending with REQUEST_TIMED_OUT preset, so that expiry needs no work. `try_complete` settles a
partition when it is no longer led here, when its directory went offline, or when its high watermark
has reached the required offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.model.errors import ErrorCode
from odradek.replication.partition import AppendResult, Partition
from odradek.timing import DelayedOperation


@dataclass(slots=True)
class ProduceStatus:
    """One partition of a produce: its answer so far, and what it still waits for."""

    result: AppendResult
    partition: Partition | None
    pending: bool
    error: ErrorCode


class DelayedProduce(DelayedOperation):
    """Completes when no partition is pending; `respond` is called once with all statuses."""

    def __init__(
        self,
        delay_ms: int,
        statuses: Sequence[ProduceStatus],
        respond: Callable[[Sequence[ProduceStatus]], None],
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


def settle(status: ProduceStatus) -> None:
    """Decide one pending partition, if it can be decided now."""
    partition = status.partition
    assert partition is not None, "a pending status has a partition"
    error = partition.availability()
    if error is not ErrorCode.NONE:
        status.pending = False
        status.error = error
    elif partition.high_watermark >= status.result.required_offset:
        status.pending = False
        status.error = partition.acknowledgement_error()
