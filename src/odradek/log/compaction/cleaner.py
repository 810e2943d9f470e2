"""One pass of compaction over one log: what it may clean (`LogToClean`) and the pass (`Cleaner`).

    |<------ clean ------>|<----------- dirty ----------->|<----- uncleanable ----->|
    log start             first dirty offset              first uncleanable offset  log end

*Clean*: earlier passes have seen it, so no key is in it twice. The first dirty offset is recorded
in `cleaner-offset-checkpoint`.

*Uncleanable*: the active segment; records from the last stable offset on, which are not committed
or belong to a transaction that is open; records from the recovery point on, which a recovery would
read again; segments with a record younger than `min.compaction.lag.ms`. A pass cleans whole
segments only.

A log is worth a pass if the dirty part is more than `min.cleanable.dirty.ratio` of clean and dirty
part together, or if its oldest dirty segment has waited longer than `max.compaction.lag.ms`.

**A pass.** Afterwards no key is twice in the cleaned part.

    map      read the dirty part, oldest first, until its end or until the offset map is full
    clean    read everything up to there in groups of neighbouring segments that fit into one; write
             the records that `batch_retention` retains to a new segment
    swap     replace each group by its new segment (`segment_swap`)

Groups are replaced in order and one at a time, so wherever a pass ends, the log still has a later
record for each removed one. Offsets, order and leader epochs do not change; there are gaps.

A pass is a generator of steps, which a worker takes one by one (`next`). It yields either the bytes
that were read and written since the last step, for a throttle, or a function that the owner thread
calls with the log before the next step. A pass may be dropped between two steps: unfinished files
are removed, or completed, when the log is cleaned or opened again. A step reads at most one chunk
of the log and looks at a few thousand records, or at one batch with more. The memory of a pass is
the offset map, two chunks, the largest batch and the indexes of aborted transactions.

Every batch is verified before it is rewritten, so that damage does not get a new checksum.
`UNCLEANABLE` errors mean that this log cannot be cleaned; nothing of it was changed.

The pass reads and writes files through its own objects, since those of the log belong to the owner
thread. The segments to read are listed on the owner thread when the pass begins.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from odradek.log.compaction.batch_retention import BatchRetention, OffsetMap, add_keys
from odradek.log.compaction.segment_swap import CLEANED_SUFFIX, SegmentSwap, remove_unfinished_swaps
from odradek.log.compaction.transaction_outcomes import AbortedTransactions, TransactionOutcomes
from odradek.log.log import Log
from odradek.log.log_config import NEVER
from odradek.log.retention import Deletion
from odradek.log.scan import MAX_RELATIVE_OFFSET, BadBatch, read_batches
from odradek.log.segment import (
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TRANSACTION_SUM_SUFFIX,
    Segment,
)
from odradek.log.transaction_index import TransactionIndex
from odradek.model.env import Buffer, Disk, File
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.records import InvalidRecords


@dataclass(slots=True, frozen=True)
class LogToClean:
    """The part of `log` that a pass would clean (Kafka's class of that name).

    Bytes are of whole segments: `cleanable_bytes` of those with dirty records. A segment in which
    the last pass stopped counts as clean and as dirty, as in Kafka.
    """

    log: Log
    segments: list[Segment]
    """The segments before the first uncleanable offset, including the clean ones."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    waited_too_long: bool

    @property
    def cleanable_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total > 0 else 0.0

    @property
    def worth_cleaning(self) -> bool:
        if self.waited_too_long and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def log_to_clean(log: Log, clean_offset: int | None, now_ms: int) -> LogToClean:
    """Return the part of a log that a pass would clean.

    `clean_offset`: the recorded first dirty offset, or None. `now_ms`: wall time that does not
    jump. Raises `LogDamaged`, `OSError`.
    """
    first_dirty = clean_offset if clean_offset is not None else log.log_start_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    undecided = log.producers.transactions.first_unstable
    segments = _before(log, min(log.high_watermark, undecided, log.recovery_point))
    dirty = [s for n, s in enumerate(segments) if log.segments.end_of(n) > first_dirty]
    young = _first_younger(dirty, now_ms, log.config.min_compaction_lag_ms)
    if young is not None:
        del dirty[dirty.index(young) :]
        del segments[segments.index(young) :]
    first_uncleanable = log.segments.end_of(len(segments) - 1) if segments else first_dirty
    clean_bytes = sum(s.size for s in segments if s.base_offset < first_dirty)
    return LogToClean(
        log,
        segments,
        first_dirty,
        max(first_uncleanable, first_dirty),
        clean_bytes,
        sum(s.size for s in dirty),
        _waited_too_long(dirty, now_ms, log.config.max_compaction_lag_ms),
    )


def _before(log: Log, offset: int) -> list[Segment]:
    """Return the inactive segments that end at or before `offset`."""
    inactive = log.segments.items[:-1]
    return [s for n, s in enumerate(inactive) if log.segments.end_of(n) <= offset]


def _first_younger(segments: list[Segment], now_ms: int, lag_ms: int) -> Segment | None:
    if lag_ms <= 0:
        return None
    return next((s for s in segments if s.largest_timestamp() > now_ms - lag_ms), None)


def _waited_too_long(segments: list[Segment], now_ms: int, lag_ms: int) -> bool:
    if lag_ms >= NEVER:
        return False
    times = [t for s in segments if (t := s.read_first_timestamp()) is not None and t > 0]
    return bool(times) and min(times) < now_ms - lag_ms


@dataclass(slots=True, frozen=True)
class SourceSegment:
    """A segment when the pass began; `end_offset` is the base offset of the next one."""

    segment: Segment
    path: str
    size: int
    base_offset: int
    end_offset: int
    aborted_crc: int | None
    """The checksum of its index of aborted transactions, if it has one."""


def source_segments(plan: LogToClean) -> list[SourceSegment]:
    """Return the segments of a plan, each with its end."""
    ends = [segment.base_offset for segment in plan.segments[1:]]
    return [
        SourceSegment(
            segment,
            segment.file.path,
            segment.size,
            segment.base_offset,
            end,
            None if segment.transaction_index is None else segment.transaction_index.crc,
        )
        for segment, end in zip(plan.segments, [*ends, plan.first_uncleanable_offset])
    ]


def group_segments(
    sources: list[SourceSegment], segment_bytes: int
) -> Iterator[list[SourceSegment]]:
    """Yield groups of neighbouring segments, each as large as one segment may be."""
    group: list[SourceSegment] = []
    for source in sources:
        if group and (
            sum(each.size for each in group) + source.size > segment_bytes
            or source.end_offset - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
        ):
            yield group
            group = []
        group.append(source)
    if group:
        yield group


UNCLEANABLE = (BadBatch, InvalidRecords, CorruptCompression, SectionTooLarge)
LARGEST_SEGMENT_BYTES = (1 << 31) - 1
RECORDS_PER_STEP = 2000

OwnerStep = Callable[[Log], None]
Step = int | OwnerStep


@dataclass(slots=True)
class CleanerStats:
    """Counts of one pass, for log lines and tests. Bytes are of segments."""

    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    segments_before: int = 0
    segments_after: int = 0


class Cleaner:
    """A pass. When all `steps` were taken, `end_offset` is the new first dirty offset."""

    def __init__(
        self,
        disk: Disk,
        plan: LogToClean,
        offset_map: OffsetMap,
        *,
        now_ms: int,
        chunk_bytes: int,
    ) -> None:
        """Read what the worker needs of the log and mark the log as being cleaned. Owner thread.

        The caller that takes the steps ends the mark. `offset_map` is empty; `now_ms` is wall time
        that does not jump.
        """
        plan.log.cleaning = True
        self._disk = disk
        self._offset_map = offset_map
        self._chunk_bytes = chunk_bytes
        self._first_dirty_offset = plan.first_dirty_offset
        self._fence = plan.log.fence
        self._config = plan.log.config
        self._directory = plan.log.directory
        self._sources = source_segments(plan)
        end = plan.first_uncleanable_offset
        self._spanning = plan.log.segments.aborted_transactions(end, end)
        """Aborted transactions that began in the segments, whose markers are in later ones."""
        self._aborted = AbortedTransactions([], self._spanning)
        self._outcomes = TransactionOutcomes(self._aborted)
        self._last_records = plan.log.producers.last_records()
        self._now_ms = now_ms
        self.stats = CleanerStats()
        self.deletions: list[Deletion] = []
        """Replaced segments, whose files are removed after their delay."""

    @property
    def end_offset(self) -> int:
        """The end of the clean part after the pass."""
        return self._offset_map.latest_offset + 1

    def steps(self) -> Generator[Step, None, None]:
        """Run the pass. Raises `UNCLEANABLE` errors, `LogDirFailure`, and `OSError` for a failed
        read or a full disk.
        """
        remove_unfinished_swaps(self._disk, self._directory)
        yield from self._load_aborted()
        yield from self._map_keys()
        outcomes = self._outcomes = TransactionOutcomes(self._aborted)
        self._retention = BatchRetention(
            self._offset_map,
            self._last_records,
            self._now_ms,
            self._config.delete_retention_ms,
            outcomes,
        )
        sources = [source for source in self._sources if source.base_offset < self.end_offset]
        for group in group_segments(sources, self._config.segment_bytes):
            yield from self._replace(group)
        self.stats.records_read = self._retention.records_read
        self.stats.records_kept = self._retention.records_kept

    # Transactions

    def _load_aborted(self) -> Iterator[Step]:
        """Read the indexes of aborted transactions."""
        indexes: list[TransactionIndex] = []
        for source in self._sources:
            if source.aborted_crc is not None:
                stem, suffix = source.path.rsplit(LOG_SUFFIX, 1)
                path = stem + TRANSACTION_INDEX_SUFFIX + suffix
                index = TransactionIndex(
                    self._disk, path, source.base_offset, stem + TRANSACTION_SUM_SUFFIX + suffix
                )
                if not index.load_and_summarise() or index.crc != source.aborted_crc:
                    raise BadBatch(0, source.base_offset, f"{path} is not as it was")
                indexes.append(index)
                yield index.size
        self._aborted = AbortedTransactions(indexes, self._spanning)

    # The offset map

    def _map_keys(self) -> Iterator[Step]:
        start, offset_map = self._first_dirty_offset, self._offset_map
        offset_map.latest_offset = start - 1
        outcomes = TransactionOutcomes(self._aborted)
        for source in self._sources:
            if source.end_offset <= start:
                continue
            outcomes.enter(max(start, source.base_offset), source.end_offset)
            with opened(self._disk, source.path) as file:
                for data, headers in self._read(file, source):
                    for chunk in batches_per_step(headers):
                        for header in chunk:
                            if header.last_offset < start:
                                continue
                            if offset_map.full:
                                return
                            add_keys(data, header, start, offset_map, outcomes)
                            offset_map.latest_offset = header.last_offset
                        size = sum(header.size for header in chunk)
                        self.stats.map_bytes_read += size
                        yield size
            offset_map.latest_offset = source.end_offset - 1

    def _read(
        self, file: File, source: SourceSegment
    ) -> Iterator[tuple[bytes, list[RecordBatchHeader]]]:
        return read_batches(
            file, source.size, source.base_offset, source.end_offset, self._chunk_bytes
        )

    # One group of segments

    def _replace(self, group: list[SourceSegment]) -> Iterator[Step]:
        changed = self._retention.batches_changed
        with self._writing():
            cleaned = Segment(
                self._disk,
                self._directory,
                group[0].base_offset,
                create=True,
                suffix=CLEANED_SUFFIX,
            )
        cleaned.index_interval_bytes = self._config.index_interval_bytes
        segments = [source.segment for source in group]
        swap = SegmentSwap(self._disk, self._directory, segments, cleaned)
        try:
            yield from self._write(group, cleaned)
            if len(group) == 1 and changed == self._retention.batches_changed:
                swap.abort()
                return
            with self._writing():
                cleaned.seal()
                swap.commit()
            yield swap.install
        except Exception:
            with suppress(OSError):
                swap.abort()
            raise
        finally:
            cleaned.close()  # in any case: the log opens its own
        try:
            swap.mark_deleted()
            yield swap.rename_into_place
            swap.sync_renames()
        except FileNotFoundError:  # the partition was deleted meanwhile
            raise
        except OSError as error:
            raise self._fence.fail(error) from error
        self.deletions.append(swap.deletion)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Classify errors as those of an append."""
        try:
            yield
        except OSError as error:
            raise self._fence.classify(error) from error

    def _write(self, group: list[SourceSegment], cleaned: Segment) -> Iterator[Step]:
        self.stats.segments_before += len(group)
        self.stats.segments_after += 1
        end_offset = group[-1].end_offset
        with pinned(cleaned.file):
            for source in group:
                self._outcomes.enter(source.base_offset, source.end_offset)
                with opened(self._disk, source.path) as file:
                    for data, headers in self._read(file, source):
                        for chunk in batches_per_step(headers):
                            written = self._append(cleaned, data, chunk, end_offset)
                            read = sum(header.size for header in chunk)
                            self.stats.bytes_read += read
                            self.stats.bytes_written += written
                            yield read + written

    def _append(
        self,
        cleaned: Segment,
        data: bytes,
        headers: list[RecordBatchHeader],
        end_offset: int,
    ) -> int:
        """Write the retained parts of some batches and return the bytes written."""
        parts: list[Buffer] = []
        notes: list[tuple[RecordBatchHeader, int]] = []
        position = cleaned.size
        for header in headers:
            ends_segment = header.next_offset == end_offset
            kept = self._retention.retained(data, header, ends_segment=ends_segment)
            if kept:
                parts.append(kept)
                notes.append((RecordBatchHeader(kept, 0), position))
                position += len(kept)
        if position > LARGEST_SEGMENT_BYTES:
            raise BadBatch(position, end_offset, "more than a segment can hold")
        size = position - cleaned.size
        if parts:
            with self._writing():
                cleaned.append(parts, size)
            for header, start in notes:
                cleaned.index(header.last_offset, start, header.size, header.max_timestamp)
        for aborted in self._outcomes.kept_aborted:
            cleaned.use_transaction_index().add(aborted)
        self._outcomes.kept_aborted = []
        return size


def batches_per_step(headers: list[RecordBatchHeader]) -> Iterator[list[RecordBatchHeader]]:
    """Split batches into lists with as many records as one step looks at."""
    chunk: list[RecordBatchHeader] = []
    records = 0
    for header in headers:
        if chunk and records + header.count > RECORDS_PER_STEP:
            yield chunk
            chunk, records = [], 0
        chunk.append(header)
        records += header.count
    if chunk:
        yield chunk


@contextmanager
def opened(disk: Disk, path: str) -> Iterator[File]:
    """Open a file of the worker's own and keep it open."""
    file = disk.open(path)
    try:
        with pinned(file):
            yield file
    finally:
        file.close()


@contextmanager
def pinned(file: File) -> Iterator[None]:
    """Keep the descriptor open, as a worker must."""
    file.pin()
    try:
        yield
    finally:
        file.unpin()
