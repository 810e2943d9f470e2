"""The segments of one log, in order; the last one is active. And loading and truncating a segment.

Inactive segments have their indexes in memory only while they are used: access them by `loaded`.
The first use also checks the segment:

- An inactive segment: its last batch must end with the file and just before the next segment. The
  last entry of the time index must name an existing batch and be no earlier than the batches at the
  end.
- The active one, after a clean stop: it is walked from the last index entry to its end, and the
  last entry of its time index is checked. After an unclean stop `recovery` keeps the index entries
  that ascend and match the log.

A missing or wrong index is rebuilt from the log (`Segment.rebuild_indexes`). A segment that does
not reach its end is damaged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from odradek.log.fence import LogDamaged
from odradek.log.index import IndexCache
from odradek.log.open_transactions import CompletedTransaction
from odradek.log.scan import BadBatch, walk
from odradek.log.segment import Segment
from odradek.log.transaction_index import AbortedTransaction, TransactionIndex


def load_indexes(segment: Segment, cache: IndexCache, next_base: int) -> None:
    """Load the indexes of this inactive segment and check its end.

    `next_base`: base offset of the segment after this one. Raises `LogDamaged` if this one does
    not reach it. After that, or an `OSError`, the next use checks again.
    """
    if not segment.offset_index.loaded or not segment.time_index.loaded:
        try:
            if not (segment.offset_index.load() and segment.time_index.load()):
                segment.rebuild_indexes()
            check_end(segment, next_base)
        except BaseException:
            for index in (segment.offset_index, segment.time_index):
                cache.remove(index)
                index.discard()
            raise
    cache.add(segment.offset_index)
    cache.add(segment.time_index)


def check_end(segment: Segment, next_base: int) -> None:
    """Raise `LogDamaged` unless the last batch ends with the file, just before `next_base`."""
    end, latest = segment.base_offset, -1
    try:
        for _, header in segment.headers_from(next_base - 1):
            end = header.next_offset
            latest = max(latest, header.max_timestamp)
        if segment.time_index.last()[0] < latest or not last_time_entry_matches(segment):
            segment.rebuild_indexes()
    except BadBatch as bad:
        raise LogDamaged(segment.file.path, str(bad)) from bad
    if end != next_base:
        raise LogDamaged(
            segment.file.path, f"ends before offset {end}, but the next segment is {next_base}"
        )
    segment.max_timestamp, segment.max_timestamp_offset = segment.time_index.last()


def load_active(segment: Segment) -> int:
    """Load the active segment after a clean stop and return the log end offset.

    Raises `BadBatch` if a batch after the last index entry is not sound.
    """
    there = segment.offset_index.load() and segment.time_index.load()
    if not (there and last_time_entry_matches(segment)):
        return segment.rebuild_indexes(active=True)
    segment.max_timestamp, segment.max_timestamp_offset = segment.time_index.last()
    end, start = segment.base_offset, -1
    for position, header in segment.headers_from((1 << 63) - 1):
        if start < 0:
            start = position
        segment.update_max_timestamp(header)
        end = header.next_offset
    segment.unindexed_bytes = segment.size - max(start, 0)
    return end


def complete_indexes(segment: Segment) -> None:
    """Complete the indexes of an inactive segment whose last entries may be lost.

    They are written when the segment is closed and synced with the next flush. If the log was
    rolled exactly at its recovery point, recovery reads nothing of the segment before it.
    """
    if segment.offset_index.load() and segment.time_index.load() and indexes_match(segment):
        segment.max_timestamp, segment.max_timestamp_offset = segment.time_index.last()
        for _, header in segment.headers_from(segment.max_timestamp_offset):
            segment.update_max_timestamp(header)
        segment.seal()
    else:
        segment.rebuild_indexes()
    segment.unload_indexes()


def indexes_match(segment: Segment) -> bool:
    """True if the indexes ascend from 0 and their last entries match the log.

    After a power loss only the synced prefix of an index file is certain.
    """
    for index in (segment.offset_index, segment.time_index):
        if not index.is_ascending():
            return False
    slot = len(segment.offset_index) - 1
    if slot >= 0 and not segment.entry_matches(*segment.offset_index.at(slot)):
        return False
    return last_time_entry_matches(segment)


def last_time_entry_matches(segment: Segment) -> bool:
    """True if the log has the batch, with its timestamp, that the time index's last entry names."""
    return len(segment.time_index) == 0 or segment.time_entry_matches(*segment.time_index.last())


def truncate_segment(segment: Segment, offset: int, position: int) -> None:
    """Truncate a segment at `position`, where `offset` would start."""
    if segment.size > position:
        segment.file.truncate(position)
    segment.size = position
    segment.recent.truncate(position)
    segment.clear_indexes(position, offset)
    segment.truncate_transactions(offset)
    slot = segment.offset_index.lookup(offset)
    start = segment.offset_index.at(slot)[1] if slot >= 0 else 0
    for _, header in walk(segment.file, start, position, segment.base_offset):
        segment.update_max_timestamp(header)


