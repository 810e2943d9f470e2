"""A segment: `<base offset, 20 digits>.log`, which is batches as on the wire, and its indexes.

    00000000000000000000.log        record batches, one after the other (see protocol.record_batch)
    00000000000000000000.index      see `index`
    00000000000000000000.timeindex  see `index`
    00000000000000000000.txnindex   see `transaction_index`; only if a transaction was aborted
    00000000000000000000.txnsum     the checksum of its first entries
    00000000000000000000.snapshot   producer state before this offset, see `producer_snapshot`

Invariants: batches lie in ascending order of offset, the first at or after the base offset; every
offset is less than 2^31 above it. Only the last segment of a log is appended to.

`position` is always a byte in this segment's `.log` where a batch starts. The positions of the last
appended batches are in memory (`RecentBatches`); others are found by the index and a short walk. An
index entry is used only after the batch it names was read at its position; if the batch is not
there, the index is rebuilt from the log.
"""

from __future__ import annotations

import errno
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.log.fence import LogDamaged
from odradek.log.index import OffsetIndex, SparseIndex, TimeIndex
from odradek.log.open_transactions import CompletedTransaction
from odradek.log.scan import HEADER, SCAN_BYTES, BadBatch, walk
from odradek.log.transaction_index import TransactionIndex
from odradek.model.env import Buffer, Disk, File
from odradek.protocol.record_batch import RecordBatchHeader

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
TRANSACTION_SUM_SUFFIX = ".txnsum"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
INDEX_INTERVAL_BYTES: Final = 4096
RECENT_BATCHES: Final = 128
"""Positions of at least this many appended batches are in memory, and of at most twice as many."""


class RecentBatches:
    """Offsets and positions of the batches last appended to a segment, both ascending.

    With them followers and consumers at the tail of the log are served without reading headers.
    """

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._offsets = array("q")
        self._positions = array("q")

    def append(self, base_offset: int, position: int) -> None:
        """Add the batch that was appended last."""
        offsets = self._offsets
        if len(offsets) >= 2 * RECENT_BATCHES:
            del offsets[:RECENT_BATCHES]
            del self._positions[:RECENT_BATCHES]
        offsets.append(base_offset)
        self._positions.append(position)

    def truncate(self, position: int) -> None:
        """Forget the batches from `position` on, where the segment now ends."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]

    def locate(self, offset: int, end: int) -> tuple[int, int, int] | None:
        """Return (base offset, position, size) of the last batch that begins at or before `offset`,
        in a segment of `end` bytes; None if it is not in memory.
        """
        slot = bisect_right(self._offsets, offset) - 1
        if slot < 0:
            return None
        positions = self._positions
        start = positions[slot]
        stop = positions[slot + 1] if slot + 1 < len(positions) else end
        return self._offsets[slot], start, stop - start

    def start_of(self, offset: int) -> int:
        """Position of the batch that begins with `offset`, or -1."""
        offsets = self._offsets
        slot = bisect_left(offsets, offset)
        return self._positions[slot] if slot < len(offsets) and offsets[slot] == offset else -1

    def first_from(self, position: int) -> int:
        """Base offset of the first batch that starts at or after `position`, or -1.

        -1 too if `position` is before the first batch in memory.
        """
        positions = self._positions
        if not positions or position < positions[0]:
            return -1
        slot = bisect_left(positions, position)
        return self._offsets[slot] if slot < len(positions) else -1

    def last_start(self, position: int) -> int:
        """The last start of a batch at or before `position`, or -1."""
        slot = bisect_right(self._positions, position) - 1
        return self._positions[slot] if slot >= 0 else -1


class AbsentFile:
    """The file of a segment that is made by its first append: empty, and not on the disk."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return 0

    def read(self, offset: int, count: int) -> bytes:
        return b""

    def append(self, parts: Sequence[Buffer]) -> int:
        raise self._missing()

    def write(self, offset: int, data: Buffer) -> None:
        raise self._missing()

    def truncate(self, size: int) -> None:
        raise self._missing()

    def sync(self) -> None:
        raise self._missing()

    def pin(self) -> int | None:
        raise self._missing()

    def unpin(self) -> None:
        raise self._missing()

    def read_ahead(self, offset: int, count: int) -> None:
        """Do nothing: there are no bytes."""

    def close(self) -> None:
        """Do nothing: there is no descriptor."""

    def _missing(self) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, "the segment has no file yet", self._path)


