"""The log of one partition: appending, reading, trimming, truncating and flushing.

Its offsets:

    log_start_offset    the first offset that may be read; deletion raises it
    durable_log_start   the log is known to start here, or later, after a power loss as well
    recovery_point      everything before it is durable, with its indexes and producer snapshot
    flushed_offset      everything before it is durable: an acknowledgement may rely on it
    log_end_offset      the offset that the next record gets

        durable_log_start <= log_start_offset <= recovery_point <= flushed_offset <= log_end_offset

Replication owns the high watermark. The log keeps it because nothing above it may be deleted.

**Appending.** A batch is stamped with its base offset and leader epoch and written to the page
cache in one system call; a large one as two parts, [16 bytes, the rest unchanged].

**Reading.** A read returns slices of files that begin and end with batches. It reads at most a few
headers itself (see `log_reader`).

**Trimming.** DeleteRecords raises the log start within a segment, retention raises it to the start
of a segment. Both first write it to the log's slot in `durable-ends`, so it survives the process.
It survives a power loss once that file or the directory's checkpoint is synced:

    log_start_offset (memory)  >=  written_log_start (slot)  >=  durable_log_start (synced)

The slot has a checksum and the checkpoint of log starts has none. Therefore only the slot may put a
log start beyond the bytes that are known to be durable (see `log_directory`).

**A new log** has neither directory nor file. The first append makes them, and the flush after it
makes their names durable. Until then nothing is dirty: what has no directory is an empty log.

**Following.** The batches of a leader are appended as they come (`leader_batches`); what it never
had is truncated, on a worker (`truncation`).

**Flushing.** `begin_flush` captures the work, a worker does it (see `flush`), `end_flush` takes
over the result. A log has at most one flush under way; what is appended meanwhile belongs to the
next. A flush that "checkpoints" also moves the recovery point: it brings up to date the files that
a start reads instead of the log. It writes no file for next to nothing: no index without entries,
no producer snapshot less than an index interval after the last. So a clean stop writes no file for
a log that has just been written to, which may be one of thousands. A flush also syncs the
directories in which files were created, renamed or removed.

**Errors.** `OSError` from an append: nothing was appended. `LogDirFailure`: the data directory is
fenced. `LogDamaged`: durable bytes have changed; the partition must go offline. Everything else is
returned as a value.

Opening a log: `recovery`. Which segments are deleted when: `retention`. The module is long because
all of this keeps the offsets above in step; what needs fewer of them has a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.log import time_lookup
from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence, LogDamaged, LogDirFailure
from odradek.log.flush import LogFlush
from odradek.log.leader_batches import check_leader_batches
from odradek.log.leader_epochs import EpochEndOffset, LeaderEpochs
from odradek.log.log_config import LogConfig
from odradek.log.log_reader import LogOffsetMetadata, LogRead, LogReader
from odradek.log.log_segments import LogSegments
from odradek.log.producer_state import ProducerState, TransactionMarker, marker_of
from odradek.log.scan import MAX_RELATIVE_OFFSET, BadBatch
from odradek.log.segment import Segment
from odradek.log.transaction_index import AbortedTransaction, TransactionIndex
from odradek.log.truncation import LogTruncation
from odradek.log.verification import VerificationGuard
from odradek.model.byte_ranges import ByteRange
from odradek.model.env import Buffer, Disk, File
from odradek.model.errors import ErrorCode
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.control_records import end_transaction_batch
from odradek.protocol.record_batch import (
    CONTROL_BIT,
    NO_PRODUCER_EPOCH,
    TRANSACTIONAL_BIT,
    RecordBatchHeader,
    stamp,
)
from odradek.protocol.records import InvalidRecords
from odradek.protocol.validate import RecordError, ValidBatch

NO_SEGMENT: Final = -1
NONE: Final = ErrorCode.NONE
STAMP_BYTES: Final = 16
JOINED_BYTES: Final = 4096
"""A batch of up to this size is copied and written in one part, which is cheaper than two."""
UNREADABLE = (BadBatch, InvalidRecords, CorruptCompression, SectionTooLarge)
"""Errors of a search by time in a batch that has changed since it was checked and appended."""


class AppendInfo:
    """The result of an append, all the way to the Produce response (Kafka's LogAppendInfo).

    With `error` set nothing was appended, and all offsets are -1. `record_errors` and
    `error_message` are those of a batch that validation refused. A `duplicate` is in the log
    already; the offsets are those it got then.
    """

    __slots__ = (
        "base_offset",
        "duplicate",
        "error",
        "error_message",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        error: ErrorCode,
        base_offset: int = -1,
        last_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        duplicate: bool = False,
        record_errors: Sequence[RecordError] = (),
        error_message: str | None = None,
    ) -> None:
        self.error = error
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms  # -1: the producer's timestamps were kept
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.record_errors = record_errors
        self.error_message = error_message

    @property
    def required_offset(self) -> int:
        """The batch is committed when the high watermark reaches this offset; -1: it was refused,
        and will never be."""
        return self.last_offset + 1 if self.error is NONE else -1

    def __repr__(self) -> str:
        return (
            f"AppendInfo({self.error.name}, {self.base_offset}..{self.last_offset}"
            f"{', duplicate' if self.duplicate else ''})"
        )


class TimestampAndOffset(NamedTuple):
    """The record that a search by timestamp found."""

    timestamp: int
    offset: int
    leader_epoch: int


class Log:
    """One partition's segments, epochs and producers. Made by `recovery.open_log`.

    All methods but `sync_log_start` are the owner thread's.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        fence: Fence,
        durable: DurableEnd | None,
        segments: LogSegments,
        epochs: LeaderEpochs,
        producers: ProducerState,
        log_start_offset: int,
        log_end_offset: int,
        has_files: bool = True,
    ) -> None:
        """`has_files` False: nothing of this log is on the disk; see `_make_files`."""
        self.disk = disk
        self.directory = directory
        self.has_files = has_files
        self.fence = fence
        self.durable = durable
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.durable_log_start = 0
        self.log_end_offset = log_end_offset
        self.first_new_offset = log_end_offset  # `appended_records` counts from here
        self.appended_bytes = 0
        self._captured_bytes = 0  # those of them that the last flush began to write
        self.flushed_offset = log_end_offset
        self.recovery_point = log_end_offset
        self.high_watermark = log_start_offset
        self.segments = segments
        self.reader = LogReader(segments)
        self._flushing: LogFlush | None = None
        self._truncation: LogTruncation | None = None
        self._unsynced_directories: list[str] = []
        # Segments below flushed_offset that recovery may have truncated without a sync.
        self.unsynced_segments: list[Segment] = []
        self.sealed: list[Segment] = []  # their indexes were completed since the last flush
        self.unflushed_since_ms = -1
        self.checkpointed_bytes = 0  # bytes appended since the recovery point was last moved
        # The active segment at the last producer snapshot, and its size then or a smaller one.
        self.snapshot_base = NO_SEGMENT
        self.snapshot_size = 0
        self.snapshot_offset = producers.snapshot_offset  # of the last durable one; -1: none
        self.rolled = False
        self.cleaning = False  # compaction is about to replace segments; a truncation aborts it
        self.swapping = False  # compaction has replaced segments and is about to rename their files
        self.truncating = False  # see `truncation`
        self.has_gaps = False  # a batch was appended that does not begin at the log end
        self.verifies_transactions = False
        """A transaction's first batch needs the guard of a verification: see `append`."""
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Apply new settings from the next append on."""
        self.config = config
        self.flush_messages = config.flush_messages
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms - config.segment_jitter_ms
        self._offset_index_full = config.segment_index_bytes // 8 * 8
        self._time_index_full = config.segment_index_bytes // 12 * 12 - 12
        for segment in self.segments.items:
            segment.index_interval_bytes = config.index_interval_bytes

    # Appending

    def append(
        self,
        batch: ValidBatch,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Append one batch as the leader of `leader_epoch`; `now_ms` is wall time.

        `guard`: of the verification that a transaction's first batch needs. A control batch is not
        checked: see `append_marker`.
        """
        if self.fence.failure is not None:
            raise self.fence.failure
        header = batch.header
        if header.producer_id >= 0 and not header.attributes & CONTROL_BIT:
            answer = self.check_producer(header, guard)
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
        head = stamp(data, start, base_offset, leader_epoch)
        parts: list[Buffer]
        if size <= JOINED_BYTES:
            parts = [head + data[start + STAMP_BYTES : batch.end]]
        else:
            parts = [head, memoryview(data)[start + STAMP_BYTES : batch.end]]
        self.write_batch(active, parts, size, now_ms)
        at = active.size - size
        self.update_after_append(active, header, base_offset, at, leader_epoch, data)
        return AppendInfo(
            NONE,
            base_offset,
            last_offset,
            header.max_timestamp if header.is_log_append_time else -1,
            self.log_start_offset,
            False,
        )

    def append_marker(
        self, marker: TransactionMarker, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Append the marker that ends a producer's transaction, as its coordinator asks.

        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED: see `producer_state`. A marker of a
        producer without an open transaction is appended too, as in Kafka.
        """
        entry = self.producers.entry(marker.producer_id)
        if entry is not None:
            error = entry.check_marker(marker)
            if error is not NONE:
                return self._refused(error)
        data = end_transaction_batch(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.committed,
            now_ms,
        )
        batch = ValidBatch(data, RecordBatchHeader(data, 0), 0, True)
        return self.append(batch, leader_epoch, now_ms)

    def append_as_follower(self, records: ByteRange, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append the batches that the leader of `leader_epoch` sent, as they are.

        They are checked first (see `leader_batches`): with an error none is appended. `OSError`:
        those up to the log end offset were. A batch larger than a segment gets one of its own,
        because the leader accepted it under other settings.
        """
        if self.fence.failure is not None:
            raise self.fence.failure
        assert not self.truncating, f"{self.directory} is being truncated"
        checked = check_leader_batches(
            records, self.log_end_offset, self.epochs.latest, leader_epoch
        )
        if checked.error is not NONE:
            return AppendInfo(checked.error, error_message=checked.message)
        headers = checked.headers
        if not headers:
            return AppendInfo(NONE, log_start_offset=self.log_start_offset)
        number = 0
        while number < len(headers):
            number += self._append_group(records.data, headers, number, now_ms)
        return AppendInfo(
            NONE,
            headers[0].base_offset,
            headers[-1].last_offset,
            log_start_offset=self.log_start_offset,
        )

    def _append_group(
        self, data: bytes, headers: list[RecordBatchHeader], number: int, now_ms: int
    ) -> int:
        """Append the batches from `number` on that go into one segment, in one write; return how
        many those are.
        """
        first = headers[number]
        active = self.segments.active
        if self.roll_due(active, first.size, first.last_offset, first.max_timestamp, now_ms):
            active = self.roll(now_ms)
        count = self._group_size(active, headers, number)
        group = headers[number : number + count]
        position, start, end = active.size, first.position, group[-1].end
        self.write_batch(active, [memoryview(data)[start:end]], end - start, now_ms)
        for header in group:
            base_offset = header.base_offset
            if base_offset != self.log_end_offset:
                self.has_gaps = True
            at = position + header.position - start
            epoch = header.partition_leader_epoch
            self.update_after_append(active, header, base_offset, at, epoch, data)
        return count

    def _group_size(self, active: Segment, headers: list[RecordBatchHeader], number: int) -> int:
        """How many batches from `number` on, at least one, go into the active segment without
        making it due to be rolled.
        """
        first = headers[number]
        first_timestamp = active.first_timestamp if active.size > 0 else first.max_timestamp
        if first_timestamp is None:
            first_timestamp = first.max_timestamp
        room = self._segment_bytes - active.size
        count = 1
        for header in headers[number + 1 :]:
            indexed = 12 * (count + 1)  # at most
            if (
                header.end - first.position > room
                or header.max_timestamp - first_timestamp > self._segment_ms
                or header.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
                or len(active.offset_index.entries) + indexed >= self._offset_index_full
                or len(active.time_index.entries) + indexed >= self._time_index_full
            ):
                break
            count += 1
        return count

    def begin_epoch(self, leader_epoch: int) -> None:
        """Note that `leader_epoch` begins at the log end: this broker leads from now on.

        The next flush makes it durable. Followers then find where an older epoch ended, also if
        nothing is appended in this one.
        """
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def write_batch(self, active: Segment, parts: list[Buffer], size: int, now_ms: int) -> None:
        try:
            if not self.has_files:
                self._make_files(active)
            active.append(parts, size)
        except OSError as error:
            raise self.fence.classify(error) from error
        self.checkpointed_bytes += size
        self.appended_bytes += size
        if self.unflushed_since_ms < 0:
            self.unflushed_since_ms = now_ms

    def _make_files(self, active: Segment) -> None:
        """Make the directory and the first segment's file, for the first append. `OSError`: the
        next append tries again.
        """
        self.disk.make_directory(self.directory)
        active.make_file()
        self._has_new_directory()

    def _has_new_directory(self) -> None:
        self.has_files = True
        self.directory_changed(self.directory.rpartition("/")[0])

    def update_after_append(
        self,
        active: Segment,
        header: RecordBatchHeader,
        base_offset: int,
        position: int,
        leader_epoch: int,
        data: bytes,
    ) -> None:
        """Take an appended batch into the indexes, epochs, producers and log end offset.

        `data` has the batch at the position of its header.
        """
        last_offset = base_offset + header.last_offset_delta
        active.update_after_append(
            base_offset, last_offset, position, header.size, header.max_timestamp
        )
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self.producers.append(header, base_offset)
            if header.attributes & CONTROL_BIT:
                self._end_transaction(header, base_offset, data)
        self.log_end_offset = last_offset + 1

    def _end_transaction(self, header: RecordBatchHeader, base_offset: int, data: bytes) -> None:
        """Take an appended marker into the producers."""
        marker = marker_of(data, header)
        if marker is not None:
            completed = self.producers.append_marker(header, base_offset, marker)
            if completed is not None:
                self.segments.add_completed(completed)

    def check_producer(
        self, header: RecordBatchHeader, guard: VerificationGuard | None
    ) -> AppendInfo | None:
        """Return None if the batch is its producer's next one, else the result without an append:
        a duplicate or an error.
        """
        entry = self.producers.entry(header.producer_id)
        if entry is not None:
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
        if header.attributes & TRANSACTIONAL_BIT:
            error = self.producers.check_transactional(header, guard, self.verifies_transactions)
            return None if error is NONE else self._refused(error)
        if entry is None:
            valid = header.producer_epoch >= NO_PRODUCER_EPOCH
            return None if valid else self._refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        error = entry.check(header)
        return None if error is NONE else self._refused(error)

    def _refused(self, error: ErrorCode) -> AppendInfo:
        return AppendInfo(error, log_start_offset=self.log_start_offset)

    # Rolling

    def roll_due(
        self, active: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """True if a batch must go to a new segment (Kafka's conditions, in Kafka's order)."""
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
            if waited > self._segment_ms:
                return True
        return (
            len(active.offset_index.entries) >= self._offset_index_full
            or len(active.time_index.entries) >= self._time_index_full
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def roll(self, now_ms: int) -> Segment:
        """Begin a new active segment at the log end offset, unless the active one is empty."""
        if (
            self.segments.active.size == 0
            and self.segments.active.base_offset == self.log_end_offset
        ):
            return self.segments.active
        try:
            self.segments.active.seal()
            segment = Segment(self.disk, self.directory, self.log_end_offset, create=True)
        except OSError as error:
            raise self.fence.classify(error) from error
        segment.created_ms = now_ms
        segment.index_interval_bytes = self.config.index_interval_bytes
        self.sealed.append(self.segments.active)
        self.segments.add(segment)
        self.rolled = True
        self.directory_changed()
        return segment

    # Reading

    def read(self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True) -> LogRead:
        """Return the batches from the one that holds `offset` to the last before `up_to_offset`.

        At most `max_bytes`, but with `min_one` at least one batch if there is one. The slices are
        pinned; the caller releases each.
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

    def aborted_transactions(self, read: LogRead, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions of which a read up to `end_offset` may have records.

        `LogDamaged`: an index has changed on the disk.
        """
        if not read.slices or read.start is None:
            return []
        return self.segments.aborted_transactions(
            read.start.offset, self.reader.end_of(read, end_offset)
        )

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return the position of the batch that holds `offset`, or of the log end."""
        if offset >= self.log_end_offset:
            return LogOffsetMetadata(
                self.log_end_offset, self.segments.active.base_offset, self.segments.active.size
            )
        try:
            return self.reader.metadata(offset)
        except BadBatch as bad:
            raise LogDamaged(self.directory, str(bad)) from bad

    # Truncating the end

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on, and the batch that holds it. Blocks.

        For tools and tests: a broker begins it, lets a worker run it and ends it (`truncation`).
        A flush under way is voided and compaction is aborted. Raises `LogDirFailure`, `LogDamaged`.
        """
        self._run_truncation(self.begin_truncation(offset))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything and start again at `offset`. Blocks, as `truncate_to`."""
        self._run_truncation(self.begin_restart(offset))

    def _run_truncation(self, truncation: LogTruncation | None) -> None:
        if truncation is not None:
            truncation.run()
            self.end_truncation(truncation)

    @property
    def may_truncate(self) -> bool:
        """True if no flush is under way and compaction is not renaming files.

        A worker that truncates and one that does these would work on the same files.
        """
        return self._flushing is None and not self.swapping and not self.truncating

    def begin_truncation(self, offset: int) -> LogTruncation | None:
        """Begin to remove everything from `offset` on, and the batch that holds it; None if nothing
        is left to do.

        Below the log start it is a restart at `offset`, as in Kafka.
        """
        if offset >= self.log_end_offset:
            # An epoch that was noted without a record may contradict the leader's.
            self.epochs.truncate_from_end(offset)
            return None
        if offset < self.log_start_offset:
            return self.begin_restart(offset)
        number = self.segments.number_of(offset)
        inactive = number < len(self.segments) - 1
        next_base = self.segments.end_of(number) if inactive else -1
        removed = self.segments.remove_after(number)
        return self._begin_truncation(offset, list(self.segments.items), next_base, removed)

    def begin_restart(self, offset: int) -> LogTruncation:
        """Begin to remove everything and to start again at `offset`."""
        return self._begin_truncation(offset, [], -1, list(self.segments.items))

    def _begin_truncation(
        self, offset: int, kept: list[Segment], next_base: int, removed: list[Segment]
    ) -> LogTruncation:
        self.fence.check()
        self.void_flush()
        self.cleaning = False
        self.truncating = True
        self.segments.leave_cache()
        for segment in removed:
            segment.close()
        self._truncation = LogTruncation(
            self.disk, self.fence, self.directory, self.durable, offset, kept, next_base, removed
        )
        return self._truncation

    def end_truncation(self, truncation: LogTruncation) -> None:
        """Take over the result of a truncation that has succeeded."""
        assert truncation.succeeded, "ended before it was run"
        offset = truncation.offset
        removed = self.log_end_offset - offset
        self.truncating = False
        self._truncation = None
        if truncation.restarts:
            self._take_restarted(truncation)
        else:
            self.segments.enter_cache()
            self.first_new_offset -= removed
            self.snapshot_offset = min(self.snapshot_offset, offset)
            index = self.segments.active.transaction_index
            if index is not None and index.summed != index.count:
                self.rolled = True  # the next flush writes its checksum
        self.reader.clear_position()
        self.log_end_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epochs.truncate_from_end(offset)
        self.snapshot_base = NO_SEGMENT
        truncation.producers.transactions.truncate_from(self.producers.transactions, offset)
        self.producers = truncation.producers

    def _take_restarted(self, truncation: LogTruncation) -> None:
        """Take over the only segment of a log that starts again, and its offsets."""
        offset = truncation.offset
        segment = truncation.kept[0]
        segment.index_interval_bytes = self.config.index_interval_bytes
        segment.created_ms = self.segments.active.created_ms
        self.segments.restart(segment)
        self.first_new_offset = offset - self.appended_records
        self.log_start_offset = self.flushed_offset = self.recovery_point = offset
        self.high_watermark = self.durable_log_start = offset
        self.snapshot_offset = -1
        self.unsynced_segments, self.sealed = [], []
        self.epochs.truncate_from_end(0)
        self.epochs.dirty = self.rolled = True
        self.directory_changed()
        if not self.has_files:
            self._has_new_directory()

    # Looking up

    def offset_for_timestamp(self, timestamp: int, up_to_offset: int) -> TimestampAndOffset | None:
        """Find the first record before `up_to_offset` with this timestamp (ms) or a later one."""
        try:
            found = time_lookup.first_at_or_after(
                self.segments.each(), timestamp, self.log_start_offset
            )
        except UNREADABLE as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return self._with_epoch(found, up_to_offset)

    def offset_for_max_timestamp(self, up_to_offset: int) -> TimestampAndOffset | None:
        """Find the first record with the largest timestamp of those before `up_to_offset`."""
        try:
            found = time_lookup.latest(self.segments, up_to_offset)
        except UNREADABLE as bad:
            raise LogDamaged(self.directory, str(bad)) from bad
        return self._with_epoch(found, up_to_offset)

    def _with_epoch(
        self, found: tuple[int, int] | None, up_to_offset: int
    ) -> TimestampAndOffset | None:
        if found is None or found[1] >= up_to_offset:
            return None
        # A record before the log start may still be in its segment; its epoch is no longer known.
        offset = max(found[1], self.log_start_offset)
        return TimestampAndOffset(*found, self.epochs.epoch_at(offset))

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """See `LeaderEpochs.end_offset_for`."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last batch, or -1."""
        return self.epochs.latest

    @property
    def appended_records(self) -> int:
        """The number of records appended since the log was opened."""
        return self.log_end_offset - self.first_new_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.segments.size

    # Trimming the front

    def delete_records(self, offset: int) -> ErrorCode:
        """Raise the log start to `offset`, or with -1 to the high watermark (DeleteRecords).

        Returns OFFSET_OUT_OF_RANGE above the high watermark. The next retention pass deletes the
        segments before it. The new start survives the process, and a power loss after
        `sync_log_start`.
        """
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset > self.log_start_offset:
            self._write_log_start(offset)
            self.raise_log_start(offset)
        elif offset > max(self.written_log_start, self.durable_log_start):
            # The log starts there already, but only the remaining files say so.
            self._write_log_start(self.log_start_offset)
        return ErrorCode.NONE

    @property
    def written_log_start(self) -> int:
        """The log start in the slot of `durable-ends`: `sync_log_start` makes it durable."""
        return self.log_start_offset if self.durable is None else self.durable.log_start

    def _write_log_start(self, offset: int) -> None:
        self.fence.check()
        if self.durable is not None:
            try:
                self.durable.write_log_start(offset)
            except OSError as error:
                raise self.fence.classify(error) from error

    def sync_log_start(self) -> None:
        """Make the log starts of all logs of the directory durable. Blocks; for a worker."""
        self.fence.check()
        if self.durable is not None:
            try:
                self.durable.sync()
            except OSError as error:
                raise self.fence.fail(error) from error

    def follow_log_start(self, offset: int) -> bool:
        """Raise the log start to the leader's, at most to the high watermark. True if it is to be
        made durable.

        It is written like that of a deletion.
        """
        start = min(offset, self.high_watermark)
        if start <= self.durable_log_start:
            return False
        if start > self.log_start_offset:
            self._write_log_start(start)
            self.raise_log_start(start)
        elif start > self.written_log_start:
            self._write_log_start(self.log_start_offset)
        return True

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start to `offset` if it is lower."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def remove_oldest_segments(self, count: int) -> list[Segment]:
        """Remove the oldest `count` segments from the log, never the active one, and return them.

        The new log start is written first; if that raises `OSError`, nothing was removed.
        """
        start = self.segments.end_of(count - 1)
        if start > self.log_start_offset:
            self._write_log_start(start)
        taken = self.segments.remove_first(count)
        self.raise_log_start(self.segments.first_offset)
        return taken

    # Flushing

    def directory_changed(self, *also: str) -> None:
        """Make the next flush sync the log's directory, in which files were created, and `also`."""
        for path in (self.directory, *also):
            if path not in self._unsynced_directories:
                self._unsynced_directories.append(path)

    @property
    def dirty(self) -> bool:
        """True if bytes, names of files or leader epochs are not durable.

        The epochs of a log without files say nothing that its next leadership would not say.
        """
        return self.has_files and (
            self.flushed_offset < self.log_end_offset
            or bool(self._unsynced_directories)
            or self.epochs.dirty
        )

    @property
    def checkpoint_due(self) -> bool:
        """True if the next flush should move the recovery point."""
        return self.rolled or self.checkpointed_bytes >= self.config.checkpoint_bytes

    def flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages`, `flush.ms`, a roll or a due checkpoint requires a flush."""
        if not self.dirty:
            return False
        return (
            self.checkpoint_due
            or self.log_end_offset - self.flushed_offset >= self.flush_messages
            or now_ms - self.unflushed_since_ms >= self.config.flush_ms
        )

    def begin_flush(self, checkpoint: bool = False) -> LogFlush | None:
        """Capture the work that makes everything appended so far durable.

        Returns None if there is nothing to do or a flush is under way. With `checkpoint`, or if one
        is due, the flush moves the recovery point. Call `end_flush` after the work has run, also if
        it failed. An `OSError` that is no `LogDirFailure`: try again later.
        """
        checkpoint = checkpoint or self.checkpoint_due
        # With the recovery point at the log end, only a roll needs a checkpoint: a stop must not
        # write a producer snapshot for each log that was not written to.
        checkpoint = checkpoint and (self.recovery_point < self.log_end_offset or self.rolled)
        if self._flushing is not None or self.truncating or not (checkpoint or self.dirty):
            return None
        self.fence.check()
        flush = self._capture(checkpoint)
        self._flushing = flush
        self._unsynced_directories = []
        self.unflushed_since_ms = -1
        return flush

    def _capture(self, checkpoint: bool) -> LogFlush:
        end = self.log_end_offset
        unsynced = (
            self.segments.from_offset(self.flushed_offset) if self.flushed_offset < end else []
        )
        there = self.segments.items
        again = [s for s in self.unsynced_segments if s in there and s not in unsynced]
        files = [segment.file for segment in (*again, *unsynced)]
        sealed = [segment for segment in self.sealed if segment in there]
        files += [index.file() for s in sealed for index in s.indexes()]
        if checkpoint:
            indexes = self._written_indexes()
            checkpoint = indexes is not None
            files += [file for file in indexes or () if file not in files]
            if checkpoint:
                self._name_transaction_indexes()
        try:
            flush = LogFlush(
                self.disk, self.fence, self.directory, self.durable, files, end, self.recovery_point
            )
        except OSError as error:
            raise self.fence.classify(error) from error
        self.unsynced_segments = []
        self.sealed = []
        flush.sync_directories = self._unsynced_directories
        flush.size = self.appended_bytes - self._captured_bytes
        self._captured_bytes = self.appended_bytes
        if self.epochs.dirty:
            flush.epochs = (self.epochs.path, self.epochs.encode())
            self.epochs.dirty = False
        if checkpoint:
            flush.moves_recovery_point = True
            flush.transaction_sums = self._transaction_sums()
            if self._far_from_snapshot():
                flush.snapshot = self.producers.snapshot()
                self.snapshot_base = self.segments.active.base_offset
                self.snapshot_size = self.segments.active.size
            self.checkpointed_bytes = 0
            self.rolled = False
        return flush

    def ensure_producers_snapshotted(self, offset: int) -> bool:
        """True if a durable snapshot covers the idempotent producers of the batches before
        `offset`, so that these may be deleted. If not, the next flush writes such a snapshot.
        """
        if len(self.producers) == 0 or offset <= self.snapshot_offset:
            return True
        self.snapshot_base = NO_SEGMENT
        self.rolled = True
        return False

    def _far_from_snapshot(self) -> bool:
        """True if a start would read more than the last index interval to restore the producers, or
        would read segments that may have been deleted by then.
        """
        active = self.segments.active
        since = active.size - self.snapshot_size
        return self.snapshot_base != active.base_offset or since > self.config.index_interval_bytes

    def _written_indexes(self) -> list[File] | None:
        """Write the indexes of the segments since the recovery point and return their files.

        None if the disk has no room: the recovery point stays where it is.
        """
        files = []
        try:
            for segment in self.segments.from_offset(self.recovery_point):
                for index in segment.indexes():
                    if segment is not self.segments.active:
                        files.append(index.file())
                    elif index.needs_file():
                        index.write_out()
                        files.append(index.file())
        except OSError as error:
            judged = self.fence.classify(error)
            if isinstance(judged, LogDirFailure):
                raise judged from error
            self.rolled = True  # due again
            return None
        return files

    def _name_transaction_indexes(self) -> None:
        """Let the flush sync the directory if an index of aborted transactions is new in it."""
        for segment in self.segments.from_offset(self.recovery_point):
            index = segment.transaction_index
            if index is not None and not index.is_named:
                index.is_named = True
                self.directory_changed()

    def _transaction_sums(self) -> list[tuple[TransactionIndex, bytes]]:
        """Return the checksums that the flush writes before it moves the recovery point."""
        found = []
        for segment in self.segments.from_offset(self.recovery_point):
            index = segment.transaction_index
            if index is not None and index.summed != index.count:
                found.append((index, index.sum()))
                index.summed = index.count
        return found

    def end_flush(self, flush: LogFlush) -> int:
        """Take over the result of a flush and return the flushed offset. `LogDirFailure` if it
        failed.
        """
        assert flush is self._flushing, "not the flush under way"
        self._flushing = None
        flush.release()
        self.fence.check()
        if flush.void or flush.checkpoint_postponed:
            for index, _ in flush.transaction_sums:
                index.summed = -1
        if flush.void:
            self.epochs.dirty = True
            self.rolled = self.rolled or flush.moves_recovery_point
            self.snapshot_base = NO_SEGMENT
        else:
            assert flush.succeeded, "ended before it was run"
            self.flushed_offset = flush.end_offset
            self.recovery_point = flush.recovery_point
            if flush.snapshot is not None and not flush.checkpoint_postponed:
                self.snapshot_offset = flush.end_offset
            if flush.checkpoint_postponed:
                self.epochs.dirty = True
                self.rolled = True
                self.snapshot_base = NO_SEGMENT
        return self.flushed_offset

    def void_flush(self) -> None:
        """Ignore the result of a flush under way, because the log was truncated."""
        if self._flushing is not None:
            self._flushing.void = True

    def abandon(self) -> None:
        """Close the files of a log that is being deleted; work under way may miss its files."""
        if self._truncation is not None:
            self._truncation.abandoned = True
        if self._flushing is not None:
            self._flushing.void = self._flushing.abandoned = True
        self.segments.close()

    def flush(self, checkpoint: bool = False) -> int:
        """Begin, run and end a flush; return the flushed offset. Blocks: for stops and tools."""
        work = self.begin_flush(checkpoint)
        if work is not None:
            with suppress(LogDirFailure):  # `end_flush` raises it
                work.run()
            self.end_flush(work)
        return self.flushed_offset

    def close(self, *, flush: bool = True) -> None:
        """Flush, move the recovery point to the log end and close the files. Blocks."""
        if flush and self.fence.failure is None:
            self.flush(checkpoint=True)
        self.segments.close()
