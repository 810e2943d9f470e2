"""What is deleted when: by age, by size, and below the log start offset.

Whole segments go, oldest first, and never one that reaches above the high watermark:

    age         the largest timestamp of the segment is more than `retention.ms` ago
    size        the log without it still has at least `retention.bytes`
    start       the next segment begins at or below the log start offset (DeleteRecords)

A segment whose idempotent producers are in no snapshot yet waits for the flush that makes one.

The active segment goes only by age, after it has been rolled. A segment without any timestamp does
not age.

Deleting is split so that the owner thread never waits and a crash leaves either the old log or the
new one. The owner takes the segments out of the log and raises the log start offset at once
(`take`); a worker records the new log start offsets of the directory, then renames the files to
`.deleted` (`Deletion.rename`); after `file.delete.delay.ms`, in which readers that were given
slices finish, a worker removes them (`Deletion.remove`). Opening a log removes leftovers.

**Wall clocks lie.** `RetentionClock` turns a wall clock that somebody sets forward into time that
passes at most twice as fast as the monotonic clock says, so that a wrong year does not delete a log
before it is noticed. After a restart it starts from the wall clock again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from odradek.log.log import Log
from odradek.log.producer_snapshot import snapshot_offsets, snapshot_path
from odradek.log.segment import DELETED_SUFFIX, Segment
from odradek.model.env import Disk


class RetentionClock:
    """Wall time for retention, which does not jump forward."""

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, wall_ms: int, monotonic_ms: int) -> None:
        self._now_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def now_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """The time to compare record timestamps with."""
        passed = monotonic_ms - self._monotonic_ms
        self._monotonic_ms = monotonic_ms
        self._now_ms = min(wall_ms, self._now_ms + 2 * passed)
        return self._now_ms


@dataclass(slots=True)
class Deletion:
    """Segments that are out of their log, and whose files are to follow."""

    disk: Disk
    directory: str
    segments: list[Segment]
    log_start_offset: int
    delay_ms: int

    @property
    def bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def rename(self) -> None:
        """Rename the files, and remove producer snapshots from before the log. Worker."""
        for segment in self.segments:
            for path in segment.files():
                if self.disk.exists(path):
                    self.disk.rename(path, path + DELETED_SUFFIX)
        offsets = snapshot_offsets(list(self.disk.list(self.directory)))
        for offset in offsets[:-1]:
            if offset < self.log_start_offset:
                with suppress(FileNotFoundError):  # a flush removes old ones too
                    self.disk.remove(snapshot_path(self.directory, offset))

    def remove(self) -> None:
        """Remove the renamed files. Worker, after the delay; `close` first."""
        for segment in self.segments:
            for path in segment.files():
                if self.disk.exists(path + DELETED_SUFFIX):
                    self.disk.remove(path + DELETED_SUFFIX)

    def close(self) -> None:
        """Give back descriptors. Owner thread."""
        for segment in self.segments:
            segment.close()


class RetentionPass:
    """The files of one retention pass. `run` on a worker; `close` on the owner, after the delay;
    then `remove` on a worker.

    If `run` fails it may be run again, with a new `checkpoint`: the old one is out of date.
    """

    def __init__(self, deletions: list[Deletion], checkpoint: Callable[[], None]) -> None:
        self.deletions = deletions
        self.delay_ms = max(deletion.delay_ms for deletion in deletions)
        self.checkpoint = checkpoint

    @property
    def bytes(self) -> int:
        return sum(deletion.bytes for deletion in self.deletions)

    def run(self) -> None:
        """Record the new log start offsets, then rename. In this order: see the module."""
        self.checkpoint()
        for deletion in self.deletions:
            with suppress(FileNotFoundError):  # its partition was deleted meanwhile
                deletion.rename()

    def close(self) -> None:
        for deletion in self.deletions:
            deletion.close()

    def remove(self) -> None:
        for deletion in self.deletions:
            with suppress(FileNotFoundError):
                deletion.remove()


def delete_old_segments(log: Log, now_ms: int) -> Deletion | None:
    """Take what is to be deleted out of the log; `now_ms` by a `RetentionClock`.

    Of a log that is being compacted nothing: its turn comes with the next pass.
    """
    if log.cleaning:
        return None
    if log.config.delete:
        _roll_if_expired(log, now_ms)
    count = _deletable(log, now_ms)
    if count == 0:
        return None
    segments = log.remove_oldest_segments(count)
    return Deletion(
        log.disk, log.directory, segments, log.log_start_offset, log.config.file_delete_delay_ms
    )


def _roll_if_expired(log: Log, now_ms: int) -> None:
    """A log whose every record is too old gets a new, empty active segment."""
    active = log.segments.active
    if (
        active.size > 0
        and log.high_watermark >= log.log_end_offset
        and _expired(log, active, now_ms)
    ):
        log.roll(now_ms)


def _deletable(log: Log, now_ms: int) -> int:
    """How many of the oldest segments may go. `OSError`, `LogDamaged`."""
    spare = log.size - log.config.retention_bytes if log.config.retention_bytes >= 0 else 0
    count = 0
    for number, (segment, following) in enumerate(pairwise(log.segments.items)):
        spare -= segment.size
        below = following.base_offset <= log.log_start_offset
        old = log.config.delete and _expired(log, segment, now_ms)
        if old and not below:
            # By the end of an index that nobody has checked, perhaps. Records go for good.
            old = _expired(log, log.segments.loaded(number), now_ms)
        large = log.config.delete and log.config.retention_bytes >= 0 and spare >= 0
        if following.base_offset > log.high_watermark or not (below or old or large):
            break
        if not _producers_outlive(log, following.base_offset):
            break  # with the next pass: a flush comes first
        count += 1
    return count


def _producers_outlive(log: Log, offset: int) -> bool:
    """Whether idempotent producers are known without what is before `offset`."""
    return log.ensure_producers_snapshotted(offset)


def _expired(log: Log, segment: Segment, now_ms: int) -> bool:
    if log.config.retention_ms < 0:
        return False
    timestamp = segment.largest_timestamp()
    return timestamp >= 0 and now_ms - timestamp > log.config.retention_ms
