"""Truncating a log: `LogTruncation` removes its end, or all of it, to start again at an offset.

A follower truncates what its leader never had (KIP-101), and starts again where the leader's log
starts if it has nothing in common with it. Like a flush it is made by the owner thread, run by a
worker and ended by the owner thread:

    owner    Log.begin_truncation   takes the segments to remove out of the log, closes their files
    worker   run                    lowers the durable end, synced; removes the files and the end of
                                    the last segment; syncs; restores the producers
    owner    Log.end_truncation     takes over the log's new end, epochs and producers

Between the two the log is `truncating`: it is not read, appended to, flushed, trimmed or compacted.

Durable bytes are removed only here. So the durable end is lowered on disk before anything is
removed: after a crash in between, the bytes above it are truncated again, or fetched and found to
diverge again. What is removed is synced before the next append, or a power loss might bring it
back.

A restart writes in one slot of `durable-ends` that nothing is durable and where the log starts.
A start of the broker that finds such a slot completes it (see `recovery`). It needs room on the
disk for a file; without, `run` is repeated until there is some.
"""

from __future__ import annotations

from contextlib import suppress

from odradek.log import producer_snapshot
from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import REFUSED_FOR_NOW, Fence, LogDamaged
from odradek.log.index import IndexCache
from odradek.log.log_segments import load_indexes, truncate_segment
from odradek.log.producer_state import ProducerState
from odradek.log.scan import BadBatch
from odradek.log.segment import Segment
from odradek.model.env import Disk


class LogTruncation:
    """The captured work of one truncation to `offset`, or to the start of the batch that holds it.

    `kept`: the segments that stay; the last is cut. None stays in a restart, and `run` makes the
    first one. `next_base`: the base offset of the segment after the last one kept, -1 if that was
    the active one. `removed`: closed segments whose files `run` removes.
    """

    def __init__(
        self,
        disk: Disk,
        fence: Fence,
        directory: str,
        durable: DurableEnd | None,
        offset: int,
        kept: list[Segment],
        next_base: int,
        removed: list[Segment],
    ) -> None:
        self._disk = disk
        self._fence = fence
        self._directory = directory
        self._durable = durable
        self._next_base = next_base
        self._removed = removed
        self.offset = offset
        self.kept = kept
        self.restarts = not kept
        self.producers = ProducerState()
        """The producers of the log that is left."""
        self.succeeded = False
        self.abandoned = False
        """The log was deleted meanwhile: its files may be missing."""
        self._makes_files = False

    def run(self) -> None:
        """Truncate the files. Blocks; for a worker. Raises `LogDamaged`, `LogDirFailure`.

        A disk error fences the directory; but if a file cannot be made for lack of room or of
        descriptors, the `OSError` is raised, and `run` may be called again. Damage that was found
        leaves the files as they are.
        """
        self._fence.check()
        try:
            if self.restarts:
                self._restart()
            else:
                self._cut()
        except OSError as error:
            if self.abandoned:
                return
            if self._makes_files and error.errno in REFUSED_FOR_NOW:
                raise
            raise self._fence.fail(error) from error
        except BadBatch as bad:
            raise LogDamaged(self._directory, str(bad)) from bad
        self.succeeded = True

    def _cut(self) -> None:
        segment = self.kept[-1]
        if self._next_base >= 0:  # an older segment, of which nothing may be in memory
            load_indexes(segment, IndexCache(), self._next_base)
        position = 0
        if self.offset > segment.base_offset:
            base_offset, position, _ = segment.locate(self.offset)
            if 0 <= base_offset < self.offset:  # inside a batch, of which nothing can stay
                self.offset = base_offset
        if self._durable is not None:
            self._durable.lower(self.offset)
        self._remove_files()
        truncate_segment(segment, self.offset, position)
        segment.file.pin()
        try:
            segment.file.sync()
        finally:
            segment.file.unpin()
        self._disk.sync_directory(self._directory)
        producer_snapshot.restore(
            self._disk,
            self._directory,
            self.producers,
            self.kept,
            self.offset,
            list(self._disk.list(self._directory)),
        )

    def _restart(self) -> None:
        self._makes_files = True
        self._disk.make_directory(self._directory)
        self._makes_files = False
        if self._durable is not None:
            self._durable.restart(self.offset)
        self._remove_files()
        for offset in producer_snapshot.snapshot_offsets(list(self._disk.list(self._directory))):
            self._disk.remove(producer_snapshot.snapshot_path(self._directory, offset))
        self._makes_files = True
        self.kept = [Segment(self._disk, self._directory, self.offset, create=True)]
        self._makes_files = False
        self._disk.sync_directory(self._directory)
        self.producers.reset(end_offset=self.offset)

    def _remove_files(self) -> None:
        for segment in reversed(self._removed):
            for path in segment.files():
                with suppress(FileNotFoundError):
                    self._disk.remove(path)
