"""Reading a log: a read returns slices of segment files that begin and end with batches.

Kafka's rules: a fetch offset inside a batch returns the whole batch; nothing at or above the given
end (high watermark or last stable offset) is returned; the first batch is returned even if it is
larger than the limit, unless the caller forbids it. Unlike Kafka's, these slices do not end in the
middle of a batch, as far as the positions in memory tell, so that no bytes are sent for nothing.

At the tail of a log a read opens no file; elsewhere it reads a few headers, from the last index
entry on.
"""

from __future__ import annotations

from typing import Final

from odradek.log.log_segments import LogSegments
from odradek.log.segment import Segment
from odradek.model.byte_ranges import FileSlice
from odradek.model.errors import ErrorCode

NONE: Final = ErrorCode.NONE


class LogOffsetMetadata:
    """An offset and its position in the log, from which distances in bytes are computed."""

    __slots__ = ("offset", "relative_position", "segment_base_offset")

    def __init__(self, offset: int, segment_base_offset: int, relative_position: int) -> None:
        self.offset = offset
        self.segment_base_offset = segment_base_offset
        self.relative_position = relative_position

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogOffsetMetadata) and (
            self.offset == other.offset
            and self.segment_base_offset == other.segment_base_offset
            and self.relative_position == other.relative_position
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.segment_base_offset, self.relative_position))

    def on_older_segment_than(self, other: LogOffsetMetadata) -> bool:
        return self.segment_base_offset < other.segment_base_offset

    def bytes_after(self, other: LogOffsetMetadata) -> int:
        """Bytes from `other` to this one. Both are in the same segment."""
        return self.relative_position - other.relative_position


class LogRead:
    """The result of a read: slices of files, each pinned until it is released.

    `error` is NONE or OFFSET_OUT_OF_RANGE. `size` is the sum of the slices. `start` is the position
    of the fetch offset. `first_entry_incomplete`: the first batch is larger than the limit, so
    nothing is returned.
    """

    __slots__ = ("error", "first_entry_incomplete", "size", "slices", "start")

    def __init__(
        self,
        error: ErrorCode,
        slices: list[FileSlice],
        size: int,
        start: LogOffsetMetadata | None,
        first_entry_incomplete: bool = False,
    ) -> None:
        self.error = error
        self.slices = slices
        self.size = size
        self.start = start
        self.first_entry_incomplete = first_entry_incomplete

    def read_ahead(self) -> None:
        """Have as many bytes again behind these in memory soon, as far as their file goes: sending
        cold bytes blocks."""
        if self.slices:
            last = self.slices[-1]
            end = last.offset + last.length
            count = min(self.size, last.file.size() - end)
            if count > 0:
                last.file.read_ahead(end, count)

    def release(self) -> None:
        """Unpin all slices, for a caller that does not send them."""
        for piece in self.slices:
            piece.release()


class LogReader:
    """Plans the reads of one log. Raises `BadBatch`, `LogDamaged`, `OSError`."""

    __slots__ = ("_known_base", "_known_end", "_known_position", "_segments")

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments
        self.clear_position()

    def clear_position(self) -> None:
        """Forget the remembered stop position, because positions have changed."""
        self._known_base = self._known_end = self._known_position = -1

    def read(
        self, offset: int, max_bytes: int, end_offset: int, at_log_end: bool, min_one: bool
    ) -> LogRead:
        """Return the batches from the one that holds `offset` up to `end_offset`, which is above
        it.
        """
        segments = self._segments
        if offset >= segments.active.base_offset:
            number, segment = len(segments.items) - 1, segments.active
        else:
            number = segments.number_of(offset)
            segment = segments.loaded(number)
        base_offset, position, first_size = segment.locate(offset)
        if base_offset < 0:  # the offsets up to the next segment were compacted away
            number += 1
            segment = segments.loaded(number)
            base_offset, position, first_size = segment.locate(segment.base_offset)
        start = LogOffsetMetadata(offset, segment.base_offset, position)
        length = self._stop(number, segment, end_offset, at_log_end) - position
        if length > max_bytes:
            if first_size <= max_bytes:
                length = segment.align_from(position, position + max_bytes) - position
            elif min_one:
                length = first_size
            else:
                return LogRead(NONE, [], 0, start, True)
        if length <= 0:
            return LogRead(NONE, [], 0, start)
        slices = [_slice(segment, position, length)]
        if segment is not segments.active and position + length == segment.size:
            length += self._continue(slices, number + 1, max_bytes - length, end_offset, at_log_end)
        return LogRead(NONE, slices, length, start)

    def _continue(
        self,
        slices: list[FileSlice],
        number: int,
        max_bytes: int,
        end_offset: int,
        at_log_end: bool,
    ) -> int:
        """Continue at the start of segment `number`; return the bytes added to `slices`."""
        added = 0
        while max_bytes > added:
            segment = self._segments.loaded(number)
            length = self._stop(number, segment, end_offset, at_log_end)
            if length > max_bytes - added:
                length = segment.align(max_bytes - added)
            if length <= 0:
                break
            slices.append(_slice(segment, 0, length))
            added += length
            if segment is self._segments.active or length < segment.size:
                break
            number += 1
        return added

    def _stop(self, number: int, segment: Segment, end_offset: int, at_log_end: bool) -> int:
        """Return the position at which a read of this segment must stop before `end_offset`."""
        if segment is self._segments.active:
            if at_log_end:
                return segment.size
        elif end_offset >= self._segments.end_of(number):
            return segment.size
        if end_offset <= segment.base_offset:
            return 0
        if self._known_end != end_offset or self._known_base != segment.base_offset:
            self._known_position = segment.position_of(end_offset)
            self._known_end, self._known_base = end_offset, segment.base_offset
        return self._known_position

    def end_of(self, read: LogRead, end_offset: int) -> int:
        """Return an offset that is after the batches of a read, and at most `end_offset`.

        It is the first one known without reading: of the last batches appended, or of an index
        entry.
        """
        start, last = read.start, read.slices[-1]
        number = self._segments.number_of(start.offset) if start is not None else 0
        items = self._segments.items
        while number < len(items) - 1 and items[number].file is not last.file:
            number += 1
        known = items[number].offset_after(last.offset + last.length)
        if known < 0:
            known = self._segments.end_of(number) if number < len(items) - 1 else end_offset
        return min(known, end_offset)

    def metadata(self, offset: int) -> LogOffsetMetadata:
        """Return the position of the batch that holds `offset`, which is below the log end."""
        segment = self._segments.loaded(self._segments.number_of(offset))
        return LogOffsetMetadata(offset, segment.base_offset, segment.locate(offset)[1])


def _slice(segment: Segment, position: int, length: int) -> FileSlice:
    segment.file.pin()
    return FileSlice(segment.file, position, length)
