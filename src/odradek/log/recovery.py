"""Opening a log: what is believed after a clean stop, after the death of the process, after a power
loss.

What is known before a byte of the log is read:

    R  recovery point   bytes, indexes and leader epochs below it were synced, and so was a producer
                        snapshot, at most an index interval further back
    K  durable end      bytes below it were synced, and may have been acknowledged; K >= R

both from the log's slot in `durable-ends`, or, if that is absent, R from the checkpoint and K = R.

The rule. After a **clean stop** R = K = log end: only the tail after the last index entry is
walked. Otherwise every batch from R on is read and its checksum verified, to the end of the last
segment or to the first batch that is not sound (cut short, impossible header, checksum, offset
going back):

    not sound below K, or the log ends below K     durable bytes are lost: **damage**. The partition
                                                   stays offline; no `.log` file is changed.
    not sound at or above K                        a **torn tail**: what the dying process or the
                                                   power loss left of unsynced appends. The log is
                                                   cut there; whole segments after it are removed.
    no batch ends at K                             a base offset, which is under no checksum, is not
                                                   what it was: **damage**. Not asked of a K that is
                                                   known from the checkpoint only.

So nothing that was durable is ever cut away, and nothing that was not is ever waited for. In what
is above K, the order of sound and unsound batches says nothing (pages reach the disk in any order);
below K it needs no interpretation. K is exact after the death of the process; after a power loss it
may be older by one interval of the directory's checkpoint, and bytes between the two are judged as
a torn tail would be: for that a disk must damage acknowledged bytes and the power fail within that
interval.

Records may be deleted before they are durable (`log.durability=os`). If a power loss then takes
more of them than the noted log start knows of, nothing is left that may be read, and the log begins
anew, empty, at its start: offsets are never given twice.

Damage below R is found when it is met, not here: a closed segment is checked on first use (its last
batch must end with the file and just before the next segment; index entries must point to the
batches they name), and clients check every batch they fetch.

Indexes are kept up to R and made again from there; if they are missing or do not fit, from the
start of their segment. Producers start from the newest sound snapshot at or below R and take in the
batches after it. The leader epochs' file is a summary of the log and made again if it does not
check.

What lies above K is written again, byte for byte, before it is synced. It was read from the page
cache, and if the last process ended because an fsync failed, the kernel holds those pages there
marked clean although they never reached the disk: no fsync would write them, and what it called
durable would be gone with the power.

Afterwards what was read is synced and R = K = log end, so that a second crash costs nothing twice;
if it was much and nothing was cut, that is left to the first flush, and the log is `dirty`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence
from odradek.log.index import LoadedIndexes
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.opening import Known, Opening, Recovery
from odradek.log.segment import Segment
from odradek.log.segments import Segments
from odradek.log.verification import Verification
from odradek.model.env import Disk

SYNC_AT_ONCE_BYTES = 16 << 20


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    fence: Fence,
    cache: LoadedIndexes,
    *,
    now_ms: int,
    known: Known | None = None,
    durable: DurableEnd | None = None,
) -> tuple[Log, Recovery]:
    """Open the log in `directory`, or make a new one there if it has no files.

    Blocks; may run on a worker, for it touches nothing but this log's files. Raises `LogDamaged`,
    `OSError`.
    """
    opening = Opening(disk, directory, config, known if known is not None else Known())
    segments = opening.find_segments()
    is_new = not segments
    if is_new:
        segments = [opening.first_segment(now_ms)]
    with _pinned(segments[-1:] if opening.known.clean else opening.from_recovery_point(segments)):
        end = (
            opening.reload(segments)
            if opening.known.clean
            else Verification(opening, segments).recover()
        )
        if end < opening.log_start(segments):
            end = opening.begin_at_log_start(segments, end, now_ms)
            is_new = True
        log = Log(
            disk,
            directory,
            config,
            fence=fence,
            durable=durable,
            segments=Segments(segments, cache),
            epochs=opening.epochs,
            producers=opening.producers,
            log_start_offset=opening.log_start(segments),
            log_end_offset=end,
        )
        log.durable_log_start = opening.known.log_start_offset or 0
        log.segments.active.created_ms = now_ms
        log.recovery_point = log.flushed_offset = min(opening.known.durable_end, end)
        if is_new or not opening.known.clean:
            # Files made, or cut, before the end may be so in the cache only.
            log.unsynced_segments = opening.from_recovery_point(segments)
            never_flushed = is_new or opening.known.durable_end == 0
            log.directory_changed(*([directory.rpartition("/")[0]] if never_flushed else []))
            log.recovery_point = min(opening.known.recovery_point, end)
            log.sealed = opening.sealed
        _note_snapshot(log)
        changed = opening.found.truncated_bytes or opening.found.removed_segments
        if 0 < opening.found.scanned_bytes <= SYNC_AT_ONCE_BYTES or changed:
            log.flush(checkpoint=True)
        else:
            log.checkpointed_bytes = opening.found.scanned_bytes
    return log, opening.found


def _note_snapshot(log: Log) -> None:
    """What the newest producer snapshot covers of the active segment; without one, the log's own
    beginning does.
    """
    offset, active = log.producers.snapshot_offset, log.segments.active
    if offset >= active.base_offset or (offset < 0 and len(log.segments) == 1):
        log.snapshot_base = active.base_offset
        log.snapshot_size = active.size if offset == log.log_end_offset else 0


@contextmanager
def _pinned(segments: list[Segment]) -> Iterator[None]:
    """Keep the files open, as a worker must."""
    files = [segment.file for segment in segments]
    for file in files:
        file.pin()
    try:
        yield
    finally:
        for file in files:
            file.unpin()