def remove_segment(segment: Segment) -> None:
    """Close a segment and remove its files."""
    segment.close()
    for path in segment.files():
        if segment.disk.exists(path):
            segment.disk.remove(path)


class LogSegments:
    """At least one segment, by ascending base offset."""

    __slots__ = ("_bases", "_cache", "_with_aborted", "active", "has_aborted", "items")

    def __init__(self, items: list[Segment], cache: IndexCache) -> None:
        self.items = items
        self.active = items[-1]
        self._bases = [segment.base_offset for segment in items]
        self._cache = cache
        self._with_aborted: list[Segment] | None = None  # None: look which these are
        self.has_aborted = len(self.with_aborted) > 0
        """False if no transaction was aborted, which a reader can tell by this alone."""

    def __len__(self) -> int:
        return len(self.items)

    @property
    def first_offset(self) -> int:
        return self._bases[0]

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self.items)

    def end_of(self, number: int) -> int:
        """Base offset of the segment after an inactive one."""
        return self._bases[number + 1]

    def number_of(self, offset: int) -> int:
        """The number of the segment that holds `offset`; 0 if it is before the first."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and those after it."""
        return self.items[self.number_of(offset) :]

    def loaded(self, number: int) -> Segment:
        """Return a segment, its indexes in memory. Raises `LogDamaged` if its end is missing."""
        segment = self.items[number]
        if segment is not self.active:
            load_indexes(segment, self._cache, self._bases[number + 1])
        return segment

    def each(self) -> Iterator[Segment]:
        """Yield all segments in order, each loaded when it is yielded."""
        for number in range(len(self.items)):
            yield self.loaded(number)

    # Aborted transactions

    @property
    def with_aborted(self) -> list[Segment]:
        """The segments that have an index of aborted transactions."""
        found = self._with_aborted
        if found is None:
            found = [segment for segment in self.items if segment.transaction_index is not None]
            self._with_aborted = found
            self.has_aborted = len(found) > 0
        return found

    def add_completed(self, transaction: CompletedTransaction) -> None:
        """Note that a marker in the active segment has ended a transaction."""
        if transaction.aborted and self.active.transaction_index is None:
            self._with_aborted = None
            self.has_aborted = True
        self.active.add_completed(transaction)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap the offsets `start..end`.

        Raises `LogDamaged` if an index has changed since the log was opened.
        """
        found: list[AbortedTransaction] = []
        segments = self.with_aborted
        first = bisect_right(segments, start, key=lambda segment: segment.base_offset) - 1
        for number in range(max(0, first), len(segments)):
            index = segments[number].transaction_index
            if index is not None and index.may_overlap(start, end):
                self._load_transactions(index)
                if index.collect(start, end, found):
                    break
        return found

    def _load_transactions(self, index: TransactionIndex) -> None:
        if index is self.active.transaction_index:
            return
        if not index.loaded and not (index.load() and index.is_as_before()):
            index.discard()
            raise LogDamaged(index.path, "has changed since it was opened; a restart mends it")
        self._cache.add(index)

    def add(self, segment: Segment) -> None:
        """Append a new active segment."""
        for index in self.active.indexes():
            self._cache.add(index)
        self.items.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def remove_first(self, count: int) -> list[Segment]:
        """Remove and return the first `count` segments, none of them active."""
        assert count < len(self.items), "the active segment is not for deletion"
        taken = self.items[:count]
        del self.items[:count]
        del self._bases[:count]
        self._with_aborted = None
        self._forget(taken)
        return taken

    def remove_after(self, number: int) -> list[Segment]:
        """Remove and return the segments after `number`, which becomes the active one."""
        taken = self.items[number + 1 :]
        del self.items[number + 1 :]
        del self._bases[number + 1 :]
        self._with_aborted = None
        self.active = self.items[number]
        self._forget([self.active, *taken])
        return taken

    def replace(self, first: int, count: int, segment: Segment) -> None:
        """Replace `count` consecutive inactive segments by an inactive `segment`."""
        assert first + count < len(self.items), "the active segment is not replaced"
        old = self.items[first : first + count]
        self.items[first : first + count] = [segment]
        self._bases[first : first + count] = [segment.base_offset]
        self._with_aborted = None
        self._forget(old)

    def restart(self, segment: Segment) -> None:
        """Replace all segments, whose files are gone, by an empty one."""
        self.items[:] = [segment]
        self._bases[:] = [segment.base_offset]
        self._with_aborted = None
        self.active = segment

    def leave_cache(self) -> None:
        """Stop counting the indexes in memory: a worker is about to use them."""
        self._forget(self.items)

    def enter_cache(self) -> None:
        """Count the loaded indexes of inactive segments again."""
        for segment in self.items[:-1]:
            for index in segment.indexes():
                if index.loaded:
                    self._cache.add(index)

    def _forget(self, segments: list[Segment]) -> None:
        for segment in segments:
            for index in segment.indexes():
                self._cache.remove(index)

    def close(self) -> None:
        self._forget(self.items)
        for segment in self.items:
            segment.close()
