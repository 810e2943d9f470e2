"""Producer snapshots: `<offset, 20 digits>.snapshot`, the producer state before that offset.

All big-endian:

    offset  size
         0     2  version                1
         2     4  crc                    CRC-32C of everything after this field
         6     4  count
        10        entries, 46 bytes each

    entry    0     8  producerId
             8     2  producerEpoch
            10     4  lastSequence           -1: none
            14     8  lastOffset             -1: none
            22     4  offsetDelta            of the last batch
            26     8  timestamp              largest of the last batch, ms
            34     4  coordinatorEpoch       -1: none
            38     8  currentTxnFirstOffset  -1: no open transaction

A snapshot is taken when the recovery point moves: after a roll, after a number of bytes and at a
clean stop. The last two are kept. Recovery begins at the newest snapshot at or below the recovery
point; one with a wrong checksum is removed and the one before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from fastcrc.crc32 import iscsi as crc32c

from odradek.log.open_transactions import NO_OFFSET, CompletedTransaction
from odradek.log.producer_state import ProducerState, SnapshotEntry, marker_of
from odradek.log.scan import BadBatch, walk
from odradek.log.segment import SNAPSHOT_SUFFIX, Segment, segment_file_name
from odradek.model.env import Disk, File
from odradek.protocol.record_batch import RecordBatchHeader

VERSION = 1
LOOK_BACK_BYTES = 1 << 20
"""How much log before a snapshot is read for the batches that are not in the snapshot."""
PREFIX = Struct(">hI")
COUNT = Struct(">i")
ENTRY = Struct(">qhiqiqiq")


class BadProducerSnapshot(Exception):
    """The snapshot file is cut short, of another version or has a wrong checksum."""


def encode(entries: list[SnapshotEntry]) -> bytes:
    """Return the contents of a snapshot file."""
    body = COUNT.pack(len(entries)) + b"".join(
        ENTRY.pack(
            row.producer_id,
            row.producer_epoch,
            row.last_sequence,
            row.last_offset,
            row.offset_delta,
            row.timestamp,
            row.coordinator_epoch,
            row.current_txn_first_offset,
        )
        for row in entries
    )
    return PREFIX.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[SnapshotEntry]:
    """Return the entries of a snapshot file. Raises `BadProducerSnapshot`."""
    try:
        version, crc = PREFIX.unpack_from(data, 0)
        (count,) = COUNT.unpack_from(data, PREFIX.size)
    except StructError as error:
        raise BadProducerSnapshot("too short") from error
    body = data[PREFIX.size :]
    if version != VERSION:
        raise BadProducerSnapshot(f"version {version}")
    if crc32c(body) != crc:
        raise BadProducerSnapshot("checksum mismatch")
    if len(body) != COUNT.size + count * ENTRY.size:
        raise BadProducerSnapshot(f"{count} entries announced")
    return [SnapshotEntry(*row) for row in ENTRY.iter_unpack(body[COUNT.size :])]


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}"


def snapshot_offsets(names: list[str]) -> list[int]:
    """Return the offsets of the snapshots among these file names, ascending."""
    return sorted(
        int(name[:20]) for name in names if name.endswith(SNAPSHOT_SUFFIX) and name[:20].isdecimal()
    )


def load_newest(
    disk: Disk,
    directory: str,
    names: list[str],
    at_most: int,
    state: ProducerState,
    high_watermark: int,
) -> int:
    """Reset `state` to the newest sound snapshot at or before `at_most`; return its offset or -1.

    If there are transactions, the one before it is taken if it is above the high watermark: which
    of them ended there is in no snapshot, and holds the last stable offset. Removes later
    snapshots, which belong to a truncated part of the log, and unsound ones.
    """
    newest = -1
    for offset in reversed(snapshot_offsets(names)):
        path = snapshot_path(directory, offset)
        if offset <= at_most:
            try:
                state.reset(decode(disk.read_file(path)), offset)
            except BadProducerSnapshot:
                disk.remove(path)
                continue
            newest = max(newest, offset)
            if offset > high_watermark and state.has_markers:
                continue
            break
        disk.remove(path)
    else:
        if newest < 0:
            state.reset()
    state.snapshot_offset = newest
    return state.end_offset if newest >= 0 else -1


def restore(
    disk: Disk,
    directory: str,
    state: ProducerState,
    segments: list[Segment],
    end: int,
    names: list[str],
    high_watermark: int = NO_OFFSET,
) -> None:
    """Restore the `state` at `end` from a snapshot and the headers of the batches after it.

    `high_watermark`: a known one; transactions that end above it hold the last stable offset.
    Raises `BadBatch` if a batch between them is not sound.
    """
    loaded = load_newest(disk, directory, names, end, state, high_watermark)
    start = max(loaded, segments[0].base_offset)
    if len(state) > 0:
        state.restore_earlier_batches(_headers_before(segments, start))
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end
        if following <= start or segment.base_offset >= end:
            continue
        for position, header in segment.headers_from(start):
            if header.base_offset >= state.end_offset and header.base_offset < end:
                replay(state, segment.file, position, header)
            if header.next_offset >= end:  # after it there may be a torn tail
                break
    state.end_offset = max(state.end_offset, end)


def replay(
    state: ProducerState, file: File, position: int, header: RecordBatchHeader
) -> CompletedTransaction | None:
    """Take a batch of the log, at this position of its file, into the producers.

    Returns the transaction that it has ended, if any.
    """
    state.append(header, header.base_offset)
    if header.producer_id < 0 or not header.is_control:
        return None
    data = file.read(position, header.size)
    marker = marker_of(data, RecordBatchHeader(data, 0))
    return None if marker is None else state.append_marker(header, header.base_offset, marker)


def _headers_before(segments: list[Segment], offset: int) -> Iterator[RecordBatchHeader]:
    """Yield the headers of the last batches before `offset`, about `LOOK_BACK_BYTES` of them.

    Damage among these batches is not reported here but when a client reads them, and no index is
    rebuilt for them.
    """
    parts: list[tuple[Segment, int]] = []
    left = LOOK_BACK_BYTES
    for segment in reversed(segments):
        if segment.base_offset < offset and left > 0:
            index = segment.offset_index
            was_loaded = index.loaded
            sound = was_loaded or index.load()
            reached = max(0, segment.start_before(offset)) if sound else segment.size
            start = _start_near(segment, reached - left, reached) if sound else 0
            if not was_loaded:
                index.unload()
            parts.append((segment, start))
            left -= max(reached - start, 1)
    for segment, start in reversed(parts):
        try:
            for _, header in walk(segment.file, start, segment.size, segment.base_offset):
                if header.base_offset >= offset:
                    return
                yield header
        except BadBatch:
            return


def _start_near(segment: Segment, position: int, limit: int) -> int:
    """Return the start of the first batch that matches its index entry, from the last entry at or
    before `position` on; 0 if there is none up to `limit`.
    """
    index = segment.offset_index
    for slot in range(index.slot_at(position), len(index)):
        last_offset, start = index.at(slot) if slot >= 0 else (-1, 0)
        if start > limit:
            break
        if slot < 0 or segment.entry_matches(last_offset, start):
            return start
    return 0
