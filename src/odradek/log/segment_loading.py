"""Reading a segment's files in, and how far what they say is believed.

An inactive segment is checked when it is first used: its last batch must end with the file and just
before the next segment, and the last entry of the time index must name a batch that is there and be
no earlier than those at the end. The active one is walked from the last index entry to its end
after a clean stop, and the last entry of its time index is checked as well; after anything else
recovery keeps of its indexes what ascends and agrees with the log. An index that is missing or
disagrees is made anew (`Segment.rebuild_indexes`); a log that does not reach its end is damage.
"""

from __future__ import annotations

from odradek.log.fence import LogDamaged
from odradek.log.index import LoadedIndexes
from odradek.log.scan import BadBatch
from odradek.log.segment import Segment


def load(segment: Segment, cache: LoadedIndexes, next_base: int) -> None:
    """Have the indexes of this inactive segment in memory, and see that its end is there.

    `next_base`: base offset of the segment after this one. Raises `LogDamaged` if this one does
    not reach up to it; then, as after an `OSError`, the next use finds that again.
    """
    if not segment.offset_index.loaded or not segment.time_index.loaded:
        try:
            if not (segment.offset_index.load() and segment.time_index.load()):
                segment.rebuild_indexes()
            check_end(segment, next_base)
        except BaseException:
            for index in (segment.offset_index, segment.time_index):
                cache.forget(index)
                index.distrust()
            raise
    cache.loaded(segment.offset_index)
    cache.loaded(segment.time_index)


def check_end(segment: Segment, next_base: int) -> None:
    """Raise `LogDamaged` unless the last batch ends with the file, just before `next_base`."""
    end, latest = segment.base_offset, -1
    try:
        for _, header in segment.headers_from(next_base - 1):
            end = header.next_offset
            latest = max(latest, header.max_timestamp)
        if segment.time_index.last()[0] < latest or not last_time_agrees(segment):
            segment.rebuild_indexes()
    except BadBatch as bad:
        raise LogDamaged(segment.file.path, str(bad)) from bad
    if end != next_base:
        raise LogDamaged(
            segment.file.path, f"ends before offset {end}, but the next segment is {next_base}"
        )
    segment.max_timestamp, segment.max_timestamp_offset = segment.time_index.last()


def reload_active(segment: Segment) -> int:
    """Make this the active segment after a clean stop; returns the log end offset.

    Raises `BadBatch` if what follows the last index entry is not sound.
    """
    there = segment.offset_index.load() and segment.time_index.load()
    if not (there and last_time_agrees(segment)):
        return segment.rebuild_indexes(active=True)
    segment.max_timestamp, segment.max_timestamp_offset = segment.time_index.last()
    end, start = segment.base_offset, -1
    for position, header in segment.headers_from((1 << 63) - 1):
        if start < 0:
            start = position
        segment.remember_timestamp(header)
        end = header.next_offset
    segment.unindexed_bytes = segment.size - max(start, 0)
    return end


def seal_again(segment: Segment) -> None:
    """Complete the indexes of an inactive segment, in case its last entries were lost.

    They are written when the segment is closed, and synced with the next flush. A log that was
    rolled exactly where its recovery point is reads nothing of the segment before it again.
    """
    if segment.offset_index.load() and segment.time_index.load() and indexes_agree(segment):
        segment.max_timestamp, segment.max_timestamp_offset = segment.time_index.last()
        for _, header in segment.headers_from(segment.max_timestamp_offset):
            segment.remember_timestamp(header)
        segment.seal()
    else:
        segment.rebuild_indexes()
    segment.unload_indexes()


def indexes_agree(segment: Segment) -> bool:
    """Whether the indexes ascend from 0 and their last entries are true of the log.

    What was synced is a prefix of the file; the rest may be anything after a power loss.
    """
    for index in (segment.offset_index, segment.time_index):
        if not index.ascends():
            return False
    slot = len(segment.offset_index) - 1
    if slot >= 0 and not segment.agrees(*segment.offset_index.at(slot)):
        return False
    return last_time_agrees(segment)


def last_time_agrees(segment: Segment) -> bool:
    """Whether there is a batch that ends where the time index's last entry says, that late."""
    return len(segment.time_index) == 0 or segment.time_agrees(*segment.time_index.last())
