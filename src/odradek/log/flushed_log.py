"""What of a log is durable, and how more of it becomes so: the state of a log and its flushes.

    log_start_offset    the first offset that may be read; deletion raises it
    durable_log_start   it is known to start there after a power loss, too, or later
    recovery_point      everything before it is durable, with its indexes and producer snapshot
    flushed_offset      everything before it is durable: what an acknowledgement may count on
    log_end_offset      the offset the next record gets

        durable_log_start <= log_start_offset <= recovery_point <= flushed_offset <= log_end_offset

`begin_flush` captures what is to be done, a worker does it (see `flush`), `end_flush` takes over
what came of it. There is at most one flush of a log under way; what is appended meanwhile is the
next one's. A flush that "checkpoints" moves the recovery point too: what a start reads instead of
the log is brought up to there. Where that would be a file for next to nothing it is left out: an
index without entries, a producer snapshot less than an index interval after the last. So a log that
has just been written to, one of thousands, costs a clean stop no file.

What was only renamed, created or removed is flushed as well: the directories of new files are
remembered until they are synced.

Not here: appending, reading and deleting (see `log`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence, LogDirFailure
from odradek.log.flush import LogFlush
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_config import LogConfig
from odradek.log.log_reader import LogReader
from odradek.log.producer_state import ProducerState
from odradek.log.segment import Segment
from odradek.log.segments import Segments
from odradek.model.env import Disk, File

NO_SEGMENT: Final = -1


class FlushedLog:
    """The state of one log, and its flushes: what `Log` appends to and reads from."""

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
        self.durable_log_start = 0
        self.log_end_offset = log_end_offset
        self.flushed_offset = log_end_offset
        self.recovery_point = log_end_offset
        self.high_watermark = log_start_offset
        self.segments = segments
        self.reader = LogReader(segments)
        self._flushing: LogFlush | None = None
        self._unsynced_directories: list[str] = []
        self.unsynced_segments: list[Segment] = []  # below flushed_offset, but perhaps cut unsynced
        self.sealed: list[Segment] = []  # whose indexes were completed since the last flush
        self.unflushed_since_ms = -1
        self.checkpointed_bytes = 0  # bytes appended since the recovery point was last moved
        self.snapshot_base = NO_SEGMENT  # the segment that was active at the last producer snapshot
        self.snapshot_size = 0  # and how large it was then, or less
        self.snapshot_offset = (
            producers.snapshot_offset
        )  # of the last one that is durable; -1: none
        self.rolled = False
        self.cleaning = False  # compaction is about to replace segments; a cut ends that
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Take new settings; they count from the next append on."""
        self.config = config
        self.flush_messages = config.flush_messages
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms - config.segment_jitter_ms
        self._offset_index_full = config.segment_index_bytes // 8 * 8
        self._time_index_full = config.segment_index_bytes // 12 * 12 - 12
        for segment in self.segments.items:
            segment.index_interval_bytes = config.index_interval_bytes

    # Flushing

    def directory_changed(self, *also: str) -> None:
        """Files were created: the next flush syncs the directory too (and `also`)."""
        for path in (self.directory, *also):
            if path not in self._unsynced_directories:
                self._unsynced_directories.append(path)

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
        # Where the recovery point is at the end, only for what was asked for since: a stop must not
        # write a snapshot for every log that nobody has written to.
        checkpoint = checkpoint and (self.recovery_point < self.log_end_offset or self.rolled)
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
        unsynced = (
            self.segments.from_offset(self.flushed_offset) if self.flushed_offset < end else []
        )
        there = self.segments.items
        again = [s for s in self.unsynced_segments if s in there and s not in unsynced]
        files = [segment.file for segment in (*again, *unsynced)]
        sealed = [segment for segment in self.sealed if segment in there]
        files += [index.file() for s in sealed for index in (s.offset_index, s.time_index)]
        if checkpoint:
            indexes = self._written_indexes()
            checkpoint = indexes is not None
            files += [file for file in indexes or () if file not in files]
        try:
            flush = LogFlush(
                self.disk, self.fence, self.directory, self.durable, files, end, self.recovery_point
            )
        except OSError as error:
            raise self.fence.judge(error) from error
        self.unsynced_segments = []
        self.sealed = []
        flush.sync_directories = self._unsynced_directories
        if self.epochs.dirty:
            flush.epochs = (self.epochs.path, self.epochs.encode())
            self.epochs.dirty = False
        if checkpoint:
            flush.moves_recovery_point = True
            if self._far_from_snapshot():
                flush.snapshot = self.producers.snapshot()
                self.snapshot_base = self.segments.active.base_offset
                self.snapshot_size = self.segments.active.size
            self.checkpointed_bytes = 0
            self.rolled = False
        return flush

    def keeps_producers_without(self, offset: int) -> bool:
        """Whether the batches before `offset` may go, as far as idempotent producers are concerned:
        a start finds their sequences in a snapshot. If not, the next flush makes one.
        """
        if len(self.producers) == 0 or offset <= self.snapshot_offset:
            return True
        self.snapshot_base = NO_SEGMENT
        self.rolled = True
        return False

    def _far_from_snapshot(self) -> bool:
        """Whether a start would have more to read for the producers than it reads anyway for the
        last index interval; or would have to read in segments that may have been deleted by then.
        """
        active = self.segments.active
        since = active.size - self.snapshot_size
        return self.snapshot_base != active.base_offset or since > self.config.index_interval_bytes

    def _written_indexes(self) -> list[File] | None:
        """The index files since the recovery point, up to date; None if there is no room for that,
        and the recovery point has to stay.
        """
        files = []
        try:
            for segment in self.segments.from_offset(self.recovery_point):
                for index in (segment.offset_index, segment.time_index):
                    if segment is not self.segments.active:
                        files.append(index.file())
                    elif index.needs_file():
                        index.write_out()
                        files.append(index.file())
        except OSError as error:
            judged = self.fence.judge(error)
            if isinstance(judged, LogDirFailure):
                raise judged from error
            self.rolled = True  # due again
            return None
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
            if flush.snapshot is not None and not flush.put_off:
                self.snapshot_offset = flush.end_offset
            if flush.put_off:
                self.epochs.dirty = True
                self.rolled = True
                self.snapshot_base = NO_SEGMENT
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

    def close(self, *, flush: bool = True) -> None:
        """Flush, move the recovery point to the end and give back descriptors. Blocks."""
        if flush and self.fence.failure is None:
            self.flush(checkpoint=True)
        self.segments.close()
