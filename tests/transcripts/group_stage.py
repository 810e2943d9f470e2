"""A group coordinator over a log in memory, which runs on demand and reports all that it does."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.coordinator import GroupCoordinator
from odradek.coordinator.group.group_shard import GroupShard
from odradek.coordinator.group.transitions import GroupTransitions
from odradek.coordinator.operation import OperationResult, TimerKey
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.coordinator.shard import Shard
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Env
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicIdPartition, TopicPartition
from odradek.protocol.validate import BatchRules
from odradek.replication.partition import Durability, Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import SystemTimer

TOPIC, TOPIC_ID = "__consumer_offsets", UUID(int=11)
NOW_MS = 1_700_000_000_000
Work = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


class LimitedDisk(MemoryDisk):
    """Refuses writes while it is `full`."""

    full = False

    def effect(self, kind: str, path: str) -> None:
        if self.full and kind in ("append", "create"):
            raise OSError(errno.ENOSPC, "No space left on device", path)


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0

    def monotonic_ms(self) -> int:
        return self.passed_ms

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return NOW_MS + self.passed_ms


class RecordingShard(Shard):
    """Reports records that are appended, and timers that are set and fire."""

    stage: Stage

    def _append(self, result: OperationResult) -> ErrorCode:
        error = super()._append(result)
        for record in result.records:
            self.stage.on_record(record, error)
        return error

    def _set_timers(self, result: OperationResult) -> None:
        for key, delay_ms in result.timers:
            self.stage.on_timer(key, delay_ms)
        super()._set_timers(result)

    def _expired(self, key: TimerKey) -> None:
        self.stage.on_fired(key)
        super()._expired(key)


class RecordingRuntime(CoordinatorRuntime[GroupShard]):
    """Makes a `RecordingShard`."""

    stage: Stage

    def new_shard(self, partition: Partition, state_machine: GroupShard) -> Shard:
        stage = self.stage
        shard = RecordingShard(
            partition,
            state_machine,
            stage.replicas,
            stage.clock,
            self.retention_clock,
            stage.timer,
            stage.soon.append,
            self.answer_timeout_ms,
        )
        shard.stage = stage
        stage.recording_shard = shard
        return shard


class Stage:
    """One partition of groups. `run_until_idle` syncs the disk, unless it is `slow`."""

    recording_shard: RecordingShard

    def __init__(self, **settings: int) -> None:
        self._settings: dict[str, str] = {}
        self.configure(settings)
        self.disk = LimitedDisk()
        self.clock = Clock()
        self.random = Random(1)
        self.slow = False
        self.open()

    def configure(self, settings: Mapping[str, object]) -> None:
        """Set more settings; they apply from the next start."""
        for name, value in settings.items():
            self._settings[name.replace("_", ".")] = str(value)
        self.config = BrokerConfig.load(self._settings, "the test")

    def open(self) -> None:
        """Start the broker from the disk."""
        self.soon: list[Callable[[], None]] = []
        self.work: list[Work] = []
        self.timer = SystemTimer(self.clock.passed_ms)
        env = Env(self.clock, self.random, None, self.disk, self, self.soon.append)  # type: ignore[arg-type]
        directory = LogDirectory(self.disk, "data", self.random, cluster_id=None, node_id=1)
        self.release = directory.release
        self.replicas = ReplicaManager(env, self.timer, 1, Durability(fsync=True))
        transitions = GroupTransitions()
        runtime = RecordingRuntime(
            TOPIC,
            lambda: 1,
            lambda _: GroupShard(self.config, self.random, lambda topic: ZERO_UUID, transitions),
            self.replicas,
            self.clock,
            self.timer,
            self.soon.append,
            self.config.offsets_commit_timeout_ms,
        )
        runtime.stage = self
        self.groups = GroupCoordinator(self.config, runtime, transitions)
        opened = directory.open_log(TopicIdPartition(TOPIC_ID, 0), LogConfig(), NOW_MS)
        rules = BatchRules(compacted=True)
        self.partition = self.replicas.add(TopicPartition(TOPIC, 0), TOPIC_ID, opened, 0, rules)

    def crash(self) -> None:
        """Kill the process: what was not written is lost."""
        self.release()

    @property
    def shard(self) -> GroupShard:
        return next(self.groups.runtime.state_machines())

    def shard_timers(self) -> set[TimerKey]:
        """The keys of the timers that are scheduled."""
        return {*self.recording_shard._timers.keys()}

    # -- the environment ---------------------------------------------------------------------------

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.work.append((work, done, failed))

    def run_until_idle(self) -> None:
        """Run what is due now, and the disk if it is not slow."""
        while self.soon or (self.work and not self.slow):
            while self.soon:
                self.soon.pop(0)()
            if self.work and not self.slow:
                self.run_work()

    def run_work(self) -> None:
        work, done, failed = self.work.pop(0)
        try:
            result = work()
        except Exception as error:
            failed(error)
        else:
            done(result)

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock from deadline to deadline, and run until idle at each."""
        end = self.clock.passed_ms + milliseconds
        while True:
            deadline = self.timer.next_deadline_ms()
            self.clock.passed_ms = end if deadline is None else min(end, max(deadline, 0))
            self.timer.advance_clock(self.clock.passed_ms)
            self.run_until_idle()
            if self.clock.passed_ms == end and (deadline is None or deadline > end):
                return

    # -- effects -----------------------------------------------------------------------------------

    def on_record(self, record: CoordinatorRecord, error: ErrorCode) -> None:
        """A record was appended, or refused."""

    def on_timer(self, key: TimerKey, delay_ms: int) -> None:
        """A timer was set or cancelled."""

    def on_fired(self, key: TimerKey) -> None:
        """A timer fired."""
