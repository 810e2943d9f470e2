"""ListOffsets by time: the first record at or after a timestamp, the record with the latest one.

Both narrow the search down to one batch by segments, time index and headers, and only then open
that batch. Timestamps in a log need not ascend, so "first" means the lowest offset.

A batch that compaction left without records keeps its timestamp, for its segment's age; there is
nothing in it to be found.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.log.segment import Segment
from odradek.protocol import record_batch
from odradek.protocol.record_batch import RecordBatchHeader


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record from `start_offset` on that is as late."""
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        begin = segment.all_earlier_before(timestamp)
        for position, header in segment.headers_from(max(begin, start_offset)):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            found = _in_batch(segment, position, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def latest(segments: Iterable[Segment], end_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record with the largest timestamp before `end_offset`."""
    best: tuple[int, int, Segment] | None = None
    searched = []
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        searched.append(segment)
        timestamp, offset = segment.max_timestamp, segment.max_timestamp_offset
        if offset >= end_offset:
            timestamp, offset = _latest_before(segment, end_offset)
        if timestamp >= 0 and (best is None or timestamp > best[0]):
            best = (timestamp, offset, segment)
    if best is None:
        return None
    timestamp, offset, segment = best
    for position, header in segment.headers_from(offset):
        if header.last_offset >= offset:
            if header.count > 0:
                return _in_batch(segment, position, header, timestamp, 0)
            break
    return _latest_of_any(searched, end_offset)


def _latest_of_any(segments: list[Segment], end_offset: int) -> tuple[int, int] | None:
    """The same by every header: where the largest timestamp is of a batch without records."""
    best: tuple[Segment, int, RecordBatchHeader] | None = None
    for segment in segments:
        for position, header in segment.headers_from(segment.base_offset):
            if header.last_offset >= end_offset:
                break
            later = best is None or header.max_timestamp > best[2].max_timestamp
            if header.count > 0 and header.max_timestamp >= 0 and later:
                best = segment, position, header
    return None if best is None else _in_batch(*best, best[2].max_timestamp, 0)


def _latest_before(segment: Segment, end_offset: int) -> tuple[int, int]:
    """The largest timestamp in a segment's batches that end before `end_offset`."""
    timestamp, offset = -1, -1
    for _, header in segment.headers_from(segment.base_offset):
        if header.last_offset >= end_offset:
            break
        if header.max_timestamp > timestamp:
            timestamp, offset = header.max_timestamp, header.last_offset
    return timestamp, offset


def _in_batch(
    segment: Segment, position: int, header: RecordBatchHeader, timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """The first record of one batch that is late enough. The only place that opens a batch."""
    data = segment.file.read(position, header.size)
    whole = RecordBatchHeader(data, 0)
    for record in record_batch.records_of(data, whole):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None
