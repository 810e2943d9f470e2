"""The start offset of each leader epoch: `leader-epoch-checkpoint` (see `checkpoints`).

Every batch has the epoch of the leader that appended it, so the file is a summary of the log and
can be rebuilt from it. It is written with the next flush, not when an epoch begins. Followers and
consumers find with it where two logs diverge (KIP-101, KIP-279, KIP-320).

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
    parse_number,
)
from odradek.model.env import Disk

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEndOffset(NamedTuple):
    """The answer of OffsetForLeaderEpoch; -1 and -1 if the epoch is not known here."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs of one log (Kafka's LeaderEpochFileCache)."""

    __slots__ = ("_epochs", "_starts", "dirty", "latest", "path")

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/{LEADER_EPOCH_FILE}"
        self.dirty = False
        self.latest = UNDEFINED_EPOCH
        self._epochs: list[int] = []
        self._starts: list[int] = []

    def load(self, disk: Disk) -> bool:
        """Read the file. False if it is missing or not sound: then rebuild it from the log."""
        if not disk.exists(self.path):
            return False
        try:
            rows = checkpoints.decode(disk.read_file(self.path), self.path, 2)
            entries = [
                (parse_number(row[0], MAX_EPOCH), parse_number(row[1], MAX_OFFSET)) for row in rows
            ]
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
        """Return the contents of the file."""
        return checkpoints.encode(self.entries())

    def entries(self) -> list[tuple[int, int]]:
        """Return the (epoch, start offset) pairs, ascending."""
        return list(zip(self._epochs, self._starts))

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.dirty = True

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin `epoch` at `start_offset` and remove entries that contradict it.

        Nothing changes if `epoch` is the latest.
        """
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
        """Remove the epochs that begin at or after `end_offset`, where the log now ends."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:]
            del self._starts[keep:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end before `start_offset`, where the log now starts."""
        keep = bisect_right(self._starts, start_offset) - 1
        if keep >= 0 and (keep > 0 or self._starts[0] < start_offset):
            del self._epochs[:keep]
            del self._starts[:keep]
            self._starts[0] = start_offset
            self._changed()

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the batch at `offset`, or -1 before the first known epoch."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the end offset of the largest epoch at or below `epoch` in this log.

        The current epoch ends at the log end offset. -1 and -1 for an epoch above the current one
        and for -1. An epoch below the first one returns itself and the first start offset.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest or not self._epochs:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == self.latest:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        floor = self._epochs[higher - 1] if higher > 0 else epoch
        return EpochEndOffset(floor, self._starts[higher])
