"""A simulated reader's half of an incremental fetch session (KIP-227).

    full request (epoch 0) ──► the broker gave a session ──► incremental (epoch 1, 2, ...)
        ▲    ▲                                                     │
        │    └── it gave none: the next is full again              │
        └── no answer, an error of the session, or on a whim ◄─────┘

An incremental request lists the partitions whose position has changed since the last answered one,
and those to forget. Written apart from our own client's: one has to agree with the broker, not the
two with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition

SESSIONLESS, FULL = -1, 0

SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


@dataclass(slots=True)
class Session:
    """Which session it is, and what the broker was told in it."""

    id: int = 0
    epoch: int = FULL
    told: dict[TopicPartition, int] = field(default_factory=dict)

    def to_list(
        self, wanted: Sequence[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The partitions that the next request lists, and those it forgets."""
        if self.epoch == FULL:
            self.told = {}
        listed = [tp for tp in wanted if self.told.get(tp) != positions[tp]]
        forgotten = [tp for tp in self.told if tp not in wanted]
        self.told = {tp: positions[tp] for tp in wanted}
        return listed, forgotten

    def answered(self, session_id: int) -> None:
        """The broker answered, from the session of this id (0: it keeps none)."""
        self.id = session_id
        self.epoch = self.epoch + 1 if session_id else FULL

    def lost(self) -> None:
        """Nobody knows what the broker knows: begin anew, in the place of the old one."""
        self.epoch = FULL
