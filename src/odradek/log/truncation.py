"""Cutting the end off a log, as a follower does whose leader never had it (KIP-101).

Durable bytes are cut only here. So that recovery does not miss them later, the durable end is
lowered on disk before the first byte goes; a crash in between leaves bytes above the durable end,
which are fetched or truncated again.

`truncate_to` is the log's side of replication between brokers; a leader that is alone never needs
it. Recovery cuts torn tails with the two functions below.
"""

from __future__ import annotations

from odradek.log import producer_snapshot
from odradek.log.flushed_log import NO_SEGMENT
from odradek.log.log import Log
from odradek.log.scan import walk
from odradek.log.segment import Segment


def truncate_to(log: Log, offset: int) -> None:
    """Forget everything from `offset` on, which must not be inside a batch. Blocks.

    A flush under way comes to nothing, and so does compaction. Raises `LogDirFailure`,
    `LogDamaged`.
    """
    if offset >= log.log_end_offset:
        return
    if log.durable is not None:
        log.durable.lower(offset)
    log.void_flush()
    log.cleaning = False
    try:
        _cut(log, offset)
    except OSError as error:
        raise log.fence.fail(error) from error
    log.log_end_offset = offset
    log.flushed_offset = min(log.flushed_offset, offset)
    log.recovery_point = min(log.recovery_point, offset)
    log.high_watermark = min(log.high_watermark, offset)
    log.epochs.truncate_from_end(offset)
    log.snapshot_base = NO_SEGMENT
    log.snapshot_offset = min(log.snapshot_offset, offset)
    names = list(log.disk.list(log.directory))
    producer_snapshot.restore(
        log.disk, log.directory, log.producers, log.segments.items, offset, names
    )


def _cut(log: Log, offset: int) -> None:
    number = log.segments.number_of(offset)
    segment = log.segments.loaded(number)
    position = segment.position_of(offset) if offset > segment.base_offset else 0
    for later in log.segments.take_after(number):
        remove_segment(later)
    truncate_segment(segment, offset, position)
    log.reader.forget()
    # Durable before anything is appended: else a power loss may bring back what was cut.
    segment.file.sync()
    log.disk.sync_directory(log.directory)


def truncate_segment(segment: Segment, offset: int, position: int) -> None:
    """Cut at `position`, where `offset` would start."""
    if segment.size > position:
        segment.file.truncate(position)
    segment.size = position
    segment.recent.cut(position)
    segment.clear_indexes(position, offset)
    slot = segment.offset_index.lookup(offset)
    start = segment.offset_index.at(slot)[1] if slot >= 0 else 0
    for _, header in walk(segment.file, start, position, segment.base_offset):
        segment.remember_timestamp(header)


def remove_segment(segment: Segment) -> None:
    """Close a segment and remove its files."""
    segment.close()
    for path in segment.files():
        if segment.disk.exists(path):
            segment.disk.remove(path)
