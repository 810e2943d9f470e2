"""A replica manager over logs in memory, which runs only when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from odradek.log.log import AppendInfo
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange
from odradek.model.env import Disk, Env
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition, TopicPartition
from odradek.protocol.hot_produce import PartitionProduceResponse
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules
from odradek.replication.partition import Durability, Partition
from odradek.replication.produce import ProduceStatus
from odradek.replication.replica_manager import ReplicaManager
from odradek.timing import SystemTimer

TOPIC_ID = UUID(int=7)
NOW_MS = 1_700_000_000_000


class Clock:
    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return NOW_MS


class MemoryReplicas:
    """`soon` and `work` are the callbacks and the work of workers; `run_until_idle` runs all."""

    def __init__(
        self, *, fsync: bool = True, config: LogConfig | None = None, disk: Disk | None = None
    ) -> None:
        self.soon: list[Callable[[], None]] = []
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[..., None]]] = []
        self.timer = SystemTimer(0)
        env = Env(
            Clock(),
            Random(1),
            None,  # type: ignore[arg-type]
            disk or MemoryDisk(),
            self,
            self.soon.append,
        )
        self.directory = LogDirectory(env.disk, "data", env.random, cluster_id=None, node_id=1)
        self.config = config or LogConfig()
        self.replicas = ReplicaManager(env, self.timer, 1, Durability(fsync))

    def submit(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[..., None]
    ) -> None:
        self.work.append((work, done, failed))

    def partition(self, number: int = 0, leader_epoch: int = 0) -> Partition:
        key = TopicIdPartition(TOPIC_ID, number)
        opened = self.directory.open_log(key, self.config, NOW_MS)
        name = TopicPartition("t", number)
        return self.replicas.add(name, TOPIC_ID, opened, leader_epoch, BatchRules())

    def append(self, partition: Partition, count: int = 1) -> AppendInfo:
        data = build([(None, b"value", [], NOW_MS)] * count)
        result = self.replicas.append(partition, ByteRange(data, 0, len(data)), 9)
        self.replicas.appended(partition)
        return result

    def produce_status(self, partition: Partition) -> ProduceStatus:
        """Append a record, as a produce with `acks=-1`."""
        info = self.append(partition)
        response = PartitionProduceResponse(
            index=partition.topic_partition.partition,
            error_code=ErrorCode.REQUEST_TIMED_OUT,
            base_offset=info.base_offset,
        )
        return ProduceStatus(partition, info.required_offset, response)

    def begin_flushes(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def end_flush(self) -> None:
        """Run the oldest piece of work and its callback."""
        work, done, failed = self.work.pop(0)
        try:
            result = work()
        except Exception as error:
            failed(error)
        else:
            done(result)

    def run_until_idle(self) -> None:
        while self.soon or self.work:
            self.begin_flushes()
            if self.work:
                self.end_flush()
