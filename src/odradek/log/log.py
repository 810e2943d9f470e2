"""The log of one partition: append, read, and where everything is.

    log_start_offset <= recovery_point <= flushed_offset <= log_end_offset

Appends go to the page cache; `begin_flush` and `end_flush` (see `flushed_log`) move the durable
end. The high watermark belongs to replication and is kept here only since nothing above it is ever
deleted.

A batch is stamped with its base offset and leader epoch and written in one system call, a large
one as two parts, [16 bytes, the rest as it came]. Reading answers with slices of files that begin
and end with batches, and reads at most a few headers itself.

All methods are the owner thread's. `OSError` from an append: nothing was appended. `LogDirFailure`:
the directory is fenced. `LogDamaged`: durable bytes are not what they were; take the partition
offline. Everything else is a value.

Not here: opening after a stop or crash (`recovery`), cutting off the front (`trimmed_log`) and what
is deleted when (`retention`), cutting off the end (`truncation`).
"""

from __future__ import annotations

from typing import Final

from odradek.log import time_lookup
from odradek.log.fence import LogDamaged
from odradek.log.leader_epochs import EpochEndOffset
from odradek.log.results import AppendInfo, LogOffsetMetadata, LogRead, TimestampAndOffset
from odradek.log.scan import MAX_RELATIVE_OFFSET, BadBatch
from odradek.log.segment import Segment
from odradek.log.trimmed_log import TrimmedLog
from odradek.model.env import Buffer
from odradek.model.errors import ErrorCode
from odradek.protocol.compression import CorruptCompression, TooLarge
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, RecordBatchHeader, stamp
from odradek.protocol.records import InvalidRecords
from odradek.protocol.validate import ValidBatch

NONE: Final = ErrorCode.NONE
STAMP_BYTES: Final = 16
JOINED_BYTES: Final = 4096
"""Up to this size a batch is copied to be written in one part, which is cheaper than two."""
UNREADABLE = (BadBatch, InvalidRecords, CorruptCompression, TooLarge)
"""What a search by time meets in a batch that is no longer what was checked and appended."""


class Log(TrimmedLog):
    """One partition's segments, epochs and producers. Made by `recovery.open_log`."""

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
        head = stamp(data, start, base_offset, leader_epoch)
        parts: list[Buffer]
        if size <= JOINED_BYTES:
            parts = [head + data[start + STAMP_BYTES : batch.end]]
        else:
            parts = [head, memoryview(data)[start + STAMP_BYTES : batch.end]]
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
            if waited > self._segment_ms:
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
        self.sealed.append(self.segments.active)
        self.segments.add(segment)
        self.rolled = True
        self.directory_changed()
        return segment

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
            found = time_lookup.latest(self.segments, up_to_offset)
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
