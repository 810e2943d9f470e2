"""Partitions that a replica manager leads, over logs in memory; fsync ends when a test says so."""

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
from odradek.model.env import Env
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
WALL_MS = 1_700_000_000_000
PRODUCE_VERSION = 9


class StandingClock:
    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return WALL_MS


class LedPartitions:
    """`append` writes records; `flush` makes them durable, which moves the high watermark."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.timer = SystemTimer(0)
        self._soon: list[Callable[[], None]] = []
        self._work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._config = config or LogConfig()
        env: Any = Env(StandingClock(), Random(1), None, MemoryDisk(), self, self._soon.append)  # type: ignore[arg-type]
        self._directory = LogDirectory(env.disk, "data", env.random, cluster_id=None, node_id=1)
        self.replicas = ReplicaManager(env, self.timer, 1, Durability(True))

    def submit(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[..., None]
    ) -> None:
        """The workers' part of the environment."""
        self._work.append((work, done))

    def lead(self, topic: str, number: int) -> Partition:
        key = TopicIdPartition(TOPIC_ID, number)
        opened = self._directory.open_log(key, self._config, WALL_MS)
        name = TopicPartition(topic, number)
        return self.replicas.add(name, TOPIC_ID, opened, 0, BatchRules())

    def append(self, partition: Partition, *values: bytes) -> AppendInfo:
        data = build([(None, value, [], WALL_MS) for value in values])
        result = self.replicas.append(partition, ByteRange(data, 0, len(data)), PRODUCE_VERSION)
        self.replicas.appended(partition)
        return result

    def produce_status(self, partition: Partition, *values: bytes) -> ProduceStatus:
        """Append records, as a produce with `acks=-1`."""
        info = self.append(partition, *values)
        response = PartitionProduceResponse(
            index=partition.topic_partition.partition,
            error_code=ErrorCode.REQUEST_TIMED_OUT,
            base_offset=info.base_offset,
        )
        return ProduceStatus(partition, info.required_offset, response)

    def flush(self) -> None:
        """Let every fsync that was asked for end."""
        while self._soon or self._work:
            while self._soon:
                self._soon.pop(0)()
            if self._work:
                work, done = self._work.pop(0)
                done(work())
