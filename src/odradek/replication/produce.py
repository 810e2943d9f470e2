"""DelayedProduce: a Produce with `acks=-1` that waits until the in-sync replicas have its records.

The request waits if at least one partition took its batch and that is not committed yet. The
response of such a partition has REQUEST_TIMED_OUT from the start, so the deadline needs no work. A
partition is done when it is no longer led here, when its directory is offline, when its high
watermark has reached the required offset, or when its leader is cut off (`leadership`): the client
must look for another one.

`DelayedByPartition` is the base of the operations that wait for each of their partitions: this one
and DelayedDeleteRecords.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from mypy_extensions import mypyc_attr

from odradek.model.errors import ErrorCode
from odradek.protocol.hot_produce import PartitionProduceResponse
from odradek.replication.partition import Partition
from odradek.timing import DelayedOperation

NONE: Final = ErrorCode.NONE


class PendingStatus(Protocol):
    """One partition of a request; `pending` while it waits."""

    pending: bool


S = TypeVar("S", bound=PendingStatus)


def already_answered(statuses: object) -> None:
    """Replaces `respond` after its call."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedByPartition(DelayedOperation, Generic[S]):
    """Completes when no partition is pending; `respond` is called once with all statuses."""

    def __init__(
        self, delay_ms: int, statuses: Sequence[S], respond: Callable[[Sequence[S]], None]
    ) -> None:
        super().__init__(delay_ms)
        self.statuses = statuses
        self.respond = respond

    @abstractmethod
    def update_status(self, status: S) -> None:
        """Set the outcome of a pending partition if it is known now."""

    def try_complete(self) -> bool:
        waits = False
        for status in self.statuses:
            if status.pending:
                self.update_status(status)
                waits = waits or status.pending
        return not waits and self.force_complete()

    def on_complete(self) -> None:
        statuses, respond = self.statuses, self.respond
        # The watch lists of other keys hold this operation until they are purged: free the request.
        self.statuses, self.respond = (), already_answered
        respond(statuses)

    def on_expiration(self) -> None:
        """Nothing to do: the statuses have REQUEST_TIMED_OUT from the start."""


class ProduceStatus:
    """A partition that waits until its high watermark reaches `required_offset`.

    `response` is part of the request's response already; only its error code changes.
    """

    __slots__ = ("partition", "pending", "required_offset", "response")

    def __init__(
        self, partition: Partition, required_offset: int, response: PartitionProduceResponse
    ) -> None:
        self.partition = partition
        self.required_offset = required_offset
        self.response = response
        self.pending = True


def update_produce_status(status: ProduceStatus) -> None:
    """Set the error of a pending partition's response if the outcome is known now."""
    partition = status.partition
    error = partition.availability()
    if error is not NONE:
        status.pending = False
        status.response.error_code = error
    elif partition.high_watermark >= status.required_offset:
        status.pending = False
        status.response.error_code = partition.acknowledgement_error()
    elif partition.is_cut_off:
        status.pending = False
        status.response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class DelayedProduce(DelayedByPartition[ProduceStatus]):
    """Waits until the appended batches are committed."""

    def update_status(self, status: ProduceStatus) -> None:
        update_produce_status(status)

    def on_complete(self) -> None:
        for status in self.statuses:
            if status.pending:  # At the deadline the leader may have been cut off meanwhile.
                update_produce_status(status)
        super().on_complete()
