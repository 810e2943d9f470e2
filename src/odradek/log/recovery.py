"""Opening a log after a clean stop, after the death of the process or after a power loss.

Two offsets are recorded outside the log:

    R  recovery point   records, indexes and leader epochs below it were synced, and so was a
                        producer snapshot, at most an index interval further back
    K  durable end      records below it were synced and may have been acknowledged; K >= R

Both come from the log's slot in `durable-ends`. Without a slot R comes from the checkpoint and
K = R.

**The rule.** After a clean stop R = K = log end: only the tail after the last index entry is
walked. Otherwise every batch from R on is read and its checksum verified, up to the end of the last
segment or the first batch that is not sound (cut short, impossible header, wrong checksum, offset
or leader epoch going back):

    not sound below K, or the log ends below K     durable bytes are lost: **damage**. The partition
                                                   stays offline; no `.log` file is changed.
    not sound at or above K                        a **torn tail** of unsynced appends, left by the
                                                   dead process or the power loss. The log is
                                                   truncated there; later segments are removed.
    no batch ends at K                             a base offset, which is under no checksum, has
                                                   changed: **damage**. Not checked if K comes from
                                                   the checkpoint.

Leader epochs are under no checksum, either. One that has changed is found if an epoch falls at it
or behind it, and the log is not sound from the first batch on that may be the changed one; not if
it fits between its neighbours. The last batch's may have risen: a follower finds that when it knows
the partition's epoch (`replica_fetcher_manager`), a leader with the next batch.

So durable records are never truncated, and records that are not durable never keep a log offline.
Above K the order of sound and unsound batches means nothing, because pages reach the disk in any
order. K is exact if only the process died. After a power loss it may be older by one interval of
the directory's checkpoint, and bytes between the two ends are treated as a torn tail. Records are
lost by this only if the disk damages acknowledged bytes and the power fails within that interval.

**A log start behind the end.** Records may be deleted before they are durable
(`log.durability=os`). If a power loss then takes so many that the log ends before its recorded
start, the log begins empty at that start, so that no offset is assigned twice. A restart of a
follower's log (see `truncation`) that a crash interrupted ends in this way too, if the old segments
are before the new start. If they are behind it, they are removed. If they hold it, they are kept,
and truncated again when the follower fetches.

**Damage below R** is found when the segment is used: a closed segment is checked on first use (its
last batch must end with the file and just before the next segment, and index entries must match the
batches they name), and clients verify every batch they fetch.

**Derived files.** Indexes are kept up to R and rebuilt from there; if they are missing or do not
match the log, from the start of their segment. An index of aborted transactions that does not have
its checksum, has impossible entries, is missing beside its checksum, or may be missing as the other
indexes of its segment are, is made again by replaying the whole log, as its transactions may have
begun anywhere before. Producers start from the newest sound
snapshot at or below R and the batches after it. The leader epochs' file is rebuilt from the log if
it is not sound.

**Records above K** are written again, byte for byte, before they are synced. They were read from
the page cache. If the last process ended because an fsync failed, the kernel keeps those pages
there, marked clean although they never reached the disk: no fsync would write them, and records
reported durable would be lost with the power.

Finally everything that was read is synced and R = K = log end, so that a second crash does not
repeat the work. If it was much, or another broker leads the partition, and nothing was truncated,
the first flush does it, and the log is `dirty`: a node with thousands of replicas would sync them
one after the other. A log that no other broker leads is synced first, unless it is long: after a
power loss K may be below what was readable, and its high watermark would begin there.
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
from odradek.log.open_transactions import NO_OFFSET
from odradek.log.producer_state import ProducerState
from odradek.log.scan import SCAN_BYTES, BadBatch, walk
from odradek.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TRANSACTION_SUM_SUFFIX,
    Segment,
)
from odradek.model.env import Disk

MAX_OFFSET = (1 << 63) - 1
SYNC_AT_ONCE_BYTES = 16 << 20
"""A recovery that read up to this much syncs at once if no other broker leads; else the first flush
does."""
SMALL_SEGMENT_BYTES = 64 << 10
"""A segment of up to this size needs no indexes: the active one has no index file before its first
entry, which is no reason to read all of it.
"""


@dataclass(slots=True)
class RecoveryStats:
    """Counts of opening a log, for log lines and tests."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    torn: str = ""
    """What was found behind the new end of a log that was truncated; empty if nothing was."""
    rebuilt_transactions: int = 0
    """Logs whose indexes of aborted transactions were lost and made again."""

    def truncation(self, end: int) -> str:
        """Return a sentence about the truncation of a log that ends at offset `end` now."""
        segments = f" and {self.removed_segments} segments" if self.removed_segments else ""
        return (
            f"truncated after an unclean stop: it ends at offset {end}, "
            f"{self.truncated_bytes} bytes{segments} were removed ({self.torn})"
        )

    def add(self, other: RecoveryStats) -> None:
        """Add the counts of another log."""
        self.scanned_bytes += other.scanned_bytes
        self.truncated_bytes += other.truncated_bytes
        self.removed_segments += other.removed_segments
        self.rebuilt_transactions += other.rebuilt_transactions


