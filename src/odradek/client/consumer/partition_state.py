"""One assigned partition: where fetching stands, which runs ahead of the application.

                  a committed offset, or seek                 the leader moved on
    INITIALIZING ────────────────────────────► FETCHING ◄──────────────────────► AWAIT_VALIDATION
         │                                      ▲    │                               │
         │ nothing committed        offset found│    │ out of range                  │ truncated
         └───────────────────────► AWAIT_RESET ─┴────┴───────────────────────────────┘

- INITIALIZING: no position is known yet.
- FETCHING: `fetch_offset` is where the next fetch begins.
- AWAIT_RESET: the position is being looked up, by `reset`.
- AWAIT_VALIDATION: the leader is being asked (KIP-320) whether its log still agrees with what was
  read up to `fetch_offset`, whose last record was of `fetch_epoch`.

The application follows behind, by way of `position`: what it was not handed yet stays good whatever
happens here, until `position.move`. So an end that was reached too far ahead (the offset is out of
range, the log was truncated) is `held` until the application comes to it.

The engine's thread only.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from odradek.client.consumer.position import NO_EPOCH, NO_OFFSET, Position
from odradek.config.offset_reset import OffsetReset
from odradek.model.topics import TopicPartition


class FetchState(Enum):
    """See the diagram above."""

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"


class FetchPosition(NamedTuple):
    """Where to read on, and what is known of the record before: enough to notice a truncation."""

    offset: int
    offset_epoch: int = NO_EPOCH
    """Of the record before `offset`; -1 unknown."""


class Leader(NamedTuple):
    """Who leads the partition, in which epoch; -1 unknown."""

    node_id: int = -1
    epoch: int = NO_EPOCH


NO_LEADER = Leader()


class PartitionState:
    """The state of `topic_partition`, which is assigned."""

    __slots__ = (
        "failures",
        "fetch",
        "fetched_bytes",
        "held",
        "high_watermark",
        "last_stable_offset",
        "leader",
        "log_start_offset",
        "next_retry_ms",
        "position",
        "reset",
        "state",
        "topic_partition",
        "uncommitted",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.position = Position(topic_partition)
        self.state = FetchState.INITIALIZING
        self.fetch = FetchPosition(NO_OFFSET)
        """Where the next fetch begins."""
        self.leader = NO_LEADER
        """The leader that `fetch` was last found to agree with."""
        self.reset: OffsetReset | None = None
        """How a new position is being looked up."""
        self.next_retry_ms = 0
        """Nothing is to be asked about this partition before."""
        self.failures = 0
        """In a row, of asking about it."""
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.held = False
        """Something is on its way to the application that decides how to go on."""
        self.uncommitted = False
        """The group has no offset for it, and nothing says where else to begin."""
        self.fetched_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Fetched, and not handed out or thrown away yet."""
        return self.fetched_bytes - self.position.released_bytes

    @property
    def is_fetchable(self) -> bool:
        """Whether more may be fetched, as far as this partition is concerned."""
        position = self.position
        return (
            self.state is FetchState.FETCHING
            and not self.held
            and not position.withheld
            and self.fetch.offset < position.end
        )

    # Moving.

    def seek(self, to: FetchPosition) -> None:
        """Go on there, in all certainty that the leader has that offset, or will say so."""
        self.position.move(to.offset, to.offset_epoch)
        self._start_over(FetchState.FETCHING, to, None)

    def seek_unvalidated(self, to: FetchPosition) -> None:
        """Go on there when the leader has confirmed it; at once if there is nothing to confirm."""
        self.seek(to)
        self.leader = NO_LEADER

    def request_reset(self, reset: OffsetReset) -> None:
        """Look the position up anew."""
        self.position.move(NO_OFFSET, NO_EPOCH)
        self._start_over(FetchState.AWAIT_RESET, FetchPosition(NO_OFFSET), reset)

    def _start_over(self, state: FetchState, at: FetchPosition, reset: OffsetReset | None) -> None:
        self.state = state
        self.fetch = at
        self.reset = reset
        self.next_retry_ms = 0
        self.failures = 0
        self.held = False
        self.uncommitted = False

    def fetched(self, next_offset: int, epoch: int, size: int) -> None:
        """More was fetched, up to there."""
        self.fetch = FetchPosition(next_offset, epoch)
        self.fetched_bytes += size
        self.failures = 0

    # Validation.

    def meet_leader(self, leader: Leader) -> None:
        """This is the leader now. What was read is validated if it may be another log's."""
        if self.state is FetchState.AWAIT_RESET or self.state is FetchState.INITIALIZING:
            self.leader = leader
        elif leader.node_id >= 0 and leader != self.leader:
            self.leader = leader
            if self.fetch.offset_epoch != NO_EPOCH and leader.epoch != NO_EPOCH:
                self.state = FetchState.AWAIT_VALIDATION
                self.next_retry_ms = 0
            else:
                self.state = FetchState.FETCHING

    def validated(self) -> None:
        """The leader's log agrees."""
        if self.state is FetchState.AWAIT_VALIDATION:
            self.state = FetchState.FETCHING

    # What is known of the log.

    def lag(self, read_committed: bool) -> int | None:
        """Records between the application and the end it may read to; None if not known yet."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        offset = self.position.offset
        return None if end is None or offset < 0 else max(0, end - offset)

    @property
    def lead(self) -> int | None:
        """Records between the start of the log and the application; None if not known yet."""
        start, offset = self.log_start_offset, self.position.offset
        return None if start is None or offset < 0 else max(0, offset - start)
