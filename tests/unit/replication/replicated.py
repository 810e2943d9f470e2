"""A replica manager of one broker of three, whose peers and controller are the test."""

from __future__ import annotations

from collections.abc import Callable

from odradek.controller.image import PartitionRegistration
from odradek.log.log_config import LogConfig
from odradek.model.env import Disk
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition, TopicPartition
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.validate import BatchRules
from odradek.replication.alter_partition_manager import AlterPartitionManager
from odradek.replication.partition import Partition
from odradek.replication.quota import ReplicationQuota
from odradek.replication.replica_manager import Replication
from unit.replication.memory_replicas import NOW_MS, TOPIC_ID, MemoryReplicas


def registration(
    leader: int = 1,
    epoch: int = 0,
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int = 0,
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas,
        directories=(),
        isr=isr,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
    )


def unthrottled(node_id: int) -> tuple[ReplicationQuota, ReplicationQuota]:
    """Quotas of a leader and of a follower that never apply."""
    return ReplicationQuota(node_id, lambda: 0), ReplicationQuota(node_id, lambda: 0)


class Replicated(MemoryReplicas):
    """Broker 1 of three. `proposals` were sent to the controller; it fetches `following`."""

    def __init__(
        self, *, fsync: bool = True, config: LogConfig | None = None, disk: Disk | None = None
    ) -> None:
        super().__init__(fsync=fsync, config=config, disk=disk)
        self.proposals: list[AlterPartitionRequest] = []
        self.following: dict[Partition, int] = {}
        self.durable_ends: list[int] = []
        self.session_ended = False
        manager = AlterPartitionManager(1, lambda: 7, self.send, self.later)
        self.replicas.replication = Replication(
            manager,
            self,
            lambda *_: True,
            lambda _: True,
            30_000,
            unthrottled(1),
            lambda: self.session_ended,
            0,  # time stands still, so followers are silent at once
        )

    def later(self, _: int, run: Callable[[], None]) -> None:
        self.soon.append(run)

    def send(
        self,
        request: AlterPartitionRequest,
        answered: Callable[[AlterPartitionResponse | None], None],
    ) -> None:
        self.proposals.append(request)

    def follow(self, partition: Partition, in_sync: bool) -> None:
        self.following[partition] = partition.leader_id

    def forget(self, partition: Partition) -> None:
        self.following.pop(partition, None)

    def flushed(self, partition: Partition) -> None:
        self.durable_ends.append(partition.durable_end)

    def replica(self, role: PartitionRegistration, min_isr: int = 1, number: int = 0) -> Partition:
        key = TopicIdPartition(TOPIC_ID, number)
        opened = self.directory.open_log(key, self.config, NOW_MS)
        partition = self.replicas.open(TopicPartition("t", number), TOPIC_ID, opened, BatchRules())
        self.replicas.apply(partition, role, min_isr)
        return partition

    def fetched(self, partition: Partition, broker: int, durable: int, start: int = 0) -> ErrorCode:
        return self.replicas.follower_fetched(partition, broker, 100, durable, durable, start)
