"""Periodic work of the broker: retention, checkpoints, late flushes, compaction.

Each task is scheduled again when it has ended, one interval later, so that it never overlaps
itself. The deciding part runs on the owner thread and is short; blocking work runs on a worker, one
piece after the other, because retention and checkpoints write the same files. A disk failure fences
the directory, as everywhere; a full disk does not end a task, least of all the one that frees
space.

| task | every | does |
| --- | --- | --- |
| retention | log.retention.check.interval.ms | takes old segments out of their logs, deletes them |
| recovery points | log.flush.offset.checkpoint.interval.ms | flushes old appends, checkpoints |
| dirty logs | 3 s after an append | `flush.ms`, `flush.messages`: see `DirtyLogFlusher` |
| metadata snapshot | 1 min | takes one if it is due by age |
| producers | 10 min | removes the state of idle producers |
| hanging transactions | 1 min | see `hanging_transactions` |
| compaction | log.cleaner.backoff.ms | see `log_cleaner` |
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.background import SerialOffload
from odradek.broker.hanging_transactions import LOOK_MS
from odradek.broker.log_cleaner import LogCleaner
from odradek.log.fence import LogDirFailure
from odradek.log.retention import RetentionClock
from odradek.model.topics import TopicIdPartition

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.controller.metadata_log import MetadataLog
    from odradek.log.log_directory import LogDirectory
    from odradek.log.retention import RetentionPass
    from odradek.model.env import Clock, Env
    from odradek.replication.partition import Partition
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.timing import SystemTimer, TimerTask


log = logging.getLogger(__name__)

PRODUCER_CHECK_MS = 600_000
SNAPSHOT_CHECK_MS = 60_000
DELETION_RETRY_MS = 60_000


class Housekeeping:
    """The tasks of one broker. Starts its timers; after `stop` they do nothing."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        config: BrokerConfig,
        directory: LogDirectory,
        replicas: ReplicaManager,
        metadata: MetadataLog,
        current: Callable[[], BrokerConfig],
        look_for_hanging_transactions: Callable[[], None],
    ) -> None:
        """`config` has the intervals; `current` returns settings that may change at run time."""
        self._metadata = metadata
        self._env = env
        self._workers = SerialOffload(env.offload)
        self._timer = timer
        self._directory = directory
        self._replicas = replicas
        self._clock = RetentionClock(env.clock)
        self._stopped = False
        self.deleted_segments = self.deleted_bytes = 0
        """Counts of what retention has taken out of the logs."""
        self._every(config.log_retention_check_interval_ms, self.retention)
        self._every(config.log_flush_offset_checkpoint_interval_ms, self.recovery_points)
        self._every(PRODUCER_CHECK_MS, self.expire_producers)
        self._every(SNAPSHOT_CHECK_MS, self.metadata_snapshot)
        self._every(LOOK_MS, look_for_hanging_transactions)
        fsync = replicas.durability.fsync
        self.dirty_log_flusher = None if fsync else DirtyLogFlusher(env.clock, timer, replicas)
        self.cleaner = LogCleaner(
            timer, self._workers, directory, current, self._clock.now_ms, replicas.fail_directory
        )
        replicas.on_truncated = self._truncated
        self.cleaner.start()

    def stop(self) -> None:
        self._stopped = True
        if self.dirty_log_flusher is not None:
            self.dirty_log_flusher.stop()
        self.cleaner.stop()

    def _truncated(self, partition: Partition) -> None:
        key = TopicIdPartition(partition.topic_id, partition.topic_partition.partition)
        if self.cleaner.log_truncated(key, partition.log):
            self._offload(self._directory.checkpoint())

    def logs_opened(self) -> None:
        """Logs that were recovered may have to be flushed."""
        if self.dirty_log_flusher is not None:
            self.dirty_log_flusher.schedule()

    def configs_changed(self) -> None:
        """Settings of topics changed: `flush.ms` may be shorter than before."""
        if self.dirty_log_flusher is not None:
            self.dirty_log_flusher.schedule()

    def _every(self, interval_ms: int, task: Callable[[], None]) -> None:
        def run() -> None:
            if self._stopped or self._replicas.directory_failed:
                return
            self._timer.call_later(max(1, interval_ms), run)
            try:
                task()
            except OSError as error:
                self._failed(error)

        self._timer.call_later(max(1, interval_ms), run)

    def _online(self) -> list[Partition]:
        """The partitions that are online."""
        return [partition for partition in self._replicas if not partition.failure]

    def retention(self) -> None:
        """Take expired segments out of their logs; they are deleted from disk a little later."""
        done = self._directory.retention(self._clock.now_ms())
        for problem in self._directory.take_problems():
            log.error("retention: %s", problem)
        unreadable = {id(read): error for read, error in self._directory.unreadable}
        for partition in self._online():
            error = unreadable.get(id(partition.log))
            if error is not None:
                partition.handle_read_error(error)
        for partition in self._online():
            if partition.log.checkpoint_due:
                self._replicas.flusher.request(partition, checkpoint=True)
        if done is not None:
            self.deleted_segments += sum(len(each.segments) for each in done.deletions)
            self.deleted_bytes += done.bytes
            self._delete(done)
            if self._replicas.replication is not None:
                shortened = {deletion.directory for deletion in done.deletions}
                for partition in self._online():
                    if partition.log.directory in shortened:
                        self._replicas.log_start_raised(partition)

    def _delete(self, done: RetentionPass) -> None:
        def failed(error: BaseException) -> None:
            self._failed(error)
            self._timer.call_later(DELETION_RETRY_MS, again)

        def again() -> None:
            if not (self._stopped or self._replicas.directory_failed):
                done.checkpoint = self._directory.checkpoint()
                self._delete(done)

        self._workers.submit(done.run, lambda _: self._remove_later(done), failed)

    def _remove_later(self, done: RetentionPass) -> None:
        def remove() -> None:
            done.close()
            if not self._stopped:
                self._offload(done.remove)

        self._timer.call_later(done.delay_ms, remove)

    def recovery_points(self) -> None:
        """Advance the recovery points, so that recovery after a crash has little to read."""
        behind = {id(log) for log in self._directory.behind_recovery_point()}
        for partition in self._online():
            if id(partition.log) in behind:
                self._replicas.flusher.request(partition, checkpoint=True)
        self._offload(self._directory.checkpoint())

    def save_durable_ends(self) -> None:
        """Write a checkpoint because a log is offline with damage below its durable end.

        If a power loss took the note of that end, the damage would look like a torn tail, and
        recovery would truncate it.
        """
        self._offload(self._directory.checkpoint())

    def metadata_snapshot(self) -> None:
        """Take a metadata snapshot that is due by age; commits take those that are due by size."""
        if self._metadata.failure is None:
            self._metadata.snapshot_if_due()

    def expire_producers(self) -> None:
        """Remove the state of producers that wrote nothing for `producer.id.expiration.ms`."""
        self._directory.expire_producers(self._env.clock.monotonic_ms())

    def _offload(self, work: Callable[[], None]) -> None:
        self._workers.submit(work, lambda _: None, self._failed)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, LogDirFailure):
            self._replicas.fail_directory(error)
        elif isinstance(error, OSError):
            log.error("periodic task failed: %s; it runs again after its interval", error)
        else:
            raise error


