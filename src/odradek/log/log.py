"""The log of one partition: append, read, and where everything is.

    log_start_offset    the first offset that may be read; deletion raises it
    recovery_point      everything before it is durable, with its indexes and producer snapshot
    flushed_offset      everything before it is durable: what an acknowledgement may count on
    log_end_offset      the offset the next record gets

        log_start_offset <= recovery_point <= flushed_offset <= log_end_offset

Appends go to the page cache; `begin_flush` and `end_flush` (see `flush`) move the durable end. The
high watermark belongs to replication and is kept here only since nothing above it is ever deleted.

A batch is stamped with its base offset and leader epoch and written as two parts in one system
call, [16 bytes, the rest as it came]. Reading answers with slices of files that begin and end with
batches, and reads at most a few headers itself.

All methods are the owner thread's. `OSError` from an append: nothing was appended. `LogDirFailure`:
the directory is fenced. `LogDamaged`: durable bytes are not what they were; take the partition
offline. Everything else is a value.

Not here: opening after a stop or crash (`recovery`), what is deleted when (`retention`), cutting
off the end (`truncation`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from odradek.log import time_lookup
from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence, LogDamaged, LogDirFailure
from odradek.log.flush import LogFlush
from odradek.log.leader_epochs import EpochEndOffset, LeaderEpochs
from odradek.log.log_config import LogConfig
from odradek.log.log_reader import LogReader
from odradek.log.producer_state import ProducerState
from odradek.log.results import AppendInfo, LogOffsetMetadata, LogRead, TimestampAndOffset
from odradek.log.scan import BadBatch
from odradek.log.segment import MAX_RELATIVE_OFFSET, Segment
from odradek.log.segments import Segments
from odradek.model.env import Buffer, Disk, File
from odradek.model.errors import ErrorCode
from odradek.protocol.compression import CorruptCompression, TooLarge
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, RecordBatchHeader, stamp
from odradek.protocol.records import InvalidRecords
from odradek.protocol.validate import ValidBatch

NONE: Final = ErrorCode.NONE
STAMP_BYTES: Final = 16
UNREADABLE = (BadBatch, InvalidRecords, CorruptCompression, TooLarge)
"""What a search by time meets in a batch that is no longer what was checked and appended."""


class Log:
    """One partition's segments, epochs and producers. Made by `recovery.open_log`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        fence: Fence,
        durable: DurableEnd | None,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: ProducerState,
        log_start_offset: int,
        log_end_offset: int,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.fence = fence
        self.durable = durable
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.flushed_offset = log_end_offset
        self.recovery_point = log_end_offset
        self.high_watermark = log_start_offset
        self.segments = segments
        self.reader = LogReader(segments)
        self._flushing: LogFlush | None = None
        self._unsynced_directories: list[str] = []
        self.unsynced_segments: list[Segment] = []  # below flushed_offset, but perhaps cut unsynced
        self.unflushed_since_ms = -1
        self.checkpointed_bytes = 0  # bytes appended since the recovery point was last moved
        self.rolled = False
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Take new settings; they count from the next append on."""
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._offset_index_full = config.segment_index_bytes // 8 * 8
        self._time_index_full = config.segment_index_bytes // 12 * 12 - 12
        for segment in self.segments.items:
            segment.index_interval_bytes = config.index_interval_bytes

    # Appending

    def append(self, batch: ValidBatch, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append one batch as the leader of `leader_epoch`; `now_ms` is wall time."""
        if self.fence.failure is not None:
            raise self.fence.failure
        header = batch.header
        if header.producer_id >= 0:
            answer = self.check_producer(header)
            if answer is not None:
                return answer
        size = batch.size
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        active = self.segments.active
        if self.roll_due(active, size, last_offset, header.max_timestamp, now_ms):
            if size > self._segment_bytes:
                return self._refused(ErrorCode.RECORD_LIST_TOO_LARGE)
            active = self.roll(now_ms)
        data, start = batch.data, batch.start
        parts: list[Buffer] = [
            stamp(data, start, base_offset, leader_epoch),
            memoryview(data)[start + STAMP_BYTES : batch.end],
        ]
        self.write(active, parts, size, now_ms)
        self.note(active, header, base_offset, active.size - size, leader_epoch)
        return AppendInfo(
            NONE,
            base_offset,
            last_offset,
            header.max_timestamp if header.is_log_append_time else -1,
            self.log_start_offset,
            False,
        )

    def write(self, active: Segment, parts: list[Buffer], size: int, now_ms: int) -> None:
        try:
            active.append(parts, size)
        except OSError as error:
            raise self.fence.judge(error) from error
        self.checkpointed_bytes += size
        if self.unflushed_since_ms < 0:
            self.unflushed_since_ms = now_ms

    def note(
        self,
        active: Segment,
        header: RecordBatchHeader,
        base_offset: int,
        position: int,
        leader_epoch: int,
    ) -> None:
        """A batch is in the file: indexes, epochs, producers, log end offset."""
        last_offset = base_offset + header.last_offset_delta
        active.note(base_offset, last_offset, position, header.size, header.max_timestamp)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self.producers.append(header, base_offset)
        self.log_end_offset = last_offset + 1

    def check_producer(self, header: RecordBatchHeader) -> AppendInfo | None:
        """The answer to a batch that is not to be appended; None: it is the next one."""
        entry = self.producers.entry(header.producer_id)
        if entry is None:
            valid = header.producer_epoch >= NO_PRODUCER_EPOCH
            return None if valid else self._refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        known = entry.find_duplicate(header)
        if known is not None:
            return AppendInfo(
                NONE,
                known.first_offset,
                known.last_offset,
                known.timestamp,
                self.log_start_offset,
                True,
            )
        error = entry.check(header)
        return None if error == NONE else self._refused(error)

    def _refused(self, error: ErrorCode) -> AppendInfo:
        return AppendInfo(error, -1, -1, -1, self.log_start_offset, False)

    # Rolling

    def roll_due(
        self, active: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether a batch must go to a new segment (Kafka's conditions, in Kafka's order)."""
        if active.size + size > self._segment_bytes:
            return True
        if active.size > 0:
            first = active.first_timestamp
            if first is None:
                first = active.read_first_timestamp()
            waited = (
                max_timestamp - first
                if first is not None and first >= 0 and max_timestamp >= 0
                else now_ms - active.created_ms
            )
            if waited > self.config.segment_ms - self.config.segment_jitter_ms:
                return True
        return (
            len(active.offset_index.entries) >= self._offset_index_full
            or len(active.time_index.entries) >= self._time_index_full
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def roll(self, now_ms: int) -> Segment:
        """Begin a new active segment at the log end offset (none if the active one is empty)."""
        if (
            self.segments.active.size == 0
            and self.segments.active.base_offset == self.log_end_offset
        ):
            return self.segments.active
        try:
            self.segments.active.seal()
            segment = Segment(self.disk, self.directory, self.log_end_offset, create=True)
        except OSError as error:
            raise self.fence.judge(error) from error
        segment.created_ms = now_ms
        segment.index_interval_bytes = self.config.index_interval_bytes
        self.segments.add(segment)
        self.rolled = True
        self.directory_changed()
        return segment

    def directory_changed(self, *also: str) -> None:
        """Files were created: the next flush syncs the directory too (and `also`)."""
        for path in (self.directory, *also):
            if path not in self._unsynced_directories:
                self._unsynced_directories.append(path)

    # Reading

    def read(self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True) -> LogRead:
        """Batches from the one that holds `offset` on, none of which reaches `up_to_offset`.

        At most `max_bytes`, but with `min_one` at least one batch if there is one. The slices are
        pinned; release each.
        """
        if offset > self.log_end_offset or offset < self.log_start_offset:
            return LogRead(ErrorCode.OFFSET_OUT_OF_RANGE, [], 0, None)
        end_offset = up_to_offset if up_to_offset < self.log_end_offset else self.log_end_offset
        if offset >= end_offset:
            return LogRead(NONE, [], 0, self.offset_metadata(offset))
        try:
            return self.reader.read(
                offset, max_bytes, end_offset, end_offset == self.log_end_offset, min_one
            )
        except BadBatch as bad:
            raise LogDamaged(self.directory, str(bad)) from bad

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Where an offset of this log is (the batch that holds it, or the end)."""
        if offset >= self.log_end_offset:
            return LogOffsetMetadata(
                self.log_end_offset, self.segments.active.base_offset, self.segments.active.size
            )
        try:
            return self.reader.metadata(offset)
        except BadBatch as bad:
            raise LogDamaged(self.directory, str(bad)) from bad

    # Looking up

    def offset_for_timestamp(self, timestamp: int, up_to_offset: int) -> TimestampAndOffset | None:
        """The first record before `up_to_offset` with this timestamp (ms) or a later one."""
        try:
            found = time_lookup.first_at_or_after(
                self.segments.each(), timestamp, self.log_start_offset
            )
        except UNREADABLE as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return self._with_epoch(found, up_to_offset)

    def offset_for_max_timestamp(self, up_to_offset: int) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all before `up_to_offset`."""
        try:
            found = time_lookup.latest(self.segments.each(), up_to_offset)
        except UNREADABLE as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return self._with_epoch(found, up_to_offset)

    def _with_epoch(
        self, found: tuple[int, int] | None, up_to_offset: int
    ) -> TimestampAndOffset | None:
        if found is None or found[1] >= up_to_offset:
            return None
        # A record before the log start may still be in its segment; its epoch is no longer noted.
        noted = max(found[1], self.log_start_offset)
        return TimestampAndOffset(*found, self.epochs.epoch_at(noted))

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """See `LeaderEpochs.end_offset_for`."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last batch; -1: none."""
        return self.epochs.latest

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.segments.size

    # Cutting off at the front

    def delete_records(self, offset: int) -> ErrorCode:
        """DeleteRecords: the log starts at `offset` from now on; -1: at the high watermark.

        OFFSET_OUT_OF_RANGE above the high watermark. What is before it goes with the next retention
        pass.
        """
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.raise_log_start(offset)
        return NONE

    def raise_log_start(self, offset: int) -> None:
        """The log starts at `offset`, unless it starts later already."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def take(self, count: int) -> list[Segment]:
        """Take the oldest `count` segments out of the log (all but the active one at most)."""
        taken = self.segments.take_first(count)
        self.raise_log_start(self.segments.first_offset)
        return taken

    # Durability

    @property
    def dirty(self) -> bool:
        """Whether there is anything that is not durable: bytes, names of files, epochs."""
        return (
            self.flushed_offset < self.log_end_offset
            or bool(self._unsynced_directories)
            or self.epochs.dirty
        )

    @property
    def checkpoint_due(self) -> bool:
        """Whether the next flush should move the recovery point."""
        return self.rolled or self.checkpointed_bytes >= self.config.checkpoint_bytes

    def flush_due(self, now_ms: int) -> bool:
        """Whether `flush.messages`, `flush.ms`, a roll or a due checkpoint call for a flush."""
        if not self.dirty:
            return False
        return (
            self.checkpoint_due
            or self.log_end_offset - self.flushed_offset >= self.config.flush_messages
            or now_ms - self.unflushed_since_ms >= self.config.flush_ms
        )

    def begin_flush(self, checkpoint: bool = False) -> LogFlush | None:
        """The work of making everything appended so far durable; None: nothing to do, or under way.

        With `checkpoint`, or if it is due, the recovery point moves too. Call `end_flush` when the
        work has been run, whatever came of it. `OSError` but no `LogDirFailure`: try again later.
        """
        checkpoint = checkpoint or self.checkpoint_due
        checkpoint = checkpoint and self.recovery_point < self.log_end_offset
        if self._flushing is not None or not (checkpoint or self.dirty):
            return None
        self.fence.check()
        flush = self._capture(checkpoint)
        self._flushing = flush
        self._unsynced_directories = []
        self.unflushed_since_ms = -1
        return flush

    def _capture(self, checkpoint: bool) -> LogFlush:
        end = self.log_end_offset
        unsynced = self.segments.from_offset(self.flushed_offset)
        again = [segment for segment in self.unsynced_segments if segment not in unsynced]
        files = [segment.file for segment in (*again, *unsynced)]
        if checkpoint:
            indexes = self._written_indexes()
            checkpoint = bool(indexes)
            files += indexes
        try:
            flush = LogFlush(
                self.disk, self.fence, self.directory, self.durable, files, end, self.recovery_point
            )
        except OSError as error:
            raise self.fence.judge(error) from error
        self.unsynced_segments = []
        flush.sync_directories = self._unsynced_directories
        if self.epochs.dirty:
            flush.epochs = (self.epochs.path, self.epochs.encode())
            self.epochs.dirty = False
        if checkpoint:
            flush.snapshot = self.producers.snapshot()
            self.checkpointed_bytes = 0
            self.rolled = False
        return flush

    def _written_indexes(self) -> list[File]:
        """The index files since the recovery point, up to date; none if there is no room for that,
        and the recovery point has to stay.
        """
        files = []
        try:
            for segment in self.segments.from_offset(self.recovery_point):
                if segment is self.segments.active:
                    segment.write_indexes()
                files += [segment.offset_index.file(), segment.time_index.file()]
        except OSError as error:
            judged = self.fence.judge(error)
            if isinstance(judged, LogDirFailure):
                raise judged from error
            self.rolled = True  # due again
            return []
        return files

    def end_flush(self, flush: LogFlush) -> int:
        """Take over what came of a flush; the flushed offset. `LogDirFailure` if it failed."""
        assert flush is self._flushing, "not the flush under way"
        self._flushing = None
        flush.release()
        self.fence.check()
        if not flush.void:
            assert flush.succeeded, "ended before it was run"
            self.flushed_offset = flush.end_offset
            self.recovery_point = flush.recovery_point
            if flush.put_off:
                self.epochs.dirty = True
                self.rolled = True
        return self.flushed_offset

    def void_flush(self) -> None:
        """The log was cut: what a flush under way captured is no more."""
        if self._flushing is not None:
            self._flushing.void = True

    def abandon(self) -> None:
        """The log is being deleted: a flush under way may find its files gone."""
        if self._flushing is not None:
            self._flushing.void = self._flushing.abandoned = True
        self.segments.close()

    def flush(self, checkpoint: bool = False) -> int:
        """All of it at once, blocking: for stopping and for tools."""
        work = self.begin_flush(checkpoint)
        if work is not None:
            with suppress(LogDirFailure):  # `end_flush` raises it
                work.run()
            self.end_flush(work)
        return self.flushed_offset

    def close(self) -> None:
        """Flush, move the recovery point to the end and give back descriptors. Blocks."""
        if self.fence.failure is None:
            self.flush(checkpoint=True)
        self.segments.close()
