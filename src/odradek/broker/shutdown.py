"""Clean shutdown: from the last request to the clean-shutdown marker, in bounded time.

    connections closed, no more housekeeping ─► the work on workers ends
        ─► every log flushed to its end, many at once (`log.flush.ShutdownFlush`)
        ─► metadata closed, checkpoints and marker written, lock released ─► `stopped`

The flushes have `FLUSH_TIME_MS`. What is not flushed by then stays as it is, and no marker is
written: the next start recovers, as after a crash, from the recovery points that were reached.
With `log.durability=fsync` everything acknowledged was on disk before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.broker.background import TrackedOffload
from odradek.controller.metadata_log import MetadataLog
from odradek.log.flush import ShutdownFlush
from odradek.log.log_directory import LogDirectory
from odradek.timing import SystemTimer

log = logging.getLogger(__name__)

FLUSH_TIME_MS = 30_000
PROGRESS_MS = 1_000

Progress = Callable[[int, int], None]
"""Called with the number of logs that are flushed (at a start: open), and of all logs."""


class CleanShutdown:
    """One shutdown. Owner thread; requests and housekeeping must have ended when it begins."""

    def __init__(
        self,
        timer: SystemTimer,
        background: TrackedOffload,
        directory: LogDirectory,
        metadata: MetadataLog,
        broker_epoch: int,
        stopped: Callable[[], None],
        progress: Progress | None,
    ) -> None:
        """`broker_epoch`: for the marker, by which the next incarnation shows the controller that
        this one stopped cleanly.
        """
        self._timer = timer
        self._background = background
        self._directory = directory
        self._metadata = metadata
        self._broker_epoch = broker_epoch
        self._stopped = stopped
        self._progress = progress

    def begin(self) -> None:
        """Start when no work is in progress on workers."""
        self._background.when_idle(self._flush)

    def _flush(self) -> None:
        logs = self._directory.logs.values()
        self._flushes = ShutdownFlush(logs, self._background, self._flushed)
        self._deadline = self._timer.call_later(FLUSH_TIME_MS, self._out_of_time)
        self._progress_timer = self._timer.call_later(PROGRESS_MS, self._report_progress)
        self._flushes.start()

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress(self._flushes.ended, self._flushes.total)
        self._progress_timer = self._timer.call_later(PROGRESS_MS, self._report_progress)

    def _out_of_time(self) -> None:
        flushes = self._flushes
        log.error(
            "the shutdown is not clean and the next start recovers: %d of %d logs flushed in %d s",
            flushes.ended,
            flushes.total,
            FLUSH_TIME_MS // 1000,
        )
        flushes.give_up()

    def _flushed(self) -> None:
        self._deadline.cancel()
        self._progress_timer.cancel()
        try:
            try:
                self._metadata.close()
            except BaseException:
                self._directory.release()
                raise
            self._directory.close(self._broker_epoch, flush=not self._flushes.gave_up)
        except OSError as error:
            log.critical("the shutdown is not clean and the next start recovers: %s", error)
        self._stopped()