CHECK_MS = 3_000
MAX_DELAY_MS = 3_600_000


class DirtyLogFlusher:
    """Flushes that no request waits for: `flush.ms`, `flush.messages`, and rolled segments.

    For `log.durability=os`; with `fsync` every append is flushed at once.

                    append              checked, nothing is due
         (idle) ───────────────► in 3 s ─────────────────────────► idle until flush.ms, if set
                                    ▲   checked, flushes requested
                                    └── check again, for those that could not start

    Kafka checks every three seconds in any case. Here an append schedules the check, so that a
    broker without writes does not wake up.
    """

    def __init__(self, clock: Clock, timer: SystemTimer, replicas: ReplicaManager) -> None:
        self._clock = clock
        self._timer = timer
        self._replicas = replicas
        self._task: TimerTask | None = None
        self._soon = False
        self._stopped = False
        replicas.on_unflushed = self.schedule
        self.schedule()

    def stop(self) -> None:
        self._stopped = True

    def schedule(self) -> None:
        """Schedule a check: something was appended, or settings changed."""
        if not self._soon:
            self._check_in(CHECK_MS)

    def _check_in(self, delay_ms: int) -> None:
        if self._task is not None:
            self._task.cancel()
        self._soon = delay_ms <= CHECK_MS
        self._task = self._timer.call_later(delay_ms, self._check)

    def _check(self) -> None:
        self._task, self._soon = None, False
        if self._stopped or self._replicas.directory_failed:
            return
        now_ms = self._clock.wall_ms()
        waits = [MAX_DELAY_MS]
        dirty = False
        for partition in self._replicas:
            log = partition.log if not partition.failure else None
            if log is None or not log.dirty:
                continue
            dirty = True
            if log.flush_due(now_ms):
                self._replicas.flusher.request(partition)
                waits.append(CHECK_MS)
            else:
                waits.append(log.unflushed_since_ms + log.config.flush_ms - now_ms)
        if dirty:
            self._check_in(max(CHECK_MS, min(waits)))
