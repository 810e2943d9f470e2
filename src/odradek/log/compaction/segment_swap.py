"""Replacing segments by the compacted one, while the log is in use and safe from crashes.

The files of a compacted segment X that replaces X and maybe later segments Y:

    X.log.cleaned  being written: ignored until it is complete
    X.log.swap     complete and durable: it is valid from now on, in place of all other files
    X.log          in its place
    Y.log.deleted  replaced (X itself, or one after it), for readers that still have it open

The same for `.index`, `.timeindex` and, if there is one, `.txnindex`, as in Kafka, and for its
`.txnsum`. The log is the last of these files to be renamed, so `.log.swap` without a `.cleaned` of
the same base offset means that all of it is durable.

`SegmentSwap` takes these steps:

    worker  commit             .cleaned is synced and becomes .swap, then the directory is synced:
                               from here on a restart completes the swap
    owner   install            the log has the new segment, read from .swap, for the old ones
    worker  mark_deleted       the old files become .deleted; the directory is synced
    owner   rename_into_place  .swap gets its own name, and the new segment is read from there
    worker  sync_renames       the directory is synced; .deleted files go after
                               `file.delete.delay.ms`

So at no moment are the records of both generations valid, or of none. Reads of the old files keep
them open. The owner's steps change lists and names and do not block.

`complete_swaps` completes or undoes a swap when a log is opened after a crash:

    X.*.cleaned exists     remove it and X.*.swap: all old segments still exist
    else X.log.swap        remove old segments in its range of offsets, and rename it into place
    else X.*index.swap     its log is in place already: rename it, too

It may crash and run again at any point.

The new segment ends with the last offset of the last old one: see `batch_retention`.
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
    TRANSACTION_INDEX_SUFFIX,
    TRANSACTION_SUM_SUFFIX,
    Segment,
    segment_file_name,
)
from odradek.model.env import Disk

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
IF_ABORTED = (TRANSACTION_INDEX_SUFFIX, TRANSACTION_SUM_SUFFIX)
LOG_LAST = (*IF_ABORTED, INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)


def rename_files(disk: Disk, directory: str, base_offset: int, source: str, target: str) -> None:
    """Change the suffix of the files of a segment, the log last."""
    for kind in LOG_LAST:
        path = f"{directory}/{segment_file_name(base_offset, kind)}"
        if kind not in IF_ABORTED or disk.exists(path + source):
            disk.rename(path + source, path + target)


def remove_files(disk: Disk, directory: str, base_offset: int, suffix: str) -> None:
    """Remove the files of a segment with this suffix that exist, the log first."""
    for kind in reversed(LOG_LAST):
        path = f"{directory}/{segment_file_name(base_offset, kind)}{suffix}"
        if disk.exists(path):
            disk.remove(path)


def remove_unfinished_swaps(disk: Disk, directory: str) -> None:
    """Remove unfinished files that a failed pass left. No segment in service has such names."""
    names = list(disk.list(directory))
    for name in [*_named(names, SWAP_SUFFIX), *_named(names, CLEANED_SUFFIX)]:
        disk.remove(f"{directory}/{name}")


def complete_swaps(disk: Disk, directory: str) -> None:
    """Complete or undo interrupted swaps. Blocks.

    Raises `LogDamaged` if a committed segment is not sound; `OSError`.
    """
    names = list(disk.list(directory))
    cleaned, swaps = _named(names, CLEANED_SUFFIX), _named(names, SWAP_SUFFIX)
    if not (cleaned or swaps):
        return
    uncommitted = {_base_offset_of(name) for name in cleaned}
    for name in [*swaps, *cleaned]:  # in this order: after a crash the rest is undone as well
        if _base_offset_of(name) in uncommitted:
            disk.remove(f"{directory}/{name}")
    committed = [name for name in swaps if _base_offset_of(name) not in uncommitted]
    for name in committed:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(disk, directory, names, _base_offset_of(name))
    for name in sorted(committed, key=lambda name: name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_directory(directory)


def _named(names: Iterable[str], suffix: str) -> list[str]:
    return [name for name in names if name.endswith(suffix) and name[:20].isdecimal()]


def _base_offset_of(name: str) -> int:
    return int(name[:20])


def _remove_replaced(disk: Disk, directory: str, names: list[str], base_offset: int) -> None:
    """Remove the segments that a committed swap replaces."""
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
        if base_offset <= _base_offset_of(name) < end:
            remove_files(disk, directory, _base_offset_of(name), "")


class LogCleaningAborted(Exception):
    """The log was truncated during the pass, so the old segments are no longer in it."""


class SegmentSwap:
    """Replaces neighbouring segments by one; call each step once, in order.

    After a failure behind `install` only a restart completes the swap.
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
        """Make the new segment durable under its `.swap` names. Worker."""
        cleaned = self._cleaned
        for file in (cleaned.file, *(index.file() for index in cleaned.indexes())):
            file.pin()
            try:
                file.sync()
            finally:
                file.unpin()
        if cleaned.transaction_index is not None:
            cleaned.transaction_index.write_sum()
        cleaned.close()
        rename_files(self._disk, self._directory, self._base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
        self._disk.sync_directory(self._directory)

    def abort(self) -> None:
        """Remove the new segment. Worker, instead of `install`, or after it raised."""
        for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
            remove_files(self._disk, self._directory, self._base_offset, suffix)

    def install(self, log: Log) -> None:
        """Replace the old segments in the log. Owner.

        Raises `LogCleaningAborted` if they are no longer in the log.
        """
        first = _index_in_log(log, self._old[0])
        cut = not log.cleaning or first < 0
        if cut or log.segments.items[first : first + len(self._old)] != self._old:
            raise LogCleaningAborted(self._directory)
        self._current = self._replace_segments(log, first, len(self._old), SWAP_SUFFIX)
        log.swapping = True

    def mark_deleted(self) -> None:
        """Rename the old files to `.deleted`. Worker."""
        self.deletion.rename()
        self._disk.sync_directory(self._directory)

    def rename_into_place(self, log: Log) -> None:
        """Rename the `.swap` files to their own names. Owner."""
        current = self._current
        assert current is not None, "before install"
        rename_files(self._disk, self._directory, self._base_offset, SWAP_SUFFIX, "")
        self._replace_segments(log, _index_in_log(log, current), 1, "")
        log.swapping = False
        current.close()
        self.deletion.delay_ms = log.config.file_delete_delay_ms

    def sync_renames(self) -> None:
        """Sync the directory. Worker."""
        self._disk.sync_directory(self._directory)

    def _replace_segments(self, log: Log, first: int, count: int, suffix: str) -> Segment:
        segment = Segment(
            self._disk, self._directory, self._base_offset, create=False, suffix=suffix
        )
        segment.index_interval_bytes = log.config.index_interval_bytes
        if self._cleaned.transaction_index is not None:
            segment.use_transaction_index().describe(self._cleaned.transaction_index)
        log.segments.replace(first, count, segment)
        log.reader.clear_position()
        return segment


def _index_in_log(log: Log, segment: Segment) -> int:
    """Return the index of a segment in its log, or -1."""
    return next((n for n, each in enumerate(log.segments.items) if each is segment), -1)
