"""Which leader epoch began at which offset: `leader-epoch-checkpoint` (see `checkpoints`).

Every batch carries the epoch of the leader that appended it, so the file is a summary of the log
and can be made again from it; it is written with the next flush, not when an epoch begins.
Followers and consumers find by it where two logs part (KIP-101, KIP-279, KIP-320).

Invariant: epochs and start offsets ascend strictly; the last entry is the current epoch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import NamedTuple

from odradek.log import checkpoints
from odradek.log.checkpoints import (
    LEADER_EPOCH_FILE,
    MAX_EPOCH,
    MAX_OFFSET,
    BadCheckpoint,
    number,
)
from odradek.model.env import Disk

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEndOffset(NamedTuple):
    """The answer of OffsetForLeaderEpoch; -1 and -1: not known here."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of one log."""

    __slots__ = ("_epochs", "_starts", "dirty", "latest", "path")

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/{LEADER_EPOCH_FILE}"
        self.dirty = False
        self.latest = UNDEFINED_EPOCH
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def load(self, disk: Disk) -> bool:
        """Read the file; False if it is missing or not sound (the epochs are then in the log)."""
        if not disk.exists(self.path):
            return False
        try:
            rows = checkpoints.decode(disk.read_file(self.path), self.path, 2)
            entries = [(number(row[0], MAX_EPOCH), number(row[1], MAX_OFFSET)) for row in rows]
        except (BadCheckpoint, ValueError):
            return False
        for before, after in pairwise(entries):
            if before[0] >= after[0] or before[1] >= after[1]:
                return False
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self._changed()
        self.dirty = False
        return True

    def encode(self) -> bytes:
        """The contents of the file."""
        return checkpoints.encode(self.entries())

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts))

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.dirty = True

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`; entries that contradict it go. No change if known."""
        if epoch < 0 or epoch == self.latest:
            return
        self.truncate_from_end(start_offset)
        keep = bisect_left(self._epochs, epoch)
        del self._epochs[keep:]
        del self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed()

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: epochs that began there or later go."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:]
            del self._starts[keep:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`: epochs that ended before it go."""
        keep = bisect_right(self._starts, start_offset) - 1
        if keep >= 0 and (keep > 0 or self._starts[0] < start_offset):
            del self._epochs[:keep]
            del self._starts[:keep]
            self._starts[0] = start_offset
            self._changed()

    def epoch_at(self, offset: int) -> int:
        """The epoch of the batch at `offset`; -1 if it is before the first known one."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where the largest epoch at or below `epoch` ends in this log.

        The current epoch ends at the log end offset. Not known: an epoch above the current one, or
        -1. An epoch below the first one is answered with itself and the first start offset.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest or not self._epochs:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == self.latest:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        floor = self._epochs[higher - 1] if higher > 0 else epoch
        return EpochEndOffset(floor, self._starts[higher])