@dataclass(slots=True)
class RecordedState:
    """The recorded state of a log. `log_start_offset` None: not recorded.

    `deleted_before`: the log start that DeleteRecords or retention wrote to the slot, or 0.

    `compacted`: the log was compacted at some time, so it may have gaps whatever its settings are.

    `exact`: the durable end comes from a slot, so a batch ends there.

    `synced_log_start`: a log start that survives a power loss.

    `high_watermark`: from its checkpoint; it may have been higher.

    `restarted`: the log was being restarted at `deleted_before`, or was and has no durable records
    since.
    """

    clean: bool = False
    recovery_point: int = 0
    durable_end: int = 0
    log_start_offset: int | None = None
    deleted_before: int = 0
    compacted: bool = False
    exact: bool = False
    restarted: bool = False
    synced_log_start: int = 0
    high_watermark: int = NO_OFFSET

    @property
    def is_of_new_log(self) -> bool:
        """True if nothing was ever durable in the log, and it starts at offset 0."""
        return (
            self.durable_end == self.recovery_point == self.deleted_before == 0
            and (self.log_start_offset or 0) == 0
        )


class LogLoader:
    """Opens a log: holds its recorded state and makes its segments, epochs and producers."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        known: RecordedState,
        durable: DurableEnd | None,
    ) -> None:
        self.durable = durable
        self.disk = disk
        self.directory = directory
        self.config = config
        self.known = known
        self.stats = RecoveryStats()
        self.epochs = LeaderEpochs(directory)
        self.producers = ProducerState()
        self.names: list[str] = []
        self.sealed: list[Segment] = []  # their indexes may not be on the disk
        self.lost_transactions = False
        """An index of aborted transactions is damaged or missing."""

    def find_segments(self) -> list[Segment]:
        """Return the segments; complete or undo compaction swaps and remove leftovers of deletions
        (see `compaction.segment_swap`).
        """
        complete_swaps(self.disk, self.directory)
        names = list(self.disk.list(self.directory))
        logs = [name for name in names if name.endswith(LOG_SUFFIX) and name[:20].isdecimal()]
        stems = {name[:20] for name in logs}
        for name in names:
            orphan = name.endswith(("index", TRANSACTION_SUM_SUFFIX)) and name[:20] not in stems
            if orphan or name.endswith((DELETED_SUFFIX, ".tmp")):
                self.disk.remove(f"{self.directory}/{name}")
        self.names = [name for name in names if name.endswith(SNAPSHOT_SUFFIX)]
        segments = [
            Segment(self.disk, self.directory, int(name[:20]), create=False) for name in logs
        ]
        self._find_transactions(segments, set(names))
        start = self._recorded_start()
        if self.known.restarted and segments and segments[0].base_offset > start:
            self.complete_restart(segments)
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

    def _find_transactions(self, segments: list[Segment], names: set[str]) -> None:
        """Load and check the indexes of aborted transactions."""
        bases = [*(segment.base_offset for segment in segments[1:]), MAX_OFFSET]
        for segment, next_base in zip(segments, bases, strict=False):
            stem = f"{segment.base_offset:020d}"
            if stem + TRANSACTION_INDEX_SUFFIX in names:
                index = segment.use_transaction_index()
                sound = index.load_and_summarise() and index.is_sound(next_base)
                if stem + TRANSACTION_SUM_SUFFIX in names:
                    sound = index.matches_sum() and sound
                self.lost_transactions = self.lost_transactions or not sound
            elif stem + TRANSACTION_SUM_SUFFIX in names:
                self.lost_transactions = True
            elif (
                stem + INDEX_SUFFIX not in names
                and next_base < MAX_OFFSET
                and segment.base_offset < self.known.recovery_point
                and not self.lost_transactions
            ):
                self.lost_transactions = _has_markers(segment)
        if self.lost_transactions:
            # The files stay, so that another start finds them lost, too, until they are replaced.
            for segment in segments:
                if segment.transaction_index is not None:
                    segment.transaction_index.reset()

    def complete_transactions(self, segments: list[Segment]) -> None:
        """Make the indexes of aborted transactions again if they are lost, and unload all but that
        of the active segment.

        Raises `BadBatch` if a batch is not sound.
        """
        if self.lost_transactions:
            rebuild_transaction_indexes(segments)
            self.stats.rebuilt_transactions += 1
        for segment in segments[:-1]:
            index = segment.transaction_index
            if index is not None and index.loaded:
                if index.written < len(index.entries):
                    index.write_out()
                index.unload()

    def complete_restart(self, segments: list[Segment]) -> None:
        """Remove the segments of the time before a restart, which a crash has left."""
        self.sync_slot()
        for segment in segments:
            self.stats.truncated_bytes += segment.size
            self.stats.removed_segments += 1
            remove_segment(segment)
        segments.clear()
        self.stats.torn = f"{self.directory}: it was being restarted at {self._recorded_start()}"

    def sync_slot(self) -> None:
        """Make the slot durable before segments are removed because of it: with an older one their
        absence would be damage.
        """
        if self.durable is not None:
            self.durable.sync()

    def first_segment(self, now_ms: int) -> Segment:
        """Make the first segment of a new log."""
        start = self._recorded_start()
        segment = Segment(self.disk, self.directory, start, create=True)
        segment.created_ms = now_ms
        segment.index_interval_bytes = self.config.index_interval_bytes
        return segment

    def raise_damaged(self, what: str) -> NoReturn:
        """Raise `LogDamaged`."""
        raise LogDamaged(self.directory, what)

    def check_durable_end(self, start: int, offset: int, end: int) -> None:
        """Raise `LogDamaged` unless the batches from `start` to `end` reach the durable end.

        An exact durable end must be at `offset`, where a batch ends: base offsets are not under the
        checksum.
        """
        durable = self.known.durable_end
        if end < durable:
            self.raise_damaged(f"ends at offset {end}, but {durable} was durable")
        if self.known.exact and start <= durable != offset:
            self.raise_damaged(
                f"has no batch that ends at offset {durable}, which was the durable end"
            )

    def from_recovery_point(self, segments: list[Segment]) -> list[Segment]:
        """Return the segments that recovery reads: the one that holds R and those after it."""
        first = 0
        for number, segment in enumerate(segments):
            if segment.base_offset <= self.known.recovery_point:
                first = number
        return segments[first:]

    def log_start(self, segments: list[Segment]) -> int:
        """Return the first offset that may be read."""
        return max(segments[0].base_offset, self._recorded_start())

    def _recorded_start(self) -> int:
        return max(self.known.log_start_offset or 0, self.known.deleted_before)

    def restart_at_log_start(self, segments: list[Segment], end: int, now_ms: int) -> int:
        """Begin an empty log at its start, which is after its end, and return the start.

        If there are records and only the checkpoint, which has no checksum, has that start, raise
        `LogDamaged` instead.
        """
        start = self.log_start(segments)
        if start > self.known.deleted_before and any(segment.size for segment in segments):
            self.raise_damaged(f"ends at offset {end}, before its start, {start}")
        self.stats.torn = (
            f"{self.directory}: it ends at offset {end}, before its start {start}; it begins empty"
        )
        self.sync_slot()
        for segment in segments:
            self.stats.truncated_bytes += segment.size
            self.stats.removed_segments += 1
            remove_segment(segment)
        segments[:] = [self.first_segment(now_ms)]
        self.epochs.truncate_from_end(0)
        self.producers.reset(end_offset=start)
        return start

    def load_clean(self, segments: list[Segment]) -> int:
        """Load the active segment, epochs and producers after a clean stop; return the log end."""
        try:
            end = load_active(segments[-1])
            self.check_durable_end(segments[0].base_offset, end, end)
            self.restore_producers(segments, end)
            # A power loss may bring back what a truncation has cut off the index.
            segments[-1].truncate_transactions(end)
            self.complete_transactions(segments)
            known_epochs = self.epochs.load(self.disk)
            self.epochs.truncate_from_end(end)
            if not known_epochs or self.epochs_incomplete(segments, end):
                self.rebuild_epochs(segments)
        except BadBatch as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return end

    def restore_producers(self, segments: list[Segment], end: int) -> None:
        """Restore the producers from the newest sound snapshot and the batches after it."""
        producer_snapshot.restore(
            self.disk,
            self.directory,
            self.producers,
            segments,
            end,
            self.names,
            self.known.high_watermark,
        )

    def epochs_incomplete(self, segments: list[Segment], end: int) -> bool:
        """True if the epochs file begins after the first batch of the log.

        That happens if the log start was not recorded in time. Compaction may have left a gap
        between the log start and the first batch.
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
        """Rebuild the leader epochs from all batches."""
        self.epochs.truncate_from_end(0)
        for segment in segments:
            for _, header in walk(segment.file, 0, segment.size, segment.base_offset):
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)


