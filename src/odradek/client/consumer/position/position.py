"""How far the application is in one partition: the one thing it shares with the engine.

    the application's thread writes    offset, leader_epoch, consumed..., released_bytes
    the engine's thread writes         all else, while the application waits in a call or has
                                       nothing of the partition (`move`)

Each value has one writer at a time and whoever reads an older one of it does no harm, so no lock is
needed.

    consumed <= offset <= where the next fetch begins

- `offset` is the position as users know it: of the next record to hand out.
- `consumed` is what may be committed for the application: it follows `offset` when the application
  comes back for more, for only then is it done with what it got.
- `generation` changes with every seek, reset, or loss of the partition: what was fetched for an
  older generation is void.

A compiled leaf: two of its values are written for every record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek.client.consumer.fetch.completed_fetch import CompletedFetch


NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_END: Final = (1 << 63) - 1


@final
class Position:
    """Where the application is in `topic_partition`; nowhere at first."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.generation: i64 = 0
        self.offset: i64 = NO_OFFSET
        self.leader_epoch: i64 = NO_EPOCH
        """Of the record before `offset`; -1 unknown."""
        self.consumed: i64 = NO_OFFSET
        self.consumed_epoch: i64 = NO_EPOCH
        self.end: i64 = NO_END
        """Records from here on are not wanted."""
        self.paused = False
        """By the application."""
        self.pending_revocation = False
        """It is about to be taken away."""
        self.released_bytes: i64 = 0
        """Of all bytes fetched for this position, those that are not held any more."""
        self.fetches: deque[CompletedFetch] = deque()
        """What is next to hand out. The application's thread only."""

    @property
    def withheld(self) -> bool:
        """Whether nothing is to be handed out, nor fetched, for now."""
        return self.paused or self.pending_revocation

    def mark_consumed(self) -> None:
        """The application is done with all that was handed out."""
        # The epoch first: an offset with too new an epoch does no harm, one with too old an epoch
        # would look like a log that was truncated.
        self.consumed_epoch = self.leader_epoch
        self.consumed = self.offset

    def move(self, offset: i64, leader_epoch: i64) -> None:
        """Go on elsewhere, or (-1) nowhere for now: what was fetched is void."""
        self.generation += 1
        self.leader_epoch = self.consumed_epoch = leader_epoch
        self.offset = self.consumed = offset

    def __repr__(self) -> str:
        return f"Position({self.topic_partition}, offset={self.offset}, consumed={self.consumed})"
