"""Position: where the application is in one partition, the only state it shares with the engine.

    the application's thread writes    offset, leader_epoch, consumed..., released_bytes
    the engine's thread writes         all else, while the application waits in a call or has
                                       nothing of the partition (`move`)

Each value has one writer at a time, and reading an older value does no harm, so no lock is needed.

    consumed <= offset <= where the next fetch begins

- `offset` is the position as users know it: the offset of the next record to return.
- `consumed` is the offset that may be committed. It follows `offset` when the application comes
  back for more, because only then has it processed the records.
- `generation` changes with every seek, reset, or loss of the partition: what was fetched for an
  older generation is void.

Compiled: two of its values are written for every record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from odradek.client.consumer.metrics import PartitionMetrics
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek.client.consumer.fetch.completed_fetch import CompletedFetch


NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_END: Final = (1 << 63) - 1


@final
class Position:
    """The application's position in `topic_partition`; unknown at first."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.generation: i64 = 0
        self.offset: i64 = NO_OFFSET
        self.leader_epoch: i64 = NO_EPOCH
        """Epoch of the record before `offset`; -1 unknown."""
        self.consumed: i64 = NO_OFFSET
        self.consumed_epoch: i64 = NO_EPOCH
        self.end: i64 = NO_END
        """Reading stops at this offset (exclusive)."""
        self.paused = False
        """Paused by the application."""
        self.pending_revocation = False
        """The partition is about to be revoked."""
        self.released_bytes: i64 = 0
        """Bytes that were fetched for this position and are no longer buffered."""
        self.metrics = PartitionMetrics()
        self.fetches: deque[CompletedFetch] = deque()
        """The fetches to return next, in order. The application's thread only."""

    @property
    def withheld(self) -> bool:
        """True if nothing is returned or fetched at present."""
        return self.paused or self.pending_revocation

    @property
    def lag(self) -> int | None:
        """The number of offsets up to the end of the partition; None while that is unknown."""
        end = self.metrics.end
        return max(0, end - self.offset) if end >= 0 and self.offset >= 0 else None

    @property
    def lead(self) -> int | None:
        """The number of offsets from the start of the partition; None while that is unknown."""
        start = self.metrics.start
        return max(0, self.offset - start) if start >= 0 and self.offset >= 0 else None

    def mark_consumed(self) -> None:
        """Mark all returned records as consumed."""
        # The epoch first: an epoch that is too new does no harm, one that is too old
        # would look like a truncated log.
        self.consumed_epoch = self.leader_epoch
        self.consumed = self.offset

    def move(self, offset: i64, leader_epoch: i64) -> None:
        """Set the position to `offset` (-1: none for now) and discard the fetched records."""
        self.generation += 1
        self.leader_epoch = self.consumed_epoch = leader_epoch
        self.offset = self.consumed = offset

    def __repr__(self) -> str:
        return f"Position({self.topic_partition}, offset={self.offset}, consumed={self.consumed})"
