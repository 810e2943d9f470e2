"""The file names of a compacted segment on its way to its place, and what a start makes of them.

    X.log.cleaned  being written: worth nothing until it is whole
    X.log.swap     whole and durable: this is what counts from now on, whatever else is there
    X.log          in its place
    Y.log.deleted  replaced (X itself, or one after it), for readers that still hold it

and the same for `.index` and `.timeindex`: Kafka's protocol. Of the three the log is renamed last,
so `.log.swap` without any `.cleaned` of the same name says that all of it is there. `segment_swap`
takes the steps; `complete` finishes or undoes them when a log is opened after a crash:

    X.*.cleaned is there   it and X.*.swap go: the old segments are all still there
    else X.log.swap        old segments in its range of offsets go, and it takes its place
    else X.*index.swap     its log is in place already: it follows

Done twice it changes nothing more, so it may be cut short as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.log.fence import LogDamaged
from odradek.log.scan import BadBatch, walk
from odradek.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_file_name
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


def undo(disk: Disk, directory: str) -> None:
    """Remove what a pass that failed could not: nothing in service has these names."""
    names = list(disk.list(directory))
    for name in [*_named(names, SWAP_SUFFIX), *_named(names, CLEANED_SUFFIX)]:
        disk.remove(f"{directory}/{name}")


def complete(disk: Disk, directory: str) -> None:
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
