"""One flush of one log: made by `Log.begin_flush`, run by a worker, ended by `Log.end_flush`.

    owner    begin_flush   captures the log end offset, pins what has unsynced bytes
    worker   run           syncs the data, in order; the directory, if it has new files; then writes
                           the durable end
    owner    end_flush     raises flushed_offset to the captured offset, unpins

A log has at most one flush under way; what is appended meanwhile is the next one's. Many logs flush
at once: that is the group in group commit.

A flush that also moves the recovery point ("checkpoint") syncs indexes, writes the leader epochs
and, if the last one is too far back, a producer snapshot as of the captured offset, and thins out
older snapshots. If there is no
room for those (see `fence`), the records are durable all the same: the recovery point stays where
it was, from which a recovery finds all of it in the log, and the next flush tries again.

Before a clean stop: every log of a directory flushed to its end, many at once.

    start ─► up to `at_once` flushes on workers ─► each end begins the next ─► done

One log after the other would wait for the disk several times each; flushes that run together share
the journal's commits, as in group commit. `LogDirectory.close` then finds nothing left to flush.

What does not succeed here is left to `close`, which says so: a log whose flush cannot begin for
want of room is passed over, and when the directory is fenced, or `give_up` was called because it
takes too long, no more flushes begin. Nothing that was acknowledged depends on any of it: the next
start reads from the recovery points that were reached.
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


SNAPSHOTS_KEPT = 2


class LogFlush:
    """The captured work.

    `succeeded` after `run` has returned; `checkpoint_postponed` if the recovery point could not be moved; `void`
    if the log was truncated meanwhile, `abandoned` if it was deleted.
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
        "snapshot",
        "succeeded",
        "sync_directories",
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
        """`recovery_point`: where it is, and stays unless `moves_recovery_point` is set."""
        self._disk = disk
        self._fence = fence
        self.directory = directory
        self.durable = durable
        self.generation = durable.generation if durable is not None else 0
        self.files = files
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self.sync_directories: list[str] = []
        self.epochs: tuple[str, bytes] | None = None
        self.moves_recovery_point = False
        self.snapshot: list[SnapshotEntry] | None = None
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
        """Make it durable. Blocks; for a worker. An error fences the directory: `LogDirFailure`."""
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
        """Write what a recovery from there takes for granted, or put it off."""
        try:
            if self.epochs is not None:
                self._disk.replace_file(*self.epochs)
            if self.snapshot is not None:
                self._write_snapshot(self.snapshot)
            if self.moves_recovery_point:
                self.recovery_point = self.end_offset
        except OSError as error:
            if self.abandoned or isinstance(self._fence.classify(error), LogDirFailure):
                raise
            self.checkpoint_postponed = True

    def _write_snapshot(self, entries: list[SnapshotEntry]) -> None:
        """The snapshot at the end; of older ones the last is kept."""
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


AT_ONCE = 32
"""More would need more descriptors, and gain little: what runs together shares its waits."""


class ShutdownFlush:
    """Of the logs given. `done` is called once, on the owner thread, when no flush is under way and
    none is to come.
    """

    def __init__(
        self,
        logs: Iterable[Log],
        offload: Offload,
        done: Callable[[], None],
        at_once: int = AT_ONCE,
    ) -> None:
        waiting = [log for log in logs if log.dirty or log.recovery_point < log.log_end_offset]
        self.total = len(waiting)
        self.ended = 0
        """Flushed, or passed over."""
        self.gave_up = False
        self._waiting: Iterator[Log] = iter(waiting)
        self._offload = offload
        self._done = done
        self._at_once = at_once
        self._in_flight = 0
        self._finished = False

    def start(self) -> None:
        self._begin_flushes()

    def give_up(self) -> None:
        """Begin no more flushes."""
        self.gave_up = True
        self._begin_flushes()

    def _begin_flushes(self) -> None:
        while self._in_flight < self._at_once and not self.gave_up:
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
            with suppress(LogDirFailure):  # the fence keeps it, and the next flush does not begin
                log.end_flush(flush)
            self._begin_flushes()

        self._offload.submit(flush.run, ended, ended)
