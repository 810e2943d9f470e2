"""Reading what a crash left of a log: from the recovery point to the end, or to where it is torn.

What is believed, and what a batch that is not sound means, is said in `recovery`. The steps:

    verify    every batch from R on: checksum, order; indexes, epochs and producers from there
    judge     not sound below K: damage, raised. At or above it: a torn tail
    cut       the log at the torn place; later segments go as a whole
    rewrite   what lies above K, so that the next sync reaches it

R is the recovery point, K the durable end.
"""

from __future__ import annotations

from odradek.log.fence import LogDamaged
from odradek.log.opening import Opening
from odradek.log.scan import SCAN_BYTES, BadBatch, walk
from odradek.log.segment import Segment
from odradek.log.segment_loading import indexes_agree, seal_again
from odradek.log.truncation import remove_segment, truncate_segment

MAX_OFFSET = (1 << 63) - 1
SMALL_SEGMENT_BYTES = 64 << 10
"""Segments up to here do without indexes: the active one has no index file before its first entry,
and that is no reason to read all of it.
"""


class Verification:
    """Of one log, once."""

    def __init__(self, opening: Opening, segments: list[Segment]) -> None:
        """`segments` loses those that are cut away."""
        self.opening = opening
        self.segments = segments
        self.known = opening.known
        self.found = opening.found
        self.unproven: list[tuple[Segment, int]] = []  # from where on a segment is above K
        self.reached = -1  # where the last batch below K ends, once there was one above it

    def recover(self) -> int:
        """Verify from R on, cut a torn tail, make everything derived again; the end offset."""
        known_epochs = self.opening.epochs.load(self.opening.disk)
        self.opening.epochs.truncate_from_end(self.known.recovery_point)
        try:
            end = self._verify_all()
            self._write_unproven()
            read_all = self.known.recovery_point <= self.segments[0].base_offset
            if not (known_epochs or read_all) or self.opening.epochs_missing(self.segments, end):
                self.opening.all_epochs(self.segments)
        except BadBatch as bad:  # below R, where nothing is cut
            raise LogDamaged(self.opening.directory, str(bad)) from bad
        for segment in self.segments[:-1]:
            if segment.offset_index.loaded:
                segment.seal()
                segment.unload_indexes()
        return end

    def _verify_all(self) -> int:
        point = self.known.recovery_point
        reading = self.opening.from_recovery_point(self.segments)
        position, offset = self._begin(reading[0])
        start = offset
        before = len(self.segments) - len(reading)
        if before > 0 and reading[0].base_offset == point:
            seal_again(self.segments[before - 1])
            self.opening.sealed.append(self.segments[before - 1])
        self.opening.restore_producers(self.segments[: before + 1], point)
        for segment in reading:
            if segment is not reading[0]:
                if segment.base_offset != offset:
                    self._judge(
                        segment, start, offset, f"the next segment is {segment.base_offset}"
                    )
                    return self._cut(segment, 0, offset)
                position = 0
                segment.clear_indexes(0, segment.base_offset)
            try:
                offset = self._verify(segment, position, offset)
            except BadBatch as bad:
                self._judge(segment, start, bad.offset, str(bad))
                return self._cut(segment, bad.position, bad.offset)
        self._check_reached(start, offset)
        return offset

    def _begin(self, segment: Segment) -> tuple[int, int]:
        """Position and offset of the first batch at or after R, indexes kept up to there."""
        point, path = self.known.recovery_point, segment.file.path
        loaded = segment.offset_index.load() and segment.time_index.load()
        if not loaded and segment.size <= SMALL_SEGMENT_BYTES:
            segment.clear_indexes(0, segment.base_offset)
            loaded = True
        start = segment.start_before(point - 1) if loaded else -1
        if start < 0:
            segment.clear_indexes(0, segment.base_offset)
            return 0, segment.base_offset
        position, end = segment.size, segment.base_offset
        try:
            for at, header in walk(segment.file, start, segment.size, segment.base_offset):
                if header.base_offset >= point:
                    position = at
                    break
                end = header.next_offset
        except BadBatch as bad:
            position = bad.position
        if end < point:
            raise LogDamaged(path, f"ends at offset {end}, but {point} was durable")
        if self.known.exact and segment.base_offset <= point != end:
            raise LogDamaged(path, f"has a batch up to offset {end}, but one ended at {point}")
        segment.clear_indexes(position, point)
        if not indexes_agree(segment):
            segment.clear_indexes(0, segment.base_offset)
            return 0, segment.base_offset
        self._take_timestamps(segment, position)
        return position, max(end, point)

    def _take_timestamps(self, segment: Segment, position: int) -> None:
        """The largest timestamp of the batches after the last index entry, up to `position`."""
        start = segment.offset_index.floor(position)
        for _, header in walk(segment.file, start, position, segment.base_offset):
            segment.remember_timestamp(header)

    def _verify(self, segment: Segment, position: int, offset: int) -> int:
        """Read a segment from `position`; the offset after its last batch. Raises `BadBatch`."""
        epochs, producers = self.opening.epochs, self.opening.producers
        point, durable = self.known.recovery_point, self.known.durable_end
        for start, header in walk(
            segment.file,
            position,
            segment.size,
            offset,
            base_offset=segment.base_offset,
            verify=True,
            gaps=self.opening.config.compact or self.known.compacted,
            chunk_bytes=SCAN_BYTES,
        ):
            size = header.size
            segment.index(header.last_offset, start, size, header.max_timestamp)
            epoch = header.partition_leader_epoch
            if header.base_offset >= durable:
                if self.reached < 0:
                    self.reached = offset
                self.unproven.append((segment, start))
                durable = MAX_OFFSET
            if epoch != epochs.latest and header.base_offset >= point:
                epochs.assign(epoch, header.base_offset)
            if header.producer_id >= 0 and header.base_offset >= producers.end_offset:
                producers.append(header, header.base_offset)
            offset = header.next_offset
            self.found.scanned_bytes += size
        producers.end_offset = max(producers.end_offset, offset)
        return offset

    def _write_unproven(self) -> None:
        """Make dirty again what may be in the cache only, and there marked clean."""
        for segment, start in self.unproven:
            if segment in self.segments:
                for position in range(start, segment.size, SCAN_BYTES):
                    count = min(SCAN_BYTES, segment.size - position)
                    segment.file.write(position, segment.file.read(position, count))

    def _check_reached(self, start: int, end: int) -> None:
        self.opening.check_reached(start, end if self.reached < 0 else self.reached, end)

    def _judge(self, segment: Segment, start: int, offset: int, what: str) -> None:
        """Damage below K; a torn tail at or above it, if what was read from `start` on did."""
        if offset < self.known.durable_end:
            raise LogDamaged(
                segment.file.path, f"{what}; offsets below {self.known.durable_end} were durable"
            )
        self._check_reached(start, offset)
        self.found.torn = f"{segment.file.path}: {what}"

    def _cut(self, segment: Segment, position: int, offset: int) -> int:
        """Cut the log at `position` of `segment`, where `offset` would have been."""
        number = self.segments.index(segment)
        if position == 0 and number > 0 and segment.base_offset != offset:
            number -= 1  # this segment does not follow: it goes as a whole
        else:
            self.found.truncated_bytes += segment.size - position
            truncate_segment(segment, offset, position)
        for later in self.segments[number + 1 :]:
            self.found.truncated_bytes += later.size
            self.found.removed_segments += 1
            remove_segment(later)
        del self.segments[number + 1 :]
        return offset
