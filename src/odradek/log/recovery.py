"""The steps of opening a log that do not doubt it: what is known, what files there are, reading in
what was left behind after a clean stop.

`recovery` says what is believed when; `verification` reads what is doubted.

Reading what a crash left of a log: from the recovery point to the end, or to where it is torn.

What is believed, and what a batch that is not sound means, is said in `recovery`. The steps:

    verify    every batch from R on: checksum, order; indexes, epochs and producers from there
    judge     not sound below K: damage, raised. At or above it: a torn tail
    cut       the log at the torn place; later segments go as a whole
    rewrite   what lies above K, so that the next sync reaches it

R is the recovery point, K the durable end.

Opening a log: what is believed after a clean stop, after the death of the process, after a power
loss.

What is known before a byte of the log is read:

    R  recovery point   bytes, indexes and leader epochs below it were synced, and so was a producer
                        snapshot, at most an index interval further back
    K  durable end      bytes below it were synced, and may have been acknowledged; K >= R

both from the log's slot in `durable-ends`, or, if that is absent, R from the checkpoint and K = R.

The rule. After a **clean stop** R = K = log end: only the tail after the last index entry is
walked. Otherwise every batch from R on is read and its checksum verified, to the end of the last
segment or to the first batch that is not sound (cut short, impossible header, checksum, offset
going back):

    not sound below K, or the log ends below K     durable bytes are lost: **damage**. The partition
                                                   stays offline; no `.log` file is changed.
    not sound at or above K                        a **torn tail**: what the dying process or the
                                                   power loss left of unsynced appends. The log is
                                                   cut there; whole segments after it are removed.
    no batch ends at K                             a base offset, which is under no checksum, is not
                                                   what it was: **damage**. Not asked of a K that is
                                                   known from the checkpoint only.

So nothing that was durable is ever cut away, and nothing that was not is ever waited for. In what
is above K, the order of sound and unsound batches says nothing (pages reach the disk in any order);
below K it needs no interpretation. K is exact after the death of the process; after a power loss it
may be older by one interval of the directory's checkpoint, and bytes between the two are judged as
a torn tail would be: for that a disk must damage acknowledged bytes and the power fail within that
interval.

Records may be deleted before they are durable (`log.durability=os`). If a power loss then takes
more of them than the noted log start knows of, nothing is left that may be read, and the log begins
anew, empty, at its start: offsets are never given twice.

Damage below R is found when it is met, not here: a closed segment is checked on first use (its last
batch must end with the file and just before the next segment; index entries must point to the
batches they name), and clients check every batch they fetch.

Indexes are kept up to R and made again from there; if they are missing or do not fit, from the
start of their segment. Producers start from the newest sound snapshot at or below R and take in the
batches after it. The leader epochs' file is a summary of the log and made again if it does not
check.

What lies above K is written again, byte for byte, before it is synced. It was read from the page
cache, and if the last process ended because an fsync failed, the kernel holds those pages there
marked clean although they never reached the disk: no fsync would write them, and what it called
durable would be gone with the power.

Afterwards what was read is synced and R = K = log end, so that a second crash costs nothing twice;
if it was much and nothing was cut, that is left to the first flush, and the log is `dirty`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from odradek.log import producer_snapshot
from odradek.log.compaction.segment_swap import complete_swaps
from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence, LogDamaged
from odradek.log.index import IndexCache
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_segments import (
    LogSegments,
    complete_indexes,
    indexes_match,
    load_active,
    remove_segment,
    truncate_segment,
)
from odradek.log.producer_state import ProducerState
from odradek.log.scan import SCAN_BYTES, BadBatch, walk
from odradek.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment
from odradek.model.env import Disk


@dataclass(slots=True)
class RecoveryStats:
    """What opening a log took, for the broker's log and tests."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    torn: str = ""


@dataclass(slots=True)
class RecordedState:
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


