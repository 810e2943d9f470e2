"""ListOffsets by timestamp: the first record at or after one, and the record with the largest.

Both searches narrow down to one batch by segments, time index and headers, and decode only that
batch. Timestamps in a log need not ascend, so "first" means the lowest offset.

A batch that compaction left without records keeps its timestamp, which counts for its segment's
age. No record is found in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.log.log_segments import LogSegments
from odradek.log.segment import Segment
from odradek.protocol import record_batch
from odradek.protocol.record_batch import RecordBatchHeader


class TimestampedBatch(NamedTuple):
    """A batch, and the largest timestamp in it."""

    timestamp: int
    segment: Segment
    position: int
    header: RecordBatchHeader


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """Find the first record from `start_offset` on that has this timestamp or a later one.

    Returns its (timestamp, offset), or None.
    """
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        begin = segment.offset_before_timestamp(timestamp)
        for position, header in segment.headers_from(max(begin, start_offset)):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            found = _in_batch(segment, position, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def latest(segments: LogSegments, end_offset: int) -> tuple[int, int] | None:
    """Find the first record with the largest timestamp before `end_offset`.

    Returns its (timestamp, offset), or None. Searches from the last segment back: where timestamps
    ascend, the last segment is enough.
    """
    best: TimestampedBatch | None = None
    for number in reversed(range(segments.number_of(end_offset - 1) + 1)):
        segment = segments.loaded(number)
        if best is not None and segment.max_timestamp < best.timestamp:
            continue
        found = _latest_of(segment, end_offset)
        if found is not None and (best is None or found.timestamp >= best.timestamp):
            best = found
    if best is None:
        return None
    return _in_batch(best.segment, best.position, best.header, best.timestamp, 0)


def _latest_of(segment: Segment, end_offset: int) -> TimestampedBatch | None:
    """The first of a segment's batches with records that has the largest timestamp."""
    timestamp, offset = segment.max_timestamp, segment.max_timestamp_offset
    if offset >= end_offset:
        timestamp, offset = _latest_before(segment, end_offset)
    if timestamp < 0:
        return None
    for position, header in segment.headers_from(offset):
        if header.last_offset >= offset:
            if header.count > 0:
                return TimestampedBatch(timestamp, segment, position, header)
            break
    return _latest_by_header(segment, end_offset)


def _latest_before(segment: Segment, end_offset: int) -> tuple[int, int]:
    """The largest timestamp in a segment's batches that end before `end_offset`, or -1.

    The time index has the largest timestamp up to one of its entries; from there the batches are
    walked. The walk is short unless timestamps have not grown for long.
    """
    slot = segment.time_index.slot_before(end_offset)
    timestamp, offset = segment.time_index.at(slot) if slot >= 0 else (-1, segment.base_offset)
    if timestamp >= 0 and not segment.time_entry_matches(timestamp, offset):
        segment.rebuild_indexes()
        return _latest_before(segment, end_offset)
    for _, header in segment.headers_from(offset):
        if header.last_offset >= end_offset:
            break
        if header.max_timestamp > timestamp:
            timestamp, offset = header.max_timestamp, header.last_offset
    return timestamp, offset


def _latest_by_header(segment: Segment, end_offset: int) -> TimestampedBatch | None:
    """The same by all headers, if compaction has emptied the batch with the largest timestamp."""
    best: TimestampedBatch | None = None
    for position, header in segment.headers_from(segment.base_offset):
        if header.last_offset >= end_offset:
            break
        timestamp = header.max_timestamp
        if header.count > 0 and timestamp > (-1 if best is None else best.timestamp):
            best = TimestampedBatch(timestamp, segment, position, header)
    return best


def _in_batch(
    segment: Segment, position: int, header: RecordBatchHeader, timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """The first record of a batch at or after the time. Only this function decodes a batch."""
    data = segment.file.read(position, header.size)
    whole = RecordBatchHeader(data, 0)
    for record in record_batch.records_of(data, whole):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None