class LogVerifier:
    """Reads a log after an unclean stop, from the recovery point R to its end or a torn tail.

    verify    every batch from R on; indexes, epochs and producers are rebuilt from there
    damage    a batch that is not sound below the durable end K raises `LogDamaged`
    truncate  the log at a torn tail, which is at or above K; later segments are removed
    rewrite   the records above K, so that the next sync writes them
    """

    def __init__(self, loader: LogLoader, segments: list[Segment]) -> None:
        """Segments after a torn tail are removed from `segments`."""
        self.loader = loader
        self.segments = segments
        self.known = loader.known
        self.stats = loader.stats
        self.unsynced: list[tuple[Segment, int]] = []  # segments above K, from which position on
        self.end_below_durable = -1  # end of the last batch below K; -1 before one above it

    def recover(self) -> int:
        """Verify from R on, truncate a torn tail, rebuild derived files; return the log end."""
        known_epochs = self.loader.epochs.load(self.loader.disk)
        self.loader.epochs.truncate_from_end(self.known.recovery_point)
        try:
            end = self._verify_all()
            self._rewrite_unsynced()
            self.loader.complete_transactions(self.segments)
            read_all = self.known.recovery_point <= self.segments[0].base_offset
            if not (known_epochs or read_all) or self.loader.epochs_incomplete(self.segments, end):
                self.loader.rebuild_epochs(self.segments)
        except BadBatch as bad:  # below R, where nothing is truncated
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
        for segment in reading:
            segment.truncate_transactions(point)
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
                    return self._truncate(segment, 0, offset)
                position = 0
                segment.clear_indexes(0, segment.base_offset)
            try:
                offset = self._verify(segment, position, offset)
            except BadBatch as bad:
                self._accept_torn_tail(segment, start, bad.offset, str(bad))
                end = self._truncate(segment, bad.position, bad.offset)
                self._forget_after(end)
                return end
        self._check_durable_end(start, offset)
        return offset

    def _forget_after(self, end: int) -> None:
        """Forget what was taken from batches that turned out not to be sound."""
        self.loader.epochs.truncate_from_end(end)
        producers = self.loader.producers
        if producers.end_offset > end:
            self.segments[-1].truncate_transactions(end)
            producers.reset(end_offset=self.segments[0].base_offset)
            self.loader.restore_producers(self.segments, end)

    def _begin(self, segment: Segment) -> tuple[int, int]:
        """Return (position, offset) of the first batch at or after R; keep the indexes up to it."""
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
        """Take the largest timestamp of the batches from the last index entry to `position`."""
        start = segment.offset_index.floor(position)
        for _, header in walk(segment.file, start, position, segment.base_offset):
            segment.update_max_timestamp(header)

    def _verify(self, segment: Segment, position: int, offset: int) -> int:
        """Read a segment from `position` and return the offset after its last batch.

        Raises `BadBatch`.
        """
        epochs, producers = self.loader.epochs, self.loader.producers
        point, durable = self.known.recovery_point, self.known.durable_end
        highest = epochs.epoch_at(offset)
        begun: list[tuple[int, int, int]] = []
        """Where each epoch begins in what is read: epoch, position, offset."""
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
            epoch = header.partition_leader_epoch
            if epoch < highest:
                # It may have fallen, or that of batches before it may have risen.
                position, offset = next(
                    (each[1:] for each in begun if each[0] > epoch), (start, offset)
                )
                producers.end_offset = max(producers.end_offset, header.base_offset)
                raise BadBatch(position, offset, f"leader epoch {epoch} after {highest}")
            if epoch != highest or not begun:
                begun.append((epoch, start, offset))
            highest = epoch
            segment.index(header.last_offset, start, size, header.max_timestamp)
            if header.base_offset >= durable:
                if self.end_below_durable < 0:
                    self.end_below_durable = offset
                self.unsynced.append((segment, start))
                durable = MAX_OFFSET
            if epoch != epochs.latest and header.base_offset >= point:
                epochs.assign(epoch, header.base_offset)
            if header.producer_id >= 0 and header.base_offset >= producers.end_offset:
                completed = producer_snapshot.replay(producers, segment.file, start, header)
                if completed is not None:
                    segment.add_completed(completed)
            offset = header.next_offset
            self.stats.scanned_bytes += size
        producers.end_offset = max(producers.end_offset, offset)
        return offset

    def _rewrite_unsynced(self) -> None:
        """Rewrite the bytes above K, which may be in the page cache only, marked clean."""
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
        """Accept a torn tail at `offset`; raise `LogDamaged` if it is below K or K is not reached.

        `start` is the offset from which the log was read.
        """
        if offset < self.known.durable_end:
            raise LogDamaged(
                segment.file.path, f"{what}; offsets below {self.known.durable_end} were durable"
            )
        self._check_durable_end(start, offset)
        self.stats.torn = f"{segment.file.path}: {what}"

    def _truncate(self, segment: Segment, position: int, offset: int) -> int:
        """Truncate the log at `position` of `segment`, where `offset` was expected."""
        number = self.segments.index(segment)
        if position == 0 and number > 0 and segment.base_offset != offset:
            number -= 1  # this segment does not follow the one before: remove it as a whole
        else:
            self.stats.truncated_bytes += segment.size - position
            truncate_segment(segment, offset, position)
        for later in self.segments[number + 1 :]:
            self.stats.truncated_bytes += later.size
            self.stats.removed_segments += 1
            remove_segment(later)
        del self.segments[number + 1 :]
        return offset