class LogLoader:
    """The log that is being opened: what is known of it, and what becomes its parts."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, known: RecordedState) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.known = known
        self.stats = RecoveryStats()
        self.epochs = LeaderEpochs(directory)
        self.producers = ProducerState()
        self.names: list[str] = []
        self.sealed: list[Segment] = []  # whose indexes may not be on the disk

    def find_segments(self) -> list[Segment]:
        """The segments there are; leftovers of deletions and replacements are removed.

        A replacement that had come far enough is completed: see `swap_files`.
        """
        complete_swaps(self.disk, self.directory)
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
                self.raise_damaged(
                    f"begins with offset {segments[0].base_offset} instead of {start}"
                )
        elif self.known.durable_end > start:
            self.raise_damaged(
                f"has no segments, though offset {self.known.durable_end} was reached"
            )
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

    def raise_damaged(self, what: str) -> NoReturn:
        """What was durable is not there."""
        raise LogDamaged(self.directory, what)

    def check_durable_end(self, start: int, offset: int, end: int) -> None:
        """Raise unless the batches from `start` to `end` reach the durable end, which is exactly at
        `offset`, where one of them ends. Base offsets are not under the checksum.
        """
        durable = self.known.durable_end
        if end < durable:
            self.raise_damaged(f"ends at offset {end}, but {durable} was durable")
        if self.known.exact and start <= durable != offset:
            self.raise_damaged(
                f"has no batch that ends at offset {durable}, which was the durable end"
            )

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

    def restart_at_log_start(self, segments: list[Segment], end: int, now_ms: int) -> int:
        """The log ends before it starts: it begins anew at its start, which is returned.

        Not because of what only the checkpoint says, which has no checksum, if there are bytes.
        """
        start = self.log_start(segments)
        if start > self.known.deleted_before and any(segment.size for segment in segments):
            self.raise_damaged(f"ends at offset {end}, before its start, {start}")
        self.stats.torn = f"{self.directory}: what was before its start, {start}, is lost"
        for segment in segments:
            self.stats.truncated_bytes += segment.size
            self.stats.removed_segments += 1
            remove_segment(segment)
        segments[:] = [self.first_segment(now_ms)]
        self.epochs.truncate_from_end(0)
        self.producers.reset(end_offset=start)
        return start

    def load_clean(self, segments: list[Segment]) -> int:
        """After a clean stop: active segment and producers as they were; the log end offset."""
        try:
            end = load_active(segments[-1])
            self.check_durable_end(segments[0].base_offset, end, end)
            self.restore_producers(segments, end)
            known_epochs = self.epochs.load(self.disk)
            self.epochs.truncate_from_end(end)
            if not known_epochs or self.epochs_incomplete(segments, end):
                self.rebuild_epochs(segments)
        except BadBatch as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return end

    def restore_producers(self, segments: list[Segment], end: int) -> None:
        """From the newest sound snapshot at or below `end`, and the batches after it."""
        producer_snapshot.restore(
            self.disk, self.directory, self.producers, segments, end, self.names
        )

    def epochs_incomplete(self, segments: list[Segment], end: int) -> bool:
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

    def rebuild_epochs(self, segments: list[Segment]) -> None:
        """Make the summary of leader epochs anew from all batches."""
        self.epochs.truncate_from_end(0)
        for segment in segments:
            for _, header in walk(segment.file, 0, segment.size, segment.base_offset):
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)


MAX_OFFSET = (1 << 63) - 1
SMALL_SEGMENT_BYTES = 64 << 10
"""Segments up to here do without indexes: the active one has no index file before its first entry,
and that is no reason to read all of it.
"""


class LogVerifier:
    """Of one log, once."""

    def __init__(self, loader: LogLoader, segments: list[Segment]) -> None:
        """`segments` loses those that are cut away."""
        self.loader = loader
        self.segments = segments
        self.known = loader.known
        self.stats = loader.stats
        self.unsynced: list[tuple[Segment, int]] = []  # from where on a segment is above K
        self.end_below_durable = (
            -1
        )  # where the last batch below K ends, once there was one above it

    def recover(self) -> int:
        """Verify from R on, cut a torn tail, make everything derived again; the end offset."""
        known_epochs = self.loader.epochs.load(self.loader.disk)
        self.loader.epochs.truncate_from_end(self.known.recovery_point)
        try:
            end = self._verify_all()
            self._rewrite_unsynced()
            read_all = self.known.recovery_point <= self.segments[0].base_offset
            if not (known_epochs or read_all) or self.loader.epochs_incomplete(self.segments, end):
                self.loader.rebuild_epochs(self.segments)
        except BadBatch as bad:  # below R, where nothing is cut
            raise LogDamaged(self.loader.directory, str(bad)) from bad
        for segment in self.segments[:-1]:
            if segment.offset_index.loaded:
                segment.seal()
                segment.unload_indexes()
        return end

    def _verify_all(self) -> int:
        point = self.known.recovery_point
        reading = self.loader.from_recovery_point(self.segments)
        position, offset = self._begin(reading[0])
        start = offset
        before = len(self.segments) - len(reading)
        if before > 0 and reading[0].base_offset == point:
            complete_indexes(self.segments[before - 1])
            self.loader.sealed.append(self.segments[before - 1])
        self.loader.restore_producers(self.segments[: before + 1], point)
        for segment in reading:
            if segment is not reading[0]:
                if segment.base_offset != offset:
                    self._accept_torn_tail(
                        segment, start, offset, f"the next segment is {segment.base_offset}"
                    )
                    return self._cut(segment, 0, offset)
                position = 0
                segment.clear_indexes(0, segment.base_offset)
            try:
                offset = self._verify(segment, position, offset)
            except BadBatch as bad:
                self._accept_torn_tail(segment, start, bad.offset, str(bad))
                return self._cut(segment, bad.position, bad.offset)
        self._check_durable_end(start, offset)
        return offset

    def _begin(self, segment: Segment) -> tuple[int, int]:
        """Position and offset of the first batch at or after R, indexes kept up to there."""
        point, path = self.known.recovery_point, segment.file.path
        loaded = segment.offset_index.load() and segment.time_index.load()
        if not loaded and segment.size <= SMALL_SEGMENT_BYTES:
            segment.clear_indexes(0, segment.base_offset)
            loaded = True
        start = segment.start_before(point - 1) if loaded else -1
        if start < 0:
            segment.clear_indexes(0, segment.base_offset)
            return 0, segment.base_offset
        position, end = segment.size, segment.base_offset
        try:
            for at, header in walk(segment.file, start, segment.size, segment.base_offset):
                if header.base_offset >= point:
                    position = at
                    break
                end = header.next_offset
        except BadBatch as bad:
            position = bad.position
        if end < point:
            raise LogDamaged(path, f"ends at offset {end}, but {point} was durable")
        if self.known.exact and segment.base_offset <= point != end:
            raise LogDamaged(path, f"has a batch up to offset {end}, but one ended at {point}")
        segment.clear_indexes(position, point)
        if not indexes_match(segment):
            segment.clear_indexes(0, segment.base_offset)
            return 0, segment.base_offset
        self._take_timestamps(segment, position)
        return position, max(end, point)

    def _take_timestamps(self, segment: Segment, position: int) -> None:
        """The largest timestamp of the batches after the last index entry, up to `position`."""
        start = segment.offset_index.floor(position)
        for _, header in walk(segment.file, start, position, segment.base_offset):
            segment.update_max_timestamp(header)

    def _verify(self, segment: Segment, position: int, offset: int) -> int:
        """Read a segment from `position`; the offset after its last batch. Raises `BadBatch`."""
        epochs, producers = self.loader.epochs, self.loader.producers
        point, durable = self.known.recovery_point, self.known.durable_end
        for start, header in walk(
            segment.file,
            position,
            segment.size,
            offset,
            base_offset=segment.base_offset,
            verify=True,
            gaps=self.loader.config.compact or self.known.compacted,
            chunk_bytes=SCAN_BYTES,
        ):
            size = header.size
            segment.index(header.last_offset, start, size, header.max_timestamp)
            epoch = header.partition_leader_epoch
            if header.base_offset >= durable:
                if self.end_below_durable < 0:
                    self.end_below_durable = offset
                self.unsynced.append((segment, start))
                durable = MAX_OFFSET
            if epoch != epochs.latest and header.base_offset >= point:
                epochs.assign(epoch, header.base_offset)
            if header.producer_id >= 0 and header.base_offset >= producers.end_offset:
                producers.append(header, header.base_offset)
            offset = header.next_offset
            self.stats.scanned_bytes += size
        producers.end_offset = max(producers.end_offset, offset)
        return offset

    def _rewrite_unsynced(self) -> None:
        """Make dirty again what may be in the cache only, and there marked clean."""
        for segment, start in self.unsynced:
            if segment in self.segments:
                for position in range(start, segment.size, SCAN_BYTES):
                    count = min(SCAN_BYTES, segment.size - position)
                    segment.file.write(position, segment.file.read(position, count))

    def _check_durable_end(self, start: int, end: int) -> None:
        self.loader.check_durable_end(
            start, end if self.end_below_durable < 0 else self.end_below_durable, end
        )

    def _accept_torn_tail(self, segment: Segment, start: int, offset: int, what: str) -> None:
        """Damage below K; a torn tail at or above it, if what was read from `start` on did."""
        if offset < self.known.durable_end:
            raise LogDamaged(
                segment.file.path, f"{what}; offsets below {self.known.durable_end} were durable"
            )
        self._check_durable_end(start, offset)
        self.stats.torn = f"{segment.file.path}: {what}"

    def _cut(self, segment: Segment, position: int, offset: int) -> int:
        """Cut the log at `position` of `segment`, where `offset` would have been."""
        number = self.segments.index(segment)
        if position == 0 and number > 0 and segment.base_offset != offset:
            number -= 1  # this segment does not follow: it goes as a whole
        else:
            self.stats.truncated_bytes += segment.size - position
            truncate_segment(segment, offset, position)
        for later in self.segments[number + 1 :]:
            self.stats.truncated_bytes += later.size
            self.stats.removed_segments += 1
            remove_segment(later)
        del self.segments[number + 1 :]
        return offset


SYNC_AT_ONCE_BYTES = 16 << 20


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    fence: Fence,
    cache: IndexCache,
    *,
    now_ms: int,
    known: RecordedState | None = None,
    durable: DurableEnd | None = None,
) -> tuple[Log, RecoveryStats]:
    """Open the log in `directory`, or make a new one there if it has no files.

    Blocks; may run on a worker, for it touches nothing but this log's files. Raises `LogDamaged`,
    `OSError`.
    """
    loader = LogLoader(disk, directory, config, known if known is not None else RecordedState())
    segments = loader.find_segments()
    is_new = not segments
    if is_new:
        segments = [loader.first_segment(now_ms)]
    with _pinned(segments[-1:] if loader.known.clean else loader.from_recovery_point(segments)):
        end = (
            loader.load_clean(segments)
            if loader.known.clean
            else LogVerifier(loader, segments).recover()
        )
        if end < loader.log_start(segments):
            end = loader.restart_at_log_start(segments, end, now_ms)
            is_new = True
        log = Log(
            disk,
            directory,
            config,
            fence=fence,
            durable=durable,
            segments=LogSegments(segments, cache),
            epochs=loader.epochs,
            producers=loader.producers,
            log_start_offset=loader.log_start(segments),
            log_end_offset=end,
        )
        log.durable_log_start = loader.known.log_start_offset or 0
        log.segments.active.created_ms = now_ms
        log.recovery_point = log.flushed_offset = min(loader.known.durable_end, end)
        if is_new or not loader.known.clean:
            # Files made, or cut, before the end may be so in the cache only.
            log.unsynced_segments = loader.from_recovery_point(segments)
            never_flushed = is_new or loader.known.durable_end == 0
            log.directory_changed(*([directory.rpartition("/")[0]] if never_flushed else []))
            log.recovery_point = min(loader.known.recovery_point, end)
            log.sealed = loader.sealed
        _set_snapshot_position(log)
        changed = loader.stats.truncated_bytes or loader.stats.removed_segments
        if 0 < loader.stats.scanned_bytes <= SYNC_AT_ONCE_BYTES or changed:
            log.flush(checkpoint=True)
        else:
            log.checkpointed_bytes = loader.stats.scanned_bytes
    return log, loader.stats


def _set_snapshot_position(log: Log) -> None:
    """What the newest producer snapshot covers of the active segment; without one, the log's own
    beginning does.
    """
    offset, active = log.producers.snapshot_offset, log.segments.active
    if offset >= active.base_offset or (offset < 0 and len(log.segments) == 1):
        log.snapshot_base = active.base_offset
        log.snapshot_size = active.size if offset == log.log_end_offset else 0


@contextmanager
def _pinned(segments: list[Segment]) -> Iterator[None]:
    """Keep the files open, as a worker must."""
    files = [segment.file for segment in segments]
    for file in files:
        file.pin()
    try:
        yield
    finally:
        for file in files:
            file.unpin()
