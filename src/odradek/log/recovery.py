"""Opening a log: what is believed after a clean stop, after the death of the process, after a power
loss.

What is known before a byte of the log is read:

    R  recovery point   bytes, indexes, leader epochs and a producer snapshot below it were synced
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

So nothing that was durable is ever cut away, and nothing that was not is ever waited for. In what
is above K, the order of sound and unsound batches says nothing (pages reach the disk in any order);
below K it needs no interpretation. K is exact after the death of the process; after a power loss it
may be older by one interval of the directory's checkpoint, and bytes between the two are judged as
a torn tail would be: for that a disk must damage acknowledged bytes and the power fail within that
interval.

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

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from odradek.log import producer_snapshot
from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence, LogDamaged
from odradek.log.index import LoadedIndexes
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.producer_state import ProducerState
from odradek.log.scan import SCAN_BYTES, BadBatch, walk
from odradek.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment
from odradek.log.segments import Segments
from odradek.log.truncation import remove_segment
from odradek.model.env import Disk

SYNC_AT_ONCE_BYTES = 16 << 20
MAX_OFFSET = (1 << 63) - 1


@dataclass(slots=True)
class Recovery:
    """What opening a log took, for the broker's log and tests."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    removed_segments: int = 0
    torn: str = ""


@dataclass(slots=True)
class Known:
    """What is known of a log before it is read. `log_start_offset` None: not recorded."""

    clean: bool = False
    recovery_point: int = 0
    durable_end: int = 0
    log_start_offset: int | None = None


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    fence: Fence,
    cache: LoadedIndexes,
    *,
    now_ms: int,
    known: Known | None = None,
    durable: DurableEnd | None = None,
) -> tuple[Log, Recovery]:
    """Open the log in `directory`, or make a new one there if it has no files.

    Blocks; may run on a worker, for it touches nothing but this log's files. Raises `LogDamaged`,
    `OSError`.
    """
    opening = _Opening(disk, directory, config, known if known is not None else Known())
    segments = opening.find_segments()
    is_new = not segments
    if is_new:
        segments = [opening.first_segment(now_ms)]
    with _pinned(segments[-1:] if opening.known.clean else opening.from_recovery_point(segments)):
        end = opening.reload(segments) if opening.known.clean else opening.recover(segments)
        log = Log(
            disk,
            directory,
            config,
            fence=fence,
            durable=durable,
            segments=Segments(segments, cache),
            epochs=opening.epochs,
            producers=opening.producers,
            log_start_offset=opening.log_start(segments),
            log_end_offset=end,
        )
        log.segments.active.created_ms = now_ms
        log.recovery_point = log.flushed_offset = min(opening.known.durable_end, end)
        if is_new or not opening.known.clean:
            # Files made, or cut, before the end may be so in the cache only.
            log.unsynced_segments = opening.from_recovery_point(segments)
            never_flushed = is_new or opening.known.durable_end == 0
            log.directory_changed(*([directory.rpartition("/")[0]] if never_flushed else []))
            log.recovery_point = min(opening.known.recovery_point, end)
        if 0 < opening.found.scanned_bytes <= SYNC_AT_ONCE_BYTES or opening.found.truncated_bytes:
            log.flush(checkpoint=True)
        else:
            log.checkpointed_bytes = opening.found.scanned_bytes
    return log, opening.found


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


