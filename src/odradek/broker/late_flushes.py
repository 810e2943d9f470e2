"""Flushes that no request waits for: `flush.ms`, `flush.messages`, and segments that were rolled.

For `log.durability=os`; with `fsync` whatever is written is flushed at once.

                    written             looked, nothing is due
    (asleep) ───────────────► in 3 s ───────────────────────────► asleep until flush.ms, if ever
                                 ▲   looked, flushes are wanted
                                 └── look again, for those that found no room

Kafka looks every three seconds, come what may. Here an append says when there is something to look
at, so that a broker to which nobody writes does not wake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.model.env import Clock
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.timing import SystemTimer, TimerTask

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
        replicas.unflushed = self.wake
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
                self._replicas.flusher.wants(partition)
                waits.append(CHECK_MS)
            else:
                waits.append(log.unflushed_since_ms + log.config.flush_ms - now_ms)
        if dirty:
            self._look_in(max(CHECK_MS, min(waits)))
