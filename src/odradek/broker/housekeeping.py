"""What a broker does on its own, by the clock: retention, checkpoints, late flushes, forgetting
producers.

Each task starts again when it has ended, one interval later, so that none overlaps itself. The
deciding part runs on the owner thread and is short; what blocks goes to a worker, one piece after
the other: retention and the checkpoints write the same files. A failure of the disk fences the
directory, as everywhere; a full one does not end a task, least of all the one that makes room.

| task | every | does |
| --- | --- | --- |
| retention | log.retention.check.interval.ms | old segments leave, then go |
| recovery points | log.flush.offset.checkpoint.interval.ms | sync what is behind, checkpoint |
| late flushes | 3 s after an append | see `late_flushes` |
| metadata snapshot | 1 min | if one is due by its age |
| producers | 10 min | idle producer ids are forgotten |
| compaction | log.cleaner.backoff.ms | see `log_cleaner` |

Flushes that no request waits for: `flush.ms`, `flush.messages`, and segments that were rolled.

For `log.durability=os`; with `fsync` whatever is written is flushed at once.

                    written             looked, nothing is due
    (asleep) ───────────────► in 3 s ───────────────────────────► asleep until flush.ms, if ever
                                 ▲   looked, flushes are wanted
                                 └── look again, for those that found no room

Kafka looks every three seconds, come what may. Here an append says when there is something to look
at, so that a broker to which nobody writes does not wake.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.background import InTurn
from odradek.broker.log_cleaner import LogCleaner
from odradek.log.fence import LogDirFailure
from odradek.log.retention import RetentionClock

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
    """Started once the broker serves; `stop` takes its timers back."""

    def __init__(
        self,
        env: Env,
        timer: SystemTimer,
        config: BrokerConfig,
        directory: LogDirectory,
        replicas: ReplicaManager,
        metadata: MetadataLog,
        current: Callable[[], BrokerConfig],
    ) -> None:
        """`config` has the intervals, `current` what may change while the broker runs."""
        self._metadata = metadata
        self._env = env
        self._workers = InTurn(env.offload)
        self._timer = timer
        self._directory = directory
        self._replicas = replicas
        self._clock = RetentionClock(env.clock.wall_ms(), env.clock.monotonic_ms())
        self._stopped = False
        self._every(config.log_retention_check_interval_ms, self.retention)
        self._every(config.log_flush_offset_checkpoint_interval_ms, self.recovery_points)
        self._every(PRODUCER_CHECK_MS, self.expire_producers)
        self._every(SNAPSHOT_CHECK_MS, self.metadata_snapshot)
        fsync = replicas.durability.fsync
        self.late_flushes = None if fsync else LateFlushes(env.clock, timer, replicas)
        self.cleaner = LogCleaner(
            timer, self._workers, directory, current, self._now_ms, replicas.fail_directory
        )
        self.cleaner.start()

    def stop(self) -> None:
        self._stopped = True
        if self.late_flushes is not None:
            self.late_flushes.stop()
        self.cleaner.stop()

    def configs_changed(self) -> None:
        """`flush.ms` may be shorter than it was."""
        if self.late_flushes is not None:
            self.late_flushes.wake()

    def _now_ms(self) -> int:
        """Wall time that does not jump."""
        clock = self._env.clock
        return self._clock.now_ms(clock.wall_ms(), clock.monotonic_ms())

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

    def _leading(self) -> list[Partition]:
        """The partitions that are not offline."""
        return [partition for partition in self._replicas if not partition.failure]

    def retention(self) -> None:
        """Segments that are too old or too many leave their logs now and the disk a bit later."""
        clock = self._env.clock
        done = self._directory.retention(self._clock, clock.wall_ms(), clock.monotonic_ms())
        for problem in self._directory.take_problems():
            log.error("housekeeping: %s", problem)
        met = {id(read): error for read, error in self._directory.unreadable}
        for partition in self._leading():
            error = met.get(id(partition.log))
            if error is not None:
                partition.handle_read_error(error)
        for partition in self._leading():
            if partition.log.checkpoint_due:
                self._replicas.flusher.request(partition, checkpoint=True)
        if done is not None:
            self._delete(done)

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
        """Bring the recovery points up, so that a restart after a crash has little to read."""
        behind = {id(log) for log in self._directory.behind_recovery_point()}
        for partition in self._leading():
            if id(partition.log) in behind:
                self._replicas.flusher.request(partition, checkpoint=True)
        self._offload(self._directory.checkpoint())

    def remember_damage(self) -> None:
        """A log is offline because bytes below its durable end are damaged. A power loss that took
        the note of that end would make a torn tail of them, to be cut.
        """
        self._offload(self._directory.checkpoint())

    def metadata_snapshot(self) -> None:
        """Commits take snapshots by size; only the clock tells that one is due by age."""
        if self._metadata.failure is None:
            self._metadata.snapshot_if_due()

    def expire_producers(self) -> None:
        """Producers that wrote nothing for `producer.id.expiration.ms` are forgotten."""
        self._directory.expire_producers(self._env.clock.monotonic_ms())

    def _offload(self, work: Callable[[], None]) -> None:
        self._workers.submit(work, lambda _: None, self._failed)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, LogDirFailure):
            self._replicas.fail_directory(error)
        elif isinstance(error, OSError):
            log.error("housekeeping: %s", error)
        else:
            raise error


CHECK_MS = 3_000
LONGEST_MS = 3_600_000


class LateFlushes:
    """`wake` when something was written, or when settings changed; `stop` when there is no more."""

    def __init__(self, clock: Clock, timer: SystemTimer, replicas: ReplicaManager) -> None:
        self._clock = clock
        self._timer = timer
        self._replicas = replicas
        self._task: TimerTask | None = None
        self._soon = False
        self._stopped = False
        replicas.on_unflushed = self.wake
        self.wake()

    def stop(self) -> None:
        self._stopped = True

    def wake(self) -> None:
        """There may be something to flush: look in a while."""
        if not self._soon:
            self._look_in(CHECK_MS)

    def _look_in(self, delay_ms: int) -> None:
        if self._task is not None:
            self._task.cancel()
        self._soon = delay_ms <= CHECK_MS
        self._task = self._timer.call_later(delay_ms, self._look)

    def _look(self) -> None:
        self._task, self._soon = None, False
        if self._stopped or self._replicas.directory_failed:
            return
        now_ms = self._clock.wall_ms()
        waits = [LONGEST_MS]
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
            self._look_in(max(CHECK_MS, min(waits)))
