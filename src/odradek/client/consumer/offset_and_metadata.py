"""What is committed for a partition: an offset, the leader epoch before it, and a note."""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER_EPOCH = -1


class OffsetAndMetadata(NamedTuple):
    """`offset` is that of the next record to read. `metadata` is the committer's own text."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH
    """Of the last record read, so that a truncated log is noticed; -1 unknown."""