def _has_markers(segment: Segment) -> bool:
    """True if the segment has markers of transactions. Damage is not reported here."""
    try:
        return any(
            header.is_control and header.producer_id >= 0
            for _, header in walk(segment.file, 0, segment.size, segment.base_offset)
        )
    except BadBatch:
        return False


def rebuild_transaction_indexes(segments: list[Segment]) -> None:
    """Make the indexes of aborted transactions again from all batches, durably.

    Each file is replaced as a whole, and its checksum after it: a crash leaves others to be found
    lost again. Raises `BadBatch` if a batch is not sound.
    """
    producers = ProducerState()
    for segment in segments:
        if segment.transaction_index is not None:
            segment.transaction_index.reset()
        for position, header in walk(segment.file, 0, segment.size, segment.base_offset):
            if header.producer_id >= 0:
                completed = producer_snapshot.replay(producers, segment.file, position, header)
                if completed is not None:
                    segment.add_completed(completed)
    for segment in segments:
        if segment.transaction_index is not None:
            segment.transaction_index.replace()
        else:  # it was for entries of a segment that was replaced by this one
            path = f"{segment.directory}/{segment.base_offset:020d}{TRANSACTION_SUM_SUFFIX}"
            if segment.disk.exists(path):
                segment.disk.remove(path)
    segments[0].disk.sync_directory(segments[0].directory)


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
    is_led_elsewhere: bool = False,
) -> tuple[Log, RecoveryStats]:
    """Open the log in `directory`, or make a new one if it has no files.

    Blocks. May run on a worker, because it touches only this log's files. `is_led_elsewhere`:
    another broker leads the partition, so that the sync of what a recovery read may wait. Raises
    `LogDamaged`, `OSError`.
    """
    recorded = known if known is not None else RecordedState()
    loader = LogLoader(disk, directory, config, recorded, durable)
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
        log.durable_log_start = min(loader.known.synced_log_start, log.log_start_offset)
        log.segments.active.created_ms = now_ms
        log.recovery_point = log.flushed_offset = min(loader.known.durable_end, end)
        if is_new or not loader.known.clean:
            # The creation or truncation of files may be in the page cache only.
            log.unsynced_segments = loader.from_recovery_point(segments)
            never_flushed = is_new or loader.known.durable_end == 0
            log.directory_changed(*([directory.rpartition("/")[0]] if never_flushed else []))
            log.recovery_point = min(loader.known.recovery_point, end)
            log.sealed = loader.sealed
        _set_snapshot_position(log)
        changed = loader.stats.truncated_bytes or loader.stats.removed_segments
        sync_bytes = 0 if is_led_elsewhere else SYNC_AT_ONCE_BYTES
        if 0 < loader.stats.scanned_bytes <= sync_bytes or changed:
            log.flush(checkpoint=True)
        else:
            log.checkpointed_bytes = loader.stats.scanned_bytes
    return log, loader.stats


def new_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    fence: Fence,
    cache: IndexCache,
    *,
    now_ms: int,
    durable: DurableEnd | None = None,
) -> Log:
    """Return an empty log that begins at offset 0. Its directory is made with the first append."""
    segment = Segment(disk, directory, 0, create=True, later=True)
    segment.created_ms = now_ms
    log = Log(
        disk,
        directory,
        config,
        fence=fence,
        durable=durable,
        segments=LogSegments([segment], cache),
        epochs=LeaderEpochs(directory),
        producers=ProducerState(),
        log_start_offset=0,
        log_end_offset=0,
        has_files=False,
    )
    _set_snapshot_position(log)
    return log


def _set_snapshot_position(log: Log) -> None:
    """Set how much of the active segment the newest producer snapshot covers.

    The beginning of a log counts as a snapshot.
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
