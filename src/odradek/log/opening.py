"""The steps of opening a log that do not doubt it: what is known, what files there are, reading in
what was left behind after a clean stop.

`recovery` says what is believed when; `verification` reads what is doubted.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NoReturn

from odradek.log import producer_snapshot
from odradek.log.fence import LogDamaged
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_config import LogConfig
from odradek.log.producer_state import ProducerState
from odradek.log.scan import BadBatch, walk
from odradek.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment
from odradek.log.segment_loading import reload_active
from odradek.log.swap_files import complete
from odradek.log.truncation import remove_segment
from odradek.model.env import Disk


@dataclass(slots=True)
class Recovery:
    """What opening a log took, for the broker's log and tests."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    torn: str = ""


@dataclass(slots=True)
class Known:
    """What is known of a log before it is read. `log_start_offset` None: not recorded.

    `deleted_before`: DeleteRecords or retention noted that the log starts there; 0: neither did.

    `compacted`: it was at some time, so offsets may have gaps whatever its settings say now.

    `exact`: the durable end is where one was noted, and so where a batch ends.
    """

    clean: bool = False
    recovery_point: int = 0
    durable_end: int = 0
    log_start_offset: int | None = None
    deleted_before: int = 0
    compacted: bool = False
    exact: bool = False


class Opening:
    """The log that is being opened: what is known of it, and what becomes its parts."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, known: Known) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.known = known
        self.found = Recovery()
        self.epochs = LeaderEpochs(directory)
        self.producers = ProducerState()
        self.names: list[str] = []
        self.sealed: list[Segment] = []  # whose indexes may not be on the disk

    def find_segments(self) -> list[Segment]:
        """The segments there are; leftovers of deletions and replacements are removed.

        A replacement that had come far enough is completed: see `swap_files`.
        """
        complete(self.disk, self.directory)
        names = list(self.disk.list(self.directory))
        logs = [name for name in names if name.endswith(LOG_SUFFIX) and name[:20].isdecimal()]
        stems = {name[:20] for name in logs}
        for name in names:
            orphan = name.endswith("index") and name[:20] not in stems
            if orphan or name.endswith((DELETED_SUFFIX, ".tmp")):
                self.disk.remove(f"{self.directory}/{name}")
        self.names = [name for name in names if name.endswith(SNAPSHOT_SUFFIX)]
        segments = [
            Segment(self.disk, self.directory, int(name[:20]), create=False) for name in logs
        ]
        start = self._recorded_start()
        if segments:
            if self.known.log_start_offset is not None and segments[0].base_offset > start:
                self.damaged(f"begins with offset {segments[0].base_offset} instead of {start}")
        elif self.known.durable_end > start:
            self.damaged(f"has no segments, though offset {self.known.durable_end} was reached")
        for segment in segments:
            segment.index_interval_bytes = self.config.index_interval_bytes
        return segments

    def first_segment(self, now_ms: int) -> Segment:
        """The first segment of a new log."""
        start = self._recorded_start()
        segment = Segment(self.disk, self.directory, start, create=True)
        segment.created_ms = now_ms
        segment.index_interval_bytes = self.config.index_interval_bytes
        return segment

    def damaged(self, what: str) -> NoReturn:
        """What was durable is not there."""
        raise LogDamaged(self.directory, what)

    def check_reached(self, start: int, offset: int, end: int) -> None:
        """Raise unless the batches from `start` to `end` reach the durable end, which is exactly at
        `offset`, where one of them ends. Base offsets are not under the checksum.
        """
        durable = self.known.durable_end
        if end < durable:
            self.damaged(f"ends at offset {end}, but {durable} was durable")
        if self.known.exact and start <= durable != offset:
            self.damaged(f"has no batch that ends at offset {durable}, which was the durable end")

    def from_recovery_point(self, segments: list[Segment]) -> list[Segment]:
        """The segments that recovery reads: the one that holds R, and those after it."""
        first = 0
        for number, segment in enumerate(segments):
            if segment.base_offset <= self.known.recovery_point:
                first = number
        return segments[first:]

    def log_start(self, segments: list[Segment]) -> int:
        """The first offset that may be read."""
        return max(segments[0].base_offset, self._recorded_start())

    def _recorded_start(self) -> int:
        return max(self.known.log_start_offset or 0, self.known.deleted_before)

    def begin_at_log_start(self, segments: list[Segment], end: int, now_ms: int) -> int:
        """The log ends before it starts: it begins anew at its start, which is returned.

        Not because of what only the checkpoint says, which has no checksum, if there are bytes.
        """
        start = self.log_start(segments)
        if start > self.known.deleted_before and any(segment.size for segment in segments):
            self.damaged(f"ends at offset {end}, before its start, {start}")
        self.found.torn = f"{self.directory}: what was before its start, {start}, is lost"
        for segment in segments:
            self.found.truncated_bytes += segment.size
            self.found.removed_segments += 1
            remove_segment(segment)
        segments[:] = [self.first_segment(now_ms)]
        self.epochs.truncate_from_end(0)
        self.producers.reset(end_offset=start)
        return start

    def reload(self, segments: list[Segment]) -> int:
        """After a clean stop: active segment and producers as they were; the log end offset."""
        try:
            end = reload_active(segments[-1])
            self.check_reached(segments[0].base_offset, end, end)
            self.restore_producers(segments, end)
            known_epochs = self.epochs.load(self.disk)
            self.epochs.truncate_from_end(end)
            if not known_epochs or self.epochs_missing(segments, end):
                self.all_epochs(segments)
        except BadBatch as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return end

    def restore_producers(self, segments: list[Segment], end: int) -> None:
        """From the newest sound snapshot at or below `end`, and the batches after it."""
        producer_snapshot.restore(
            self.disk, self.directory, self.producers, segments, end, self.names
        )

    def epochs_missing(self, segments: list[Segment], end: int) -> bool:
        """Whether the file begins later than the log, whose start was not recorded in time.

        What counts is the first batch: compaction may have left a gap before it.
        """
        entries = self.epochs.entries()
        start = self.log_start(segments)
        if start >= end or (entries and entries[0][1] <= start):
            return False
        holds_start = bisect_right([segment.base_offset for segment in segments], start) - 1
        for segment in segments[max(0, holds_start) :]:
            for _, header in segment.headers_from(start):
                if header.last_offset >= start:
                    return not entries or entries[0][1] > header.base_offset
        return False

    def all_epochs(self, segments: list[Segment]) -> None:
        """Make the summary of leader epochs anew from all batches."""
        self.epochs.truncate_from_end(0)
        for segment in segments:
            for _, header in walk(segment.file, 0, segment.size, segment.base_offset):
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
