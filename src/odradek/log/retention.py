"""Retention: deletion of old segments by age, by size and below the log start offset.

Whole segments are deleted, oldest first, and never one that reaches above the high watermark:

    age         the largest timestamp of the segment is more than `retention.ms` ago
    size        the log without it still has at least `retention.bytes`
    start       the next segment begins at or below the log start offset (DeleteRecords)

A segment whose idempotent producers are in no snapshot yet waits for the flush that writes one. The
active segment is deleted only by age, after it has been rolled. A segment without any timestamp
does not age.

Deletion is split so that the owner thread never waits and a crash leaves either the old log or the
new one. The owner removes the segments from the log and raises the log start offset at once
(`Log.remove_oldest_segments`). A worker writes the new log start offsets of the directory, then
renames the files to `.deleted` (`Deletion.rename`). After `file.delete.delay.ms`, in which reads of
these files finish, a worker removes them (`Deletion.remove`). Opening a log removes leftovers.

**Wall clocks jump.** If the wall clock is set forward, the time of `RetentionClock` passes at most
twice as fast as the monotonic clock, so that a wrong year does not delete a log before somebody
notices. After a restart it starts from the wall clock again. Committed offsets and transactional
ids expire by such a clock too (`coordinator.shard`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from odradek.log.log import Log
from odradek.log.producer_snapshot import snapshot_offsets, snapshot_path
from odradek.log.segment import DELETED_SUFFIX, Segment
from odradek.model.env import Clock, Disk


class RetentionClock:
    """Wall time that does not jump forward, for retention. It starts when it is made."""

    __slots__ = ("_clock", "_monotonic_ms", "_now_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now_ms = clock.wall_ms()
        self._monotonic_ms = clock.monotonic_ms()

    def now_ms(self) -> int:
        """Read the time with which record timestamps are compared."""
        monotonic_ms = self._clock.monotonic_ms()
        passed = monotonic_ms - self._monotonic_ms
        self._monotonic_ms = monotonic_ms
        self._now_ms = min(self._clock.wall_ms(), self._now_ms + 2 * passed)
        return self._now_ms


@dataclass(slots=True)
class Deletion:
    """Segments that were removed from their log and whose files are to be removed."""

    disk: Disk
    directory: str
    segments: list[Segment]
    log_start_offset: int
    delay_ms: int

    @property
    def bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def rename(self) -> None:
        """Rename the files and remove producer snapshots from before the log start. Worker."""
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
        """Close the files. Owner thread."""
        for segment in self.segments:
            segment.close()


class RetentionPass:
    """The deletions of one retention pass.

    `run` on a worker; after the delay `close` on the owner thread; then `remove` on a worker. If
    `run` fails it may be called again, with a new `checkpoint`: the old one is out of date.
    """

    def __init__(self, deletions: list[Deletion], checkpoint: Callable[[], None]) -> None:
        self.deletions = deletions
        self.delay_ms = max(deletion.delay_ms for deletion in deletions)
        self.checkpoint = checkpoint

    @property
    def bytes(self) -> int:
        return sum(deletion.bytes for deletion in self.deletions)

    def run(self) -> None:
        """Write the new log start offsets, then rename the files: in this order, see the module."""
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
    """Remove the segments that retention deletes from the log; None if there are none.

    `now_ms`: time of a `RetentionClock`. A log that is being compacted waits for the next pass.
    """
    if log.cleaning or log.truncating:
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
    """Begin a new active segment if every record of the log has expired."""
    active = log.segments.active
    if (
        active.size > 0
        and log.high_watermark >= log.log_end_offset
        and _expired(log, active, now_ms)
    ):
        log.roll(now_ms)


def _deletable(log: Log, now_ms: int) -> int:
    """Return how many of the oldest segments may be deleted. Raises `OSError`, `LogDamaged`."""
    spare = log.size - log.config.retention_bytes if log.config.retention_bytes >= 0 else 0
    count = 0
    for number, (segment, following) in enumerate(pairwise(log.segments.items)):
        spare -= segment.size
        below = following.base_offset <= log.log_start_offset
        old = log.config.delete and _expired(log, segment, now_ms)
        if old and not below:
            # The timestamp may come from an index that was not checked yet: check it first.
            old = _expired(log, log.segments.loaded(number), now_ms)
        large = log.config.delete and log.config.retention_bytes >= 0 and spare >= 0
        if following.base_offset > log.high_watermark or not (below or old or large):
            break
        if not log.ensure_producers_snapshotted(following.base_offset):
            break  # deleted by the next pass, after a flush
        count += 1
    return count


def _expired(log: Log, segment: Segment, now_ms: int) -> bool:
    if log.config.retention_ms < 0:
        return False
    timestamp = segment.largest_timestamp()
    return timestamp >= 0 and now_ms - timestamp > log.config.retention_ms
