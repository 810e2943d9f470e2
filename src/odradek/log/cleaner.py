"""One pass of compaction over one log: afterwards no key is twice in the part that was cleaned.

    map      read the dirty part, oldest first, until its end or until the map of keys is full
    clean    read everything up to there, group by group of neighbouring segments that fit into one,
             keep of each batch what `batch_retention` says, and write it to a new segment
    swap     put each new segment in the place of its group (`segment_swap`)

Groups are replaced in order and one at a time, so wherever a pass ends, what was removed is still
said later in the log. Offsets, order and leader epochs are as they were; there are gaps.

A pass is a generator of steps, which a worker takes one by one (`next`). It yields either the bytes
that were read and written since the last step, for whoever paces it, or a function of the log for
the owner thread, after which it goes on on a worker. Between two steps it may be dropped: what is
half done is removed, or completed, when the log is cleaned or opened again. A step reads at most
one piece of the log and looks at a few thousand records, or at one batch with more; the memory of a
pass is the map, two pieces and the largest batch.

Every batch is verified before it is rewritten: damage must not get a new checksum. `BadBatch` and
the like mean that this log cannot be cleaned; nothing of it has been touched.

Files are read and written through objects of this pass's own, since those of the log belong to the
owner thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from odradek.log.batch_retention import BatchRetention, take_keys
from odradek.log.cleanable import LogToClean
from odradek.log.cleaner_sources import Source, groups, sources_of
from odradek.log.log import Log
from odradek.log.offset_map import OffsetMap
from odradek.log.retention import Deletion
from odradek.log.scan import BadBatch, read_batches
from odradek.log.segment import Segment
from odradek.log.segment_swap import SegmentSwap
from odradek.log.swap_files import CLEANED_SUFFIX, undo
from odradek.model.env import Buffer, Disk, File
from odradek.protocol.compression import CorruptCompression, TooLarge
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.records import InvalidRecords

UNCLEANABLE = (BadBatch, InvalidRecords, CorruptCompression, TooLarge)
LARGEST_SEGMENT_BYTES = (1 << 31) - 1
RECORDS_AT_ONCE = 2000

OwnerStep = Callable[[Log], None]
Step = int | OwnerStep


@dataclass(slots=True)
class CleanerStats:
    """What a pass did, for the broker's log and tests. Bytes are of segments."""

    map_bytes_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    segments_before: int = 0
    segments_after: int = 0


class Cleaner:
    """A pass. Take `steps` to their end; then `end_offset` is the new first dirty offset."""

    def __init__(
        self,
        disk: Disk,
        plan: LogToClean,
        latest: OffsetMap,
        *,
        now_ms: int,
        chunk_bytes: int,
    ) -> None:
        """Owner thread: what the worker needs of the log is read here, and the log is marked as
        being cleaned; whoever takes the steps ends that. `latest` is empty; `now_ms` is wall time
        that does not jump.
        """
        plan.log.cleaning = True
        self._disk = disk
        self._latest = latest
        self._chunk_bytes = chunk_bytes
        self._first_dirty_offset = plan.first_dirty_offset
        self._fence = plan.log.fence
        self._config = plan.log.config
        self._directory = plan.log.directory
        self._sources = sources_of(plan)
        self._retention = BatchRetention(
            latest, plan.log.producers.last_offsets(), now_ms, self._config.delete_retention_ms
        )
        self.stats = CleanerStats()
        self.deletions: list[Deletion] = []
        """Files that were replaced, to be removed when their delay is over."""

    @property
    def end_offset(self) -> int:
        """Where the clean part ends after the pass."""
        return self._latest.latest_offset + 1

    def steps(self) -> Generator[Step, None, None]:
        """Raises `UNCLEANABLE` errors, `LogDirFailure`, `OSError` for what could not be read or had
        no room.
        """
        undo(self._disk, self._directory)
        yield from self._map_keys()
        wanted = [source for source in self._sources if source.base_offset < self.end_offset]
        for group in groups(wanted, self._config.segment_bytes):
            yield from self._replace(group)
        self.stats.records_read = self._retention.records_read
        self.stats.records_kept = self._retention.records_kept

    # The map.

    def _map_keys(self) -> Iterator[Step]:
        start, latest = self._first_dirty_offset, self._latest
        latest.latest_offset = start - 1
        for source in self._sources:
            if source.end_offset <= start:
                continue
            with opened(self._disk, source.path) as file:
                for data, headers in self._read(file, source):
                    for some in at_once(headers):
                        for header in some:
                            if header.last_offset < start:
                                continue
                            if latest.full:
                                return
                            take_keys(data, header, start, latest)
                            latest.latest_offset = header.last_offset
                        size = sum(header.size for header in some)
                        self.stats.map_bytes_read += size
                        yield size
            latest.latest_offset = source.end_offset - 1

    def _read(self, file: File, source: Source) -> Iterator[tuple[bytes, list[RecordBatchHeader]]]:
        return read_batches(
            file, source.size, source.base_offset, source.end_offset, self._chunk_bytes
        )

    # One group.

    def _replace(self, group: list[Source]) -> Iterator[Step]:
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
                swap.give_up()
                return
            with self._writing():
                cleaned.seal()
                swap.commit()
            yield swap.take_over
        except Exception:
            with suppress(OSError):
                swap.give_up()
            raise
        finally:
            cleaned.close()  # whatever became of it: nobody else would
        try:
            swap.retire()
            yield swap.settle
            swap.finish()
        except FileNotFoundError:  # the partition was deleted meanwhile
            raise
        except OSError as error:
            raise self._fence.fail(error) from error
        self.deletions.append(swap.deletion)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """What fails here is judged as an append is."""
        try:
            yield
        except OSError as error:
            raise self._fence.judge(error) from error

    def _write(self, group: list[Source], cleaned: Segment) -> Iterator[Step]:
        self.stats.segments_before += len(group)
        self.stats.segments_after += 1
        end_offset = group[-1].end_offset
        with pinned(cleaned.file):
            for source in group:
                with opened(self._disk, source.path) as file:
                    for data, headers in self._read(file, source):
                        for some in at_once(headers):
                            written = self._append(cleaned, data, some, end_offset)
                            read = sum(header.size for header in some)
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
        """Write what stays of some batches; how many bytes that were."""
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
        return size


def at_once(headers: list[RecordBatchHeader]) -> Iterator[list[RecordBatchHeader]]:
    """Batches with as many records together as one step looks at."""
    some: list[RecordBatchHeader] = []
    records = 0
    for header in headers:
        if some and records + header.count > RECORDS_AT_ONCE:
            yield some
            some, records = [], 0
        some.append(header)
        records += header.count
    if some:
        yield some


@contextmanager
def opened(disk: Disk, path: str) -> Iterator[File]:
    """A file of the worker's own, open all the time."""
    file = disk.open(path)
    try:
        with pinned(file):
            yield file
    finally:
        file.close()


@contextmanager
def pinned(file: File) -> Iterator[None]:
    """Keep the descriptor, as a worker must."""
    file.pin()
    try:
        yield
    finally:
        file.unpin()