def segment_file_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """Return a file name such as `00000000000000368769.log`."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """One `.log` file with its indexes."""

    __slots__ = (
        "base_offset",
        "created_ms",
        "directory",
        "disk",
        "file",
        "first_timestamp",
        "index_interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "recent",
        "size",
        "time_index",
        "transaction_index",
        "unindexed_bytes",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        create: bool,
        suffix: str = "",
        later: bool = False,
    ) -> None:
        """Open (or create) the file; `OSError` if that fails. Nothing is read yet.

        `later`: it is created by `make_file`, before the first append.

        `suffix`: appended to all three names while a compaction swap is not complete (see
        `compaction.segment_swap`).
        """
        stem = f"{directory}/{base_offset:020d}"
        self.disk = disk
        self.directory = directory
        self.base_offset = base_offset
        path = stem + LOG_SUFFIX + suffix
        self.file: File = AbsentFile(path) if later else disk.open(path, create=create)
        self.offset_index = OffsetIndex(disk, stem + INDEX_SUFFIX + suffix, base_offset)
        self.time_index = TimeIndex(disk, stem + TIME_INDEX_SUFFIX + suffix, base_offset)
        self.offset_index.loaded = self.time_index.loaded = create
        self.transaction_index: TransactionIndex | None = None  # None: nothing was aborted
        self.size = self.file.size()
        self.unindexed_bytes = 0
        self.max_timestamp = -1  # ms; -1: no record has one
        self.max_timestamp_offset = -1  # last offset of the batch that has it
        self.first_timestamp: int | None = None  # largest of the first batch, ms
        self.created_ms = 0
        self.index_interval_bytes = INDEX_INTERVAL_BYTES
        self.recent = RecentBatches()

    # Appending

    def make_file(self) -> None:
        """Create the file of a segment that was made without one. Raises `OSError`."""
        self.file = self.disk.open(self.file.path, create=True)

    def append(self, parts: list[Buffer], size: int) -> int:
        """Write at the end and return the start position. `OSError`: nothing is in the file."""
        position = self.size
        self.size = self.file.append(parts)
        assert self.size == position + size, f"{self.file.path}: {self.size} bytes"
        return position

    def update_after_append(
        self, base_offset: int, last_offset: int, position: int, size: int, max_timestamp: int
    ) -> None:
        """Add a batch that is in the file to the indexes and to the recent batches."""
        self.recent.append(base_offset, position)
        self.index(last_offset, position, size, max_timestamp)

    def index(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """Add a batch to the indexes, if an entry is due."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp = max_timestamp
        if self.unindexed_bytes > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size

    def use_transaction_index(self) -> TransactionIndex:
        """Return the index of aborted transactions, a new one if there was none."""
        if self.transaction_index is None:
            stem = f"{self.directory}/{self.base_offset:020d}"
            suffix = self.file.path[len(stem) + len(LOG_SUFFIX) :]
            self.transaction_index = TransactionIndex(
                self.disk,
                stem + TRANSACTION_INDEX_SUFFIX + suffix,
                self.base_offset,
                stem + TRANSACTION_SUM_SUFFIX + suffix,
            )
        return self.transaction_index

    def add_completed(self, transaction: CompletedTransaction) -> None:
        """Note that a marker in this segment has ended a transaction."""
        if transaction.aborted:
            self.use_transaction_index().append(transaction)

    def truncate_transactions(self, offset: int) -> None:
        """Remove the transactions whose markers are at or after `offset`, and load the index."""
        index = self.transaction_index
        if index is not None:
            if not index.loaded:
                index.load()
            index.truncate_from(offset)

    def indexes(self) -> list[SparseIndex]:
        """Return the indexes that the segment has."""
        if self.transaction_index is None:
            return [self.offset_index, self.time_index]
        return [self.offset_index, self.time_index, self.transaction_index]

    def seal(self) -> None:
        """Stop being the active segment: add the last time index entry, write the indexes."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.write_indexes()
        self.recent.clear()

    def unload_indexes(self) -> None:
        """Unload the indexes of a sealed segment until they are needed."""
        for index in self.indexes():
            if index.loaded:
                index.unload()

    def write_indexes(self, *, needed: bool = False) -> None:
        """Write the indexes to their files, with `needed` only those that need one. Not synced."""
        for index in self.indexes():
            if index.loaded and (not needed or index.needs_file()):
                index.write_out()

    # Looking up

    def locate(self, offset: int) -> tuple[int, int, int]:
        """Return (base offset, position, size) of the first batch that ends at or after `offset`.

        At the end of an inactive segment: (-1, its size, 0). The active one must hold `offset`.
        Raises `BadBatch`, `OSError`.
        """
        known = self.recent.locate(offset, self.size)
        if known is not None:
            return known
        for position, header in self.headers_from(offset):
            if header.last_offset >= offset:
                return header.base_offset, position, header.size
        return -1, self.size, 0

    def headers_from(self, offset: int) -> Iterator[tuple[int, RecordBatchHeader]]:
        """Yield the batches from at most an index interval before `offset` on.

        Rebuilds an index that does not match the log.
        """
        position = self.start_before(offset)
        if position < 0:
            self.rebuild_indexes()
            position = self.start_before(offset)
        return walk(self.file, position, self.size, self.base_offset)

    def start_before(self, offset: int) -> int:
        """Position of the last indexed batch that ends at or before `offset`, or 0.

        -1 if the index entry does not match the log.
        """
        slot = self.offset_index.lookup(offset)
        if slot < 0:
            return 0
        last_offset, position = self.offset_index.at(slot)
        return position if self.entry_matches(last_offset, position) else -1

    def offset_before_timestamp(self, timestamp: int) -> int:
        """Return an offset before which, by the time index, all timestamps are below this one."""
        slot = self.time_index.lookup(timestamp)
        if slot < 0:
            return self.base_offset
        if not self.time_entry_matches(*self.time_index.at(slot)):
            self.rebuild_indexes()
            return self.offset_before_timestamp(timestamp)
        return self.time_index.at(slot)[1]

    def time_entry_matches(self, timestamp: int, offset: int) -> bool:
        """True if a batch ends with `offset` and its largest timestamp is `timestamp`."""
        for _, header in self.headers_from(offset):
            if header.last_offset >= offset:
                return header.last_offset == offset and header.max_timestamp == timestamp
        return False

    def entry_matches(self, last_offset: int, position: int) -> bool:
        """True if a sound batch that ends with `last_offset` starts at `position`."""
        if not 0 <= position < self.size:
            return False
        try:
            _, header = next(
                walk(self.file, position, self.size, self.base_offset, chunk_bytes=HEADER)
            )
        except (BadBatch, StopIteration):
            return False
        return header.last_offset == last_offset

    def position_of(self, offset: int) -> int:
        """Position of the batch that holds `offset`, or the end of the segment."""
        known = self.recent.start_of(offset)
        return known if known >= 0 else self.locate(offset)[1]

    def offset_after(self, position: int) -> int:
        """An offset of a batch that starts at or after `position`, or -1 if none is known."""
        known = self.recent.first_from(position)
        if known >= 0:
            return known
        index = self.offset_index
        slot = index.slot_at(position - 1) + 1
        if slot >= len(index):
            return -1
        last_offset, start = index.at(slot)
        if self.entry_matches(last_offset, start):
            return last_offset
        self.rebuild_indexes()
        return self.offset_after(position)

    def align(self, position: int) -> int:
        """Position of the last batch known to start at or before `position`, or 0."""
        known = self.recent.last_start(position)
        if known >= 0:
            return known
        slot = self.offset_index.slot_at(position)
        if slot < 0:
            return 0
        last_offset, start = self.offset_index.at(slot)
        if self.entry_matches(last_offset, start):
            return start
        self.rebuild_indexes()
        return self.align(position)

    def align_from(self, position: int, limit: int) -> int:
        """The last start of a batch up to `limit`. `position` is the start of a batch."""
        known = self.align(limit)
        if known > position:
            return known
        end = position
        for start, header in walk(self.file, position, self.size, self.base_offset):
            end = start
            if start + header.size > limit:
                break
        return end

    def update_max_timestamp(self, header: RecordBatchHeader) -> None:
        """Raise the segment's largest timestamp to that of one of its batches."""
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset

    def rebuild_indexes(self, *, active: bool = False) -> int:
        """Rebuild both indexes from the log and return the offset after its last batch.

        The indexes of the `active` segment have files only if they have entries.
        """
        self.clear_indexes(0, self.base_offset)
        end = self.base_offset
        try:
            for position, header in walk(
                self.file, 0, self.size, self.base_offset, verify=True, chunk_bytes=SCAN_BYTES
            ):
                self.index(header.last_offset, position, header.size, header.max_timestamp)
                end = header.next_offset
        except BadBatch as bad:
            raise LogDamaged(self.file.path, str(bad)) from bad
        if not active:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.write_indexes(needed=active)
        return end

    def clear_indexes(self, position: int, offset: int) -> None:
        """Remove the index entries from `position` on, where `offset` starts."""
        self.offset_index.loaded = self.time_index.loaded = True
        if position == 0:
            self.offset_index.truncate(0)
            self.time_index.truncate(0)
            self.first_timestamp = None
        else:
            self.offset_index.truncate_from(position)
            self.time_index.truncate_from(offset)
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        self.unindexed_bytes = position - self.offset_index.floor(position)

    def read_first_timestamp(self) -> int | None:
        """Return the largest timestamp of the first batch; None if the segment is empty."""
        if self.first_timestamp is None and self.size > 0:
            try:
                _, header = next(walk(self.file, 0, self.size, self.base_offset))
            except BadBatch as bad:
                raise LogDamaged(self.file.path, str(bad)) from bad
            self.first_timestamp = header.max_timestamp
        return self.first_timestamp

    def largest_timestamp(self) -> int:
        """Return the largest timestamp of the segment.

        If the time index is not loaded, it is read from the end of its file.
        """
        if self.max_timestamp < 0 and not self.time_index.loaded:
            timestamp, offset = self.time_index.read_last()
            self.max_timestamp, self.max_timestamp_offset = timestamp, offset
        return self.max_timestamp

    def files(self) -> list[str]:
        """Paths of the segment's files."""
        stem = f"{self.directory}/{self.base_offset:020d}"
        paths = [stem + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        if self.transaction_index is not None:
            paths += [stem + TRANSACTION_SUM_SUFFIX, stem + TRANSACTION_INDEX_SUFFIX]
        return paths

    def close(self) -> None:
        self.file.close()
        for index in self.indexes():
            index.close()
