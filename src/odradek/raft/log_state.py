"""The state of the metadata log that the quorum decides by: offsets, epochs and voter sets.

The bytes are elsewhere. Whoever runs the core carries out its effects on the real log in order, so
both stay equal.

    start.end_offset <= high_watermark <= end_offset
    flushed_offset <= end_offset            before it everything is on this replica's disk

Voter sets are records of the log (KIP-853). The latest one in the log holds from the moment it is
appended, committed or not; truncating it brings back the one before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.raft.replicas import QuorumEndpoint, Voter, VoterSet
from odradek.raft.value import value

NO_OFFSET: Final = -1


class OffsetAndEpoch(NamedTuple):
    """An end offset and the epoch of the record before it: a snapshot's id, or a divergence."""

    offset: int
    epoch: int


@value
class RaftBatch:
    """One batch of the metadata log. The core looks at everything but `payload`.

    `voters` is set in a batch that holds a VotersRecord.
    """

    base_offset: int
    record_count: int
    epoch: int
    payload: object = None
    voters: VoterSet | None = None

    @property
    def end_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.record_count


class LogState:
    """Offsets, epochs and voter sets of one replica's metadata log."""

    __slots__ = (
        "_epochs",
        "_starts",
        "_voters",
        "end_offset",
        "flushed_offset",
        "high_watermark",
        "start",
    )

    def __init__(self, voters: VoterSet, start: OffsetAndEpoch | None = None) -> None:
        """A log that begins after the snapshot `start`, in which `voters` were the voters."""
        self.begin_at(start or OffsetAndEpoch(0, 0), voters)

    def begin_at(self, start: OffsetAndEpoch, voters: VoterSet) -> None:
        """Replace everything by the snapshot `start`, with its voters."""
        self.start = start
        self.end_offset = start.offset
        self.flushed_offset = start.offset
        self.high_watermark = start.offset
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._voters: list[tuple[int, VoterSet]] = [(NO_OFFSET, voters)]

    def load(self, batches: Iterable[RaftBatch], high_watermark: int = 0) -> None:
        """Take over the batches that are on disk; only at a start."""
        for batch in batches:
            self.append(batch)
        self.flushed_offset = self.end_offset
        self.high_watermark = max(self.high_watermark, min(high_watermark, self.end_offset))

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot if there is none after it."""
        return self._epochs[-1] if self._epochs else self.start.epoch

    @property
    def last(self) -> OffsetAndEpoch:
        """The end offset and the last epoch: what votes are compared by."""
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def voters(self) -> VoterSet:
        """The latest voter set in the log."""
        return self._voters[-1][1]

    def move_voters(self, moved: Mapping[int, QuorumEndpoint]) -> None:
        """Reach these voters, by node id, at other addresses than the recorded ones, until there is
        a newer record; only at a start.
        """
        offset, voters = self._voters[-1]
        self._voters[-1] = (
            offset,
            VoterSet(
                Voter(each.key, (moved[each.key.id],)) if each.key.id in moved else each
                for each in voters
            ),
        )

    @property
    def previous_voters(self) -> VoterSet:
        """The voter set before the latest one, or the same if the log has no other."""
        return self._voters[-2 if len(self._voters) > 1 else -1][1]

    @property
    def voters_offset(self) -> int:
        """The offset of the latest VotersRecord, or -1 if the set comes from the snapshot."""
        return self._voters[-1][0]

    def voters_at(self, offset: int) -> VoterSet:
        """Return the voter set as of the records before `offset`."""
        slot = bisect_right(self._voters, offset - 1, key=lambda entry: entry[0])
        return self._voters[max(slot - 1, 0)][1]

    def is_up_to_date(self, other: OffsetAndEpoch) -> bool:
        """True if a log that ends like `other` has every record committed here (Raft §5.4.1)."""
        return (other.epoch, other.offset) >= (self.last_epoch, self.end_offset)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch at or below `epoch` in this log, and where it ends."""
        if epoch < self.start.epoch:
            return OffsetAndEpoch(self.start.offset, self.start.epoch)
        slot = bisect_right(self._epochs, epoch)
        end = self._starts[slot] if slot < len(self._starts) else self.end_offset
        return OffsetAndEpoch(end, self._epochs[slot - 1] if slot else self.start.epoch)

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the record before `offset`."""
        slot = bisect_right(self._starts, offset - 1) - 1
        return self._epochs[slot] if slot >= 0 else self.start.epoch

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> OffsetAndEpoch | None:
        """Return where another log diverges from this one, None if it is a prefix of it.

        The other log ends at `fetch_offset` with a record of `last_fetched_epoch`.
        """
        known = self.end_offset_for_epoch(last_fetched_epoch)
        if known.epoch != last_fetched_epoch or fetch_offset > known.offset:
            return known
        return None

    def needs_snapshot(self, fetch_offset: int, last_fetched_epoch: int) -> bool:
        """True if a log that ends there can only go on from the snapshot."""
        if fetch_offset < self.start.offset:
            return True
        if fetch_offset == self.start.offset:
            return last_fetched_epoch != self.start.epoch
        return last_fetched_epoch < self.start.epoch

    def append(self, batch: RaftBatch) -> None:
        """Append a batch, which begins at the end offset."""
        if batch.base_offset != self.end_offset or batch.record_count < 1:
            raise ValueError(f"batch at {batch.base_offset}, the log ends at {self.end_offset}")
        if batch.epoch < self.last_epoch:
            raise ValueError(f"batch of epoch {batch.epoch} after epoch {self.last_epoch}")
        if not self._epochs or batch.epoch != self._epochs[-1]:
            self._epochs.append(batch.epoch)
            self._starts.append(batch.base_offset)
        if batch.voters is not None:
            self._voters.append((batch.base_offset, batch.voters))
        self.end_offset = batch.end_offset

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on."""
        if offset < self.high_watermark:
            raise ValueError(f"truncation to {offset}, committed up to {self.high_watermark}")
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
        while self._voters[-1][0] >= offset:
            self._voters.pop()
        self.end_offset = min(self.end_offset, offset)
        self.flushed_offset = min(self.flushed_offset, offset)

    def raise_start(self, start: OffsetAndEpoch) -> None:
        """Remove the records that the snapshot `start`, at or below the high watermark, holds."""
        if not self.start.offset <= start.offset <= self.high_watermark:
            raise ValueError(f"snapshot at {start.offset}, committed up to {self.high_watermark}")
        voters = self.voters_at(start.offset)
        later = [entry for entry in self._voters if entry[0] >= start.offset]
        self._voters = [(NO_OFFSET, voters), *later]
        keep = bisect_right(self._starts, start.offset) - 1
        if keep >= 0:
            del self._epochs[:keep], self._starts[:keep]
            self._starts[0] = start.offset
            if start.offset == self.end_offset:
                self._epochs.clear()
                self._starts.clear()
        self.start = start
