"""Flushing: `LogFlush` is one flush of one log, `ShutdownFlush` flushes all logs before a stop.

A flush is made by `Log.begin_flush`, run by a worker and ended by `Log.end_flush`:

    owner    begin_flush   captures the log end offset, pins the files with unsynced bytes
    worker   run           syncs the data, in order; the directory, if it has new files; then writes
                           the durable end
    owner    end_flush     raises flushed_offset to the captured offset, unpins the files

A log has at most one flush under way; what is appended meanwhile belongs to the next one. Many logs
flush at once, as in group commit.

A flush that also moves the recovery point ("checkpoint") syncs the indexes and writes the leader
epochs and the checksums of the indexes of aborted transactions. If the last producer snapshot is
too far back, it writes one as of the captured offset and removes older ones. If there is no room
for those files (see `fence`), the records are durable all the same: the recovery point stays,
recovery reads the log from there, and the next flush tries again.

Before a clean stop every log of a directory is flushed to its end, many at once:

    start ─► up to `concurrency` flushes on workers ─► each end begins the next ─► done

Flushed one after the other, each log would wait for the disk several times; flushes that run
together share the commits of the file system's journal. `LogDirectory.close` then has nothing left
to flush.

`close` also handles and reports the failures: a log whose flush cannot begin because the disk is
full is skipped, and no more flushes begin once the directory is fenced or `give_up` was called
because they take too long. No acknowledgement depends on these flushes: the next start reads from
the recovery points that were reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from odradek.log import producer_snapshot
from odradek.log.durable_ends import DurableEnd
from odradek.log.fence import Fence, LogDirFailure
from odradek.log.producer_state import SnapshotEntry
from odradek.model.env import Disk, File, Offload

if TYPE_CHECKING:
    from odradek.log.log import Log
    from odradek.log.transaction_index import TransactionIndex

SNAPSHOTS_KEPT = 2
CONCURRENT_FLUSHES = 32
"""More would need more descriptors and save little, since flushes that run together share waits."""


class LogFlush:
    """The captured work of one flush.

    `size`: the bytes appended since the flush before; `succeeded`: `run` has returned;
    `checkpoint_postponed`: the recovery point could not be moved; `void`: the log was truncated
    meanwhile; `abandoned`: the log was deleted.
    """

    __slots__ = (
        "_disk",
        "_fence",
        "abandoned",
        "checkpoint_postponed",
        "directory",
        "durable",
        "end_offset",
        "epochs",
        "files",
        "generation",
        "moves_recovery_point",
        "recovery_point",
        "size",
        "snapshot",
        "succeeded",
        "sync_directories",
        "transaction_sums",
        "void",
    )

    def __init__(
        self,
        disk: Disk,
        fence: Fence,
        directory: str,
        durable: DurableEnd | None,
        files: list[File],
        end_offset: int,
        recovery_point: int,
    ) -> None:
        """`recovery_point` is the present one; it stays unless `moves_recovery_point` is set."""
        self._disk = disk
        self._fence = fence
        self.directory = directory
        self.durable = durable
        self.generation = durable.generation if durable is not None else 0
        self.files = files
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self.sync_directories: list[str] = []
        self.size = 0
        self.epochs: tuple[str, bytes] | None = None
        self.moves_recovery_point = False
        self.snapshot: list[SnapshotEntry] | None = None
        self.transaction_sums: list[tuple[TransactionIndex, bytes]] = []
        self.succeeded = False
        self.checkpoint_postponed = False
        self.void = False
        self.abandoned = False
        for number, file in enumerate(files):
            try:
                file.pin()
            except OSError:
                for pinned in files[:number]:
                    pinned.unpin()
                raise

    def run(self) -> None:
        """Make the captured data durable. Blocks; for a worker.

        An error fences the directory and raises `LogDirFailure`.
        """
        self._fence.check()
        try:
            for file in self.files:
                file.sync()
            for directory in self.sync_directories:
                self._disk.sync_directory(directory)
            self._move_recovery_point()
            if self.durable is not None:
                self.durable.write(self.end_offset, self.recovery_point, self.generation)
        except OSError as error:
            if self.abandoned:
                return
            raise self._fence.fail(error) from error
        self.succeeded = True

    def _move_recovery_point(self) -> None:
        """Write the files that a recovery from the new recovery point needs, or postpone it."""
        if self.void:  # they would be of what was truncated
            return
        try:
            if self.epochs is not None:
                self._disk.replace_file(*self.epochs)
            for index, content in self.transaction_sums:
                self._disk.replace_file(index.sum_path, content)
            if self.snapshot is not None:
                self._write_snapshot(self.snapshot)
            if self.moves_recovery_point:
                self.recovery_point = self.end_offset
        except OSError as error:
            if self.abandoned or isinstance(self._fence.classify(error), LogDirFailure):
                raise
            self.checkpoint_postponed = True

    def _write_snapshot(self, entries: list[SnapshotEntry]) -> None:
        """Write the snapshot at the end offset; of the older ones only the last is kept."""
        path = producer_snapshot.snapshot_path(self.directory, self.end_offset)
        self._disk.replace_file(path, producer_snapshot.encode(entries))
        names = list(self._disk.list(self.directory))
        for offset in producer_snapshot.snapshot_offsets(names)[:-SNAPSHOTS_KEPT]:
            with suppress(FileNotFoundError):  # retention removes old ones too
                self._disk.remove(producer_snapshot.snapshot_path(self.directory, offset))

    def release(self) -> None:
        """Unpin the files. Owner thread, once."""
        for file in self.files:
            file.unpin()
        self.files = []


class ShutdownFlush:
    """Flushes the given logs. `done` is called once, on the owner thread, when no flush is under
    way and none will begin.
    """

    def __init__(
        self,
        logs: Iterable[Log],
        offload: Offload,
        done: Callable[[], None],
        concurrency: int = CONCURRENT_FLUSHES,
    ) -> None:
        waiting = [log for log in logs if log.dirty or log.recovery_point < log.log_end_offset]
        self.total = len(waiting)
        self.ended = 0
        """Logs that were flushed or skipped."""
        self.gave_up = False
        self._waiting: Iterator[Log] = iter(waiting)
        self._offload = offload
        self._done = done
        self._concurrency = concurrency
        self._in_flight = 0
        self._finished = False

    def start(self) -> None:
        self._begin_flushes()

    def give_up(self) -> None:
        """Begin no more flushes."""
        self.gave_up = True
        self._begin_flushes()

    def _begin_flushes(self) -> None:
        while self._in_flight < self._concurrency and not self.gave_up:
            log = next(self._waiting, None)
            if log is None:
                break
            try:
                flush = log.begin_flush(checkpoint=True)
            except LogDirFailure:
                self.gave_up = True
                break
            except OSError:
                flush = None
            if flush is None:
                self.ended += 1
            else:
                self._submit(log, flush)
        if self._in_flight == 0 and not self._finished:
            self._finished = True
            self._done()

    def _submit(self, log: Log, flush: LogFlush) -> None:
        self._in_flight += 1

        def ended(_: object) -> None:
            self._in_flight -= 1
            self.ended += 1
            with suppress(LogDirFailure):  # the fence keeps it, so the next flush does not begin
                log.end_flush(flush)
            self._begin_flushes()

        self._offload.submit(flush.run, ended, ended)
