"""The file names of a compacted segment on its way to its place, and what a start makes of them.

    X.log.cleaned  being written: worth nothing until it is whole
    X.log.swap     whole and durable: this is what counts from now on, whatever else is there
    X.log          in its place
    Y.log.deleted  replaced (X itself, or one after it), for readers that still hold it

and the same for `.index` and `.timeindex`: Kafka's protocol. Of the three the log is renamed last,
so `.log.swap` without any `.cleaned` of the same name says that all of it is there. `segment_swap`
takes the steps; `complete_swaps` finishes or undoes them when a log is opened after a crash:

    X.*.cleaned is there   it and X.*.swap go: the old segments are all still there
    else X.log.swap        old segments in its range of offsets go, and it takes its place
    else X.*index.swap     its log is in place already: it follows

Done twice it changes nothing more, so it may be cut short as well.

Putting a compacted segment in the place of those it was made from, while the log is in use.

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

from collections.abc import Iterable

from odradek.log.fence import LogDamaged
from odradek.log.log import Log
from odradek.log.retention import Deletion
from odradek.log.scan import BadBatch, walk
from odradek.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_file_name,
)
from odradek.model.env import Disk

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
LOG_LAST = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)


def rename_files(disk: Disk, directory: str, base_offset: int, source: str, target: str) -> None:
    """Another suffix for the three files of a segment, the log last."""
    for kind in LOG_LAST:
        path = f"{directory}/{segment_file_name(base_offset, kind)}"
        disk.rename(path + source, path + target)


def remove_files(disk: Disk, directory: str, base_offset: int, suffix: str) -> None:
    """Remove what there is of a segment under names with this suffix, the log first."""
    for kind in reversed(LOG_LAST):
        path = f"{directory}/{segment_file_name(base_offset, kind)}{suffix}"
        if disk.exists(path):
            disk.remove(path)


def remove_unfinished(disk: Disk, directory: str) -> None:
    """Remove what a pass that failed could not: nothing in service has these names."""
    names = list(disk.list(directory))
    for name in [*_named(names, SWAP_SUFFIX), *_named(names, CLEANED_SUFFIX)]:
        disk.remove(f"{directory}/{name}")


def complete_swaps(disk: Disk, directory: str) -> None:
    """Bring swaps that were cut short to their end, or undo them. Blocks.

    Raises `LogDamaged` if a segment that counts is not sound, `OSError`.
    """
    names = list(disk.list(directory))
    cleaned, swaps = _named(names, CLEANED_SUFFIX), _named(names, SWAP_SUFFIX)
    if not (cleaned or swaps):
        return
    uncommitted = {_base(name) for name in cleaned}
    for name in [*swaps, *cleaned]:  # in this order: what is left says the same again
        if _base(name) in uncommitted:
            disk.remove(f"{directory}/{name}")
    committed = [name for name in swaps if _base(name) not in uncommitted]
    for name in committed:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(disk, directory, names, _base(name))
    for name in sorted(committed, key=lambda name: name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_directory(directory)


def _named(names: Iterable[str], suffix: str) -> list[str]:
    return [name for name in names if name.endswith(suffix) and name[:20].isdecimal()]


def _base(name: str) -> int:
    return int(name[:20])


def _remove_replaced(disk: Disk, directory: str, names: list[str], base_offset: int) -> None:
    """Remove the segments that a committed swap takes the place of."""
    path = f"{directory}/{segment_file_name(base_offset)}{SWAP_SUFFIX}"
    file = disk.open(path)
    end = base_offset
    try:
        for _, header in walk(file, 0, file.size(), base_offset):
            end = header.next_offset
    except BadBatch as bad:
        raise LogDamaged(path, str(bad)) from bad
    finally:
        file.close()
    for name in _named(names, LOG_SUFFIX):
        if base_offset <= _base(name) < end:
            remove_files(disk, directory, _base(name), "")


class LogCleaningAborted(Exception):
    """The old segments are no longer in the log: it was cut meanwhile."""


class SegmentSwap:
    """One new segment for some neighbours; each step once, in order.

    What fails after `install` leaves a state that only a restart brings to its end.
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

    def abort(self) -> None:
        """Worker: the old segments stay. Instead of `install`, or after it raised."""
        for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
            remove_files(self._disk, self._directory, self._base_offset, suffix)

    def install(self, log: Log) -> None:
        """Owner. Raises `LogCleaningAborted` if there is nothing to take the place of."""
        first = _index(log, self._old[0])
        cut = not log.cleaning or first < 0
        if cut or log.segments.items[first : first + len(self._old)] != self._old:
            raise LogCleaningAborted(self._directory)
        self._current = self._put(log, first, len(self._old), SWAP_SUFFIX)

    def mark_deleted(self) -> None:
        """Worker."""
        self.deletion.rename()
        self._disk.sync_directory(self._directory)

    def rename_into_place(self, log: Log) -> None:
        """Owner."""
        current = self._current
        assert current is not None, "before take_over"
        rename_files(self._disk, self._directory, self._base_offset, SWAP_SUFFIX, "")
        self._put(log, _index(log, current), 1, "")
        current.close()
        self.deletion.delay_ms = log.config.file_delete_delay_ms

    def sync_renames(self) -> None:
        """Worker."""
        self._disk.sync_directory(self._directory)

    def _put(self, log: Log, first: int, count: int, suffix: str) -> Segment:
        segment = Segment(
            self._disk, self._directory, self._base_offset, create=False, suffix=suffix
        )
        segment.index_interval_bytes = log.config.index_interval_bytes
        log.segments.replace(first, count, segment)
        log.reader.clear_position()
        return segment


def _index(log: Log, segment: Segment) -> int:
    """Where a segment is in its log; -1: nowhere."""
    return next((n for n, each in enumerate(log.segments.items) if each is segment), -1)