class _Opening:
    """The steps of opening one log."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, known: Known) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.known = known
        self.found = Recovery()
        self.epochs = LeaderEpochs(directory)
        self.producers = ProducerState()
        self.names: list[str] = []
        self.unproven: list[tuple[Segment, int]] = []  # from where on a segment is above K

    def find_segments(self) -> list[Segment]:
        """The segments there are; leftovers of deletions and replacements are removed."""
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
        start = self.known.log_start_offset
        if segments:
            if start is not None and segments[0].base_offset > start:
                self._damaged(f"begins with offset {segments[0].base_offset} instead of {start}")
        elif self.known.durable_end > (start or 0):
            self._damaged(f"has no segments, though offset {self.known.durable_end} was reached")
        for segment in segments:
            segment.index_interval_bytes = self.config.index_interval_bytes
        return segments

    def first_segment(self, now_ms: int) -> Segment:
        """The first segment of a new log."""
        start = self.known.log_start_offset or 0
        segment = Segment(self.disk, self.directory, start, create=True)
        segment.created_ms = now_ms
        segment.index_interval_bytes = self.config.index_interval_bytes
        return segment

    def _damaged(self, what: str) -> None:
        raise LogDamaged(self.directory, what)

    def from_recovery_point(self, segments: list[Segment]) -> list[Segment]:
        """The segments that recovery reads: the one that holds R, and those after it."""
        first = 0
        for number, segment in enumerate(segments):
            if segment.base_offset <= self.known.recovery_point:
                first = number
        return segments[first:]

    def log_start(self, segments: list[Segment]) -> int:
        """The first offset that may be read."""
        recorded = self.known.log_start_offset
        return max(segments[0].base_offset, recorded if recorded is not None else 0)

    # After a clean stop

    def reload(self, segments: list[Segment]) -> int:
        """Active segment and producers as they were; the log end offset."""
        try:
            end = segments[-1].reload_active()
            if end < self.known.durable_end:
                self._damaged(f"ends at offset {end}, but {self.known.durable_end} was durable")
            self._restore_producers(segments, end)
            known_epochs = self.epochs.load(self.disk)
            self.epochs.truncate_from_end(end)
            if not known_epochs or self._epochs_missing(segments, end):
                self._all_epochs(segments)
        except BadBatch as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return end

    def _restore_producers(self, segments: list[Segment], end: int) -> None:
        producer_snapshot.restore(
            self.disk, self.directory, self.producers, segments, end, self.names
        )

    # After anything else

    def recover(self, segments: list[Segment]) -> int:
        """Verify from R on, cut a torn tail, make everything derived again; the end offset."""
        known_epochs = self.epochs.load(self.disk)
        self.epochs.truncate_from_end(self.known.recovery_point)
        try:
            end = self._verify_all(segments)
        except BadBatch as bad:  # below R, where nothing is cut
            raise LogDamaged(self.directory, str(bad)) from bad
        self._write_unproven(segments)
        read_all = self.known.recovery_point <= segments[0].base_offset
        if not (known_epochs or read_all) or self._epochs_missing(segments, end):
            self._all_epochs(segments)
        for segment in segments[:-1]:
            if segment.offset_index.loaded:
                segment.seal()
                segment.unload_indexes()
        return end

    def _verify_all(self, segments: list[Segment]) -> int:
        point = self.known.recovery_point
        reading = self.from_recovery_point(segments)
        position, offset = self._begin(reading[0])
        self._restore_producers(segments[: len(segments) - len(reading) + 1], point)
        for segment in reading:
            if segment is not reading[0]:
                if segment.base_offset != offset:
                    self._judge(segment, offset, f"the next segment is {segment.base_offset}")
                    return self._cut(segments, segment, 0, offset)
                position = 0
                segment.clear_indexes(0, segment.base_offset)
            try:
                offset = self._verify(segment, position, offset)
            except BadBatch as bad:
                self._judge(segment, bad.offset, str(bad))
                return self._cut(segments, segment, bad.position, bad.offset)
        if offset < self.known.durable_end:
            self._damaged(f"ends at offset {offset}, but {self.known.durable_end} was durable")
        return offset

    def _begin(self, segment: Segment) -> tuple[int, int]:
        """Position and offset of the first batch at or after R, indexes kept up to there."""
        point, path = self.known.recovery_point, segment.file.path
        loaded = segment.offset_index.load() and segment.time_index.load()
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
        segment.clear_indexes(position, point)
        if not segment.indexes_agree():
            segment.clear_indexes(0, segment.base_offset)
            return 0, segment.base_offset
        self._take_timestamps(segment, position)
        return position, max(end, point)

    def _take_timestamps(self, segment: Segment, position: int) -> None:
        """The largest timestamp of the batches after the last index entry, up to `position`."""
        start = segment.offset_index.floor(position)
        for _, header in walk(segment.file, start, position, segment.base_offset):
            segment.remember_timestamp(header)

    def _verify(self, segment: Segment, position: int, offset: int) -> int:
        """Read a segment from `position`; the offset after its last batch. Raises `BadBatch`."""
        epochs, producers, point = self.epochs, self.producers, self.known.recovery_point
        durable = self.known.durable_end
        for start, header in walk(
            segment.file,
            position,
            segment.size,
            offset,
            verify=True,
            gaps=self.config.compact,
            chunk_bytes=SCAN_BYTES,
        ):
            size = header.size
            segment.index(header.last_offset, start, size, header.max_timestamp)
            epoch = header.partition_leader_epoch
            if header.base_offset >= durable:
                self.unproven.append((segment, start))
                durable = MAX_OFFSET
            if epoch != epochs.latest and header.base_offset >= point:
                epochs.assign(epoch, header.base_offset)
            if header.producer_id >= 0 and header.base_offset >= producers.end_offset:
                producers.append(header, header.base_offset)
            offset = header.next_offset
            self.found.scanned_bytes += size
        producers.end_offset = max(producers.end_offset, offset)
        return offset

    def _write_unproven(self, segments: list[Segment]) -> None:
        """Make dirty again what may be in the cache only, and there marked clean."""
        for segment, start in self.unproven:
            if segment in segments:
                for position in range(start, segment.size, SCAN_BYTES):
                    count = min(SCAN_BYTES, segment.size - position)
                    segment.file.write(position, segment.file.read(position, count))

    def _judge(self, segment: Segment, offset: int, what: str) -> None:
        """Damage below K, a torn tail at or above it."""
        if offset < self.known.durable_end:
            raise LogDamaged(
                segment.file.path, f"{what}; offsets below {self.known.durable_end} were durable"
            )
        self.found.torn = f"{segment.file.path}: {what}"

    def _cut(self, segments: list[Segment], segment: Segment, position: int, offset: int) -> int:
        """Cut the log at `position` of `segment`, where `offset` would have been."""
        number = segments.index(segment)
        if position == 0 and number > 0 and segment.base_offset != offset:
            number -= 1  # this segment does not follow: it goes as a whole
        else:
            self.found.truncated_bytes += segment.size - position
            segment.truncate(offset, position)
        for later in segments[number + 1 :]:
            self.found.truncated_bytes += later.size
            self.found.removed_segments += 1
            remove_segment(later)
        del segments[number + 1 :]
        return offset

    # Leader epochs

    def _epochs_missing(self, segments: list[Segment], end: int) -> bool:
        """Whether the file begins later than the log, whose start was not recorded in time."""
        entries = self.epochs.entries()
        start = self.log_start(segments)
        return start < end and (not entries or entries[0][1] > start)

    def _all_epochs(self, segments: list[Segment]) -> None:
        self.epochs.truncate_from_end(0)
        for segment in segments:
            for _, header in walk(segment.file, 0, segment.size, segment.base_offset):
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
