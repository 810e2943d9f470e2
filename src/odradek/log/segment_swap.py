"""Putting a compacted segment in the place of those it was made from, while the log is in use.

The steps, by whom, and what is true after each (the names are explained in `swap_files`):

    worker  commit      .cleaned is synced and becomes .swap, then the directory is synced: from
                        here on a restart goes on forward
    owner   take_over   the old segments leave the log, the new one is read from .swap
    worker  retire      the old files become .deleted, directory synced
    owner   settle      .swap gets its own name, and the new segment is read from there
    worker  finish      directory synced; the .deleted go after `file.delete.delay.ms`

So there is no moment at which the records of both generations count, or of none. Readers that were
given slices of old files keep them open; nobody else has a path of them. The owner's steps change
lists and names and wait for nothing.

The new segment ends with the offset that the last of the old ones ended with: `batch_retention`.
"""

from __future__ import annotations

from odradek.log.log import Log
from odradek.log.retention import Deletion
from odradek.log.segment import Segment
from odradek.log.swap_files import CLEANED_SUFFIX, SWAP_SUFFIX, remove_files, rename_files
from odradek.model.env import Disk


class Cut(Exception):
    """The old segments are no longer in the log: it was cut meanwhile."""


class SegmentSwap:
    """One new segment for some neighbours; each step once, in order.

    What fails after `take_over` leaves a state that only a restart brings to its end.
    """

    def __init__(self, disk: Disk, directory: str, old: list[Segment], cleaned: Segment) -> None:
        """`cleaned` has been written under `.cleaned` names and sealed."""
        self._disk = disk
        self._directory = directory
        self._old = old
        self._cleaned = cleaned
        self._base_offset = cleaned.base_offset
        self._current: Segment | None = None
        self.deletion = Deletion(disk, directory, old, 0, 0)

    def commit(self) -> None:
        """Worker."""
        cleaned = self._cleaned
        for file in (cleaned.file, cleaned.offset_index.file(), cleaned.time_index.file()):
            file.pin()
            try:
                file.sync()
            finally:
                file.unpin()
        cleaned.close()
        rename_files(self._disk, self._directory, self._base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
        self._disk.sync_directory(self._directory)

    def give_up(self) -> None:
        """Worker: the old segments stay. Instead of `take_over`, or after it raised."""
        for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
            remove_files(self._disk, self._directory, self._base_offset, suffix)

    def take_over(self, log: Log) -> None:
        """Owner. Raises `Cut` if there is nothing to take the place of."""
        first = _index(log, self._old[0])
        cut = not log.cleaning or first < 0
        if cut or log.segments.items[first : first + len(self._old)] != self._old:
            raise Cut(self._directory)
        self._current = self._put(log, first, len(self._old), SWAP_SUFFIX)

    def retire(self) -> None:
        """Worker."""
        self.deletion.rename()
        self._disk.sync_directory(self._directory)

    def settle(self, log: Log) -> None:
        """Owner."""
        current = self._current
        assert current is not None, "before take_over"
        rename_files(self._disk, self._directory, self._base_offset, SWAP_SUFFIX, "")
        self._put(log, _index(log, current), 1, "")
        current.close()
        self.deletion.delay_ms = log.config.file_delete_delay_ms

    def finish(self) -> None:
        """Worker."""
        self._disk.sync_directory(self._directory)

    def _put(self, log: Log, first: int, count: int, suffix: str) -> Segment:
        segment = Segment(
            self._disk, self._directory, self._base_offset, create=False, suffix=suffix
        )
        segment.index_interval_bytes = log.config.index_interval_bytes
        log.segments.replace(first, count, segment)
        log.reader.forget()
        return segment


def _index(log: Log, segment: Segment) -> int:
    """Where a segment is in its log; -1: nowhere."""
    return next((n for n, each in enumerate(log.segments.items) if each is segment), -1)
