"""What a log answers."""

from __future__ import annotations

from typing import NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.spans import FileSlice


class LogOffsetMetadata:
    """An offset and where it is, so that distances in bytes can be told without reading."""

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
        """Bytes from `other` to this one; both are on the same segment."""
        return self.relative_position - other.relative_position


class AppendInfo:
    """What became of a batch.

    With `error` set nothing was appended, and the offsets are -1. A `duplicate` is in the log
    already; the offsets are those it got then. The batch is committed when the high watermark
    reaches `last_offset + 1`.
    """

    __slots__ = (
        "base_offset",
        "duplicate",
        "error",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
    )

    def __init__(
        self,
        error: ErrorCode,
        base_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool,
    ) -> None:
        self.error = error
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms  # -1: the producer's timestamps were kept
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate

    def __repr__(self) -> str:
        return (
            f"AppendInfo({self.error.name}, {self.base_offset}..{self.last_offset}"
            f"{', duplicate' if self.duplicate else ''})"
        )


class LogRead:
    """What a fetch finds: slices of files, each pinned until it is released.

    `error` is NONE or OFFSET_OUT_OF_RANGE. `size` is the sum of the slices. `start` is where the
    fetch offset is. With `first_entry_incomplete` there is a batch, but it is larger than was asked
    for, and nothing is returned.
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

    def release(self) -> None:
        """Unpin all slices, for a caller that does not send them."""
        for piece in self.slices:
            piece.release()


class TimestampAndOffset(NamedTuple):
    """The record found by a search by time."""

    timestamp: int
    offset: int
    leader_epoch: int


class ActiveProducer(NamedTuple):
    """A row of DescribeProducers; -1 where there is nothing to tell."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int
