"""The log cleaner of the broker: decides which log is compacted when, and runs the passes.

                backoff over           a log is due
        waiting ──────────────► checking ─────────────────► cleaning, step after step
           ▲                    │ none is        ▲             │ error   │ the end
           └────────────────────┴────────────────│─────────────┘         │
                                                 └───────────────────────┘

One log at a time: the one with the largest dirty ratio of those that are due, by that ratio or by
`max.compaction.lag.ms`. A pass (`log.compaction.cleaner`) is a sequence of short steps. Each is
submitted to a worker when the one before has ended, so that flushes and requests run in between;
`log.cleaner.io.max.bytes.per.second` is kept by pauses between steps. After a pass that cleaned
something the next check follows at once.

Before the first step the durable ends are synced, so that no recovery after a power loss begins
below the segments about to be replaced. After the last one `cleaner-offset-checkpoint` is written.

Errors. A log with unexpected content is not compacted until a restart, and this is logged; when
descriptors or space ran out the pass is tried again; a disk failure fences the directory; an error
of a log that was deleted meanwhile is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from odradek.log.compaction.segment_swap import LogCleaningAborted
from odradek.log.fence import REFUSED_FOR_NOW, LogDamaged, LogDirFailure
from odradek.log.retention import Deletion

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.log.compaction.cleaner import Cleaner, LogToClean, OwnerStep, Step
    from odradek.log.log import Log
    from odradek.log.log_directory import LogDirectory
    from odradek.model.env import Offload
    from odradek.model.topics import TopicIdPartition
    from odradek.timing import SystemTimer

logger = logging.getLogger(__name__)

MIN_CHUNK_BYTES = 1024
MAX_PAUSE_MS = 1_000


class LogCleaner:
    """The cleaner. Owner thread. After `stop` the step in progress is the last."""

    def __init__(
        self,
        timer: SystemTimer,
        workers: Offload,
        directory: LogDirectory,
        config: Callable[[], BrokerConfig],
        now_ms: Callable[[], int],
        failed: Callable[[LogDirFailure], None],
    ) -> None:
        """`workers` does one piece of work at a time. `now_ms`: wall time that does not jump.
        `failed` is called when the disk failed.
        """
        self._timer = timer
        self._workers = workers
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._failed = failed
        self._uncleanable: dict[TopicIdPartition, None] = {}
        self._cleaning: CleaningPass | None = None
        self._stopped = False
        self.passes = 0
        """Passes that reached their end, and the bytes that they read and wrote."""
        self.bytes_read = self.bytes_written = 0

    @property
    def uncleanable(self) -> int:
        """The number of logs that are not compacted until a restart."""
        return len(self._uncleanable)

    @property
    def is_cleaning(self) -> bool:
        """True while a pass is under way."""
        return self._cleaning is not None

    def start(self) -> None:
        self._timer.call_later(max(1, self._config().log_cleaner_backoff_ms), self.check)

    def stop(self) -> None:
        self._stopped = True

    def check(self) -> None:
        """Start to clean the log that needs it most, or check again later."""
        if self._stopped or self._cleaning is not None or self._directory.fence.failure is not None:
            return
        found = self._filthiest()
        if found is None:
            self.start()
        else:
            self._begin(*found)

    def _filthiest(self) -> tuple[TopicIdPartition, LogToClean] | None:
        now_ms, found = self._now_ms(), []
        for key, log in self._directory.logs.items():
            if not log.config.compact or log.truncating or key in self._uncleanable:
                continue
            # Imported here and below, so that a start does without them.
            from odradek.log.compaction.cleaner import log_to_clean

            try:
                plan = log_to_clean(log, self._directory.offsets.first_dirty.get(key), now_ms)
            except (LogDamaged, OSError) as error:
                self._mark_uncleanable(key, error)
                continue
            if plan.worth_cleaning:
                found.append((key, plan))
        return max(found, key=lambda each: each[1].cleanable_ratio, default=None)

    def _begin(self, key: TopicIdPartition, plan: LogToClean) -> None:
        from odradek.log.compaction.batch_retention import OffsetMap
        from odradek.log.compaction.cleaner import Cleaner

        config = self._config()
        latest = OffsetMap(
            config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor
        )
        cleaner = Cleaner(
            self._directory.disk,
            plan,
            latest,
            now_ms=self._now_ms(),
            chunk_bytes=max(MIN_CHUNK_BYTES, config.log_cleaner_io_buffer_size),
        )
        self._directory.offsets.first_dirty.setdefault(key, plan.first_dirty_offset)
        self._cleaning = CleaningPass(key, plan.log, cleaner)
        self._submit(self._directory.checkpoint(), self._next)

    def log_truncated(self, key: TopicIdPartition, log: Log) -> bool:
        """Lower the first dirty offset to the start of the active segment, as in Kafka, and return
        True if it was above. After an unclean election a log may be truncated below it, and what it
        gets then is dirty."""
        first_dirty = self._directory.offsets.first_dirty
        base_offset = log.segments.active.base_offset
        if first_dirty.get(key, base_offset) <= base_offset:
            return False
        first_dirty[key] = base_offset
        return True

    # Steps.

    def _submit(self, work: Callable[[], Step | None], then: Callable[[], None]) -> None:
        cleaning = self._cleaning
        assert cleaning is not None

        def done(step: Step | None) -> None:
            if self._continues(cleaning):
                self._step_done(cleaning, step, then)

        def failed(error: BaseException) -> None:
            cleaning.steps.close()
            deleted = self._directory.logs.get(cleaning.key) is not cleaning.log
            self._end(cleaning, self._config().log_cleaner_backoff_ms)
            if not deleted:
                self._handle_error(cleaning.key, error)

        self._workers.submit(work, done, failed)

    def _continues(self, cleaning: CleaningPass) -> bool:
        """True if the pass continues; ends it if not."""
        continues = (
            not self._stopped
            and self._directory.fence.failure is None
            and self._directory.logs.get(cleaning.key) is cleaning.log
        )
        if not continues:
            with suppress(OSError):
                cleaning.steps.close()
            self._end(cleaning, 0)
        return continues

    def _next(self) -> None:
        if self._cleaning is not None and self._continues(self._cleaning):
            self._submit(partial(next, self._cleaning.steps, None), self._finished)

    def _step_done(
        self, cleaning: CleaningPass, step: Step | None, then: Callable[[], None]
    ) -> None:
        if step is None:
            then()
        elif isinstance(step, int):
            self._throttle(cleaning, step)
        else:
            self._owner_step(cleaning, step)

    def _owner_step(self, cleaning: CleaningPass, step: OwnerStep) -> None:
        try:
            step(cleaning.log)
        except (LogCleaningAborted, OSError) as error:
            self._submit(partial(cleaning.steps.throw, error), self._finished)
        else:
            self._next()

    def _throttle(self, cleaning: CleaningPass, size: int) -> None:
        """Continue when the bytes of the step are within the rate, which may change meanwhile."""
        cleaning.owed_bytes += size
        rate = max(1.0, self._config().log_cleaner_io_max_bytes_per_second)
        pause_ms = int(min(cleaning.owed_bytes * 1000 / rate, MAX_PAUSE_MS))
        if pause_ms < 1:
            self._next()
            return

        def resume() -> None:
            cleaning.owed_bytes -= rate * pause_ms / 1000
            if self._continues(cleaning):
                self._throttle(cleaning, 0)

        self._timer.call_later(pause_ms, resume)

    # The end of a pass.

    def _finished(self) -> None:
        """The last step has ended: note the end offset and write the checkpoint."""
        cleaning = self._cleaning
        assert cleaning is not None
        cleaner = cleaning.cleaner
        if cleaning.log.cleaning:  # Not truncated meanwhile.
            self._directory.offsets.first_dirty[cleaning.key] = cleaner.end_offset
        self.passes += 1
        self.bytes_read += cleaner.stats.map_bytes_read + cleaner.stats.bytes_read
        self.bytes_written += cleaner.stats.bytes_written
        logger.info("compacted %s up to %d: %s", cleaning.key, cleaner.end_offset, cleaner.stats)
        self._submit(self._directory.checkpoint(), lambda: self._end(cleaning, 0))

    def _end(self, cleaning: CleaningPass, again_ms: int) -> None:
        cleaning.log.cleaning = False
        self._cleaning = None
        for deletion in cleaning.cleaner.deletions:
            self._timer.call_later(deletion.delay_ms, partial(self._remove, deletion))
        if not self._stopped:
            self._timer.call_later(max(1, again_ms), self.check)

    def _remove(self, deletion: Deletion) -> None:
        deletion.close()
        if not self._stopped:

            def work() -> None:
                with suppress(FileNotFoundError):  # its partition was deleted meanwhile
                    deletion.remove()

            self._workers.submit(work, lambda _: None, self._not_removed)

    def _not_removed(self, error: BaseException) -> None:
        logger.error("removing segments that compaction replaced failed: %s", error)

    # Errors.

    def _handle_error(self, key: TopicIdPartition, error: BaseException) -> None:
        from odradek.log.compaction.cleaner import UNCLEANABLE

        if isinstance(error, LogDirFailure):
            self._failed(error)
        elif isinstance(error, OSError) and error.errno in REFUSED_FOR_NOW:
            logger.error("compaction of %s failed: %s; it is tried again later", key, error)
        elif isinstance(error, (OSError, *UNCLEANABLE)):
            self._mark_uncleanable(key, error)
        elif not isinstance(error, LogCleaningAborted):
            raise error

    def _mark_uncleanable(self, key: TopicIdPartition, error: Exception) -> None:
        self._uncleanable[key] = None
        logger.error("%s is not compacted until a restart: %s", key, error)


class CleaningPass:
    """The pass in progress."""

    def __init__(self, key: TopicIdPartition, log: Log, cleaner: Cleaner) -> None:
        self.key = key
        self.log = log
        self.cleaner = cleaner
        self.steps: Generator[Step, None, None] = cleaner.steps()
        self.owed_bytes = 0.0
