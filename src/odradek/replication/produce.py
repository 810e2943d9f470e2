"""What produces and trims have in common while they wait: partitions that are settled one by
one.

DelayedProduce: a produce with `acks=-1` that waits until the in-sync replicas have its records.

Parked when `acks` is -1 and at least one partition took its batch. Each such partition starts out
pending with REQUEST_TIMED_OUT preset, so that expiry needs no work. `try_complete` settles a
partition when it is no longer led here, when its directory went offline, or when its high watermark
has reached the required offset.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from odradek.model.errors import ErrorCode
from odradek.protocol.hot_produce import PartitionProduceResponse
from odradek.replication.partition import Partition
from odradek.timing import DelayedOperation


class Pending(Protocol):
    """One partition of a request: whether it still waits."""

    pending: bool


S = TypeVar("S", bound=Pending)


def answered(statuses: object) -> None:
    """In the place of `respond` when it has been called."""


class DelayedByPartition(DelayedOperation, Generic[S]):
    """Completes when no partition is pending; `respond` is called once with all statuses.

    Those still pending at the deadline say REQUEST_TIMED_OUT from the start, so expiry has no work.
    """

    def __init__(
        self, delay_ms: int, statuses: Sequence[S], respond: Callable[[Sequence[S]], None]
    ) -> None:
        super().__init__(delay_ms)
        self.statuses = statuses
        self.respond = respond

    @abstractmethod
    def settle(self, status: S) -> None:
        """Decide a pending partition, if it can be decided now."""

    def try_complete(self) -> bool:
        waits = False
        for status in self.statuses:
            if status.pending:
                self.settle(status)
                waits = waits or status.pending
        return not waits and self.force_complete()

    def on_complete(self) -> None:
        statuses, respond = self.statuses, self.respond
        # The lists of other keys hold this until they are purged, but not the request with it.
        self.statuses, self.respond = (), answered
        respond(statuses)

    def on_expiration(self) -> None:
        """The statuses say it."""


class ProduceStatus:
    """A partition that waits: committed when its high watermark reaches `required_offset`.

    `response` is already in the list of answers, with REQUEST_TIMED_OUT; only its error changes.
    """

    __slots__ = ("partition", "pending", "required_offset", "response")

    def __init__(
        self, partition: Partition, required_offset: int, response: PartitionProduceResponse
    ) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.response = response
        self.pending = True


def settle(status: ProduceStatus) -> None:
    """Decide a pending partition, if it can be decided now."""
    partition = status.partition
    error = partition.availability()
    if error is not ErrorCode.NONE:
        status.pending = False
        status.response.error_code = error
    elif partition.high_watermark >= status.required_offset:
        status.pending = False
        status.response.error_code = partition.acknowledgement_error()


class DelayedProduce(DelayedByPartition[ProduceStatus]):
    """See the module."""

    def settle(self, status: ProduceStatus) -> None:
        settle(status)
