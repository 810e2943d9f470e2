"""Which leader each followed partition is fetched from, and over which connection.

A leader has up to two fetchers here: one for the replicas that are in sync, for which producers
wait, and one for those that catch up, under the throttle of a reassignment (KIP-73). So a replica
that copies a terabyte delays no acknowledgement. A partition moves from one to the other when it
joins the ISR or leaves it, and to another leader's when the leader changes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial

from odradek.log.fence import LogDamaged
from odradek.log.leader_epochs import EpochEndOffset
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.replication.partition import NO_LEADER, Partition
from odradek.replication.replica_fetcher import (
    FetcherEnvironment,
    FetcherSettings,
    Key,
    Quota,
    ReplicaFetcher,
)
from odradek.replication.replica_manager import ReplicaManager


class FetcherKind(Enum):
    """What a fetcher is for; each has a connection of its own."""

    IN_SYNC = "in-sync"
    CATCH_UP = "catch-up"


class FollowedPartition:
    """A partition and the replica manager that works on it, for a fetcher."""

    def __init__(self, replicas: ReplicaManager, partition: Partition) -> None:
        self._replicas = replicas
        self.partition = partition
        self.key: Key = partition.topic_id, partition.topic_partition.partition

    @property
    def leader_epoch(self) -> int:
        return self.partition.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self.partition.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def durable_end(self) -> int:
        return self.partition.durable_end

    @property
    def durable_log_start(self) -> int:
        return self.partition.durable_log_start

    @property
    def latest_epoch(self) -> int:
        return self.partition.log.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        return self.partition.log.end_offset_for_epoch(epoch)

    def append(self, records: ByteRange) -> ErrorCode:
        return self._replicas.append_as_follower(self.partition, records).error

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        self._replicas.follow_offsets(self.partition, high_watermark, log_start_offset)

    def truncate(self, offset: int, restart: bool, done: Callable[[], None]) -> None:
        self._replicas.truncate(self.partition, offset, restart, done)


class ReplicaFetcherManager:
    """The fetchers of this broker (`replica_manager.Followers`). Owner thread."""

    def __init__(
        self,
        replicas: ReplicaManager,
        broker_epoch: Callable[[], int],
        connect: Callable[[int, FetcherKind], FetcherEnvironment],
        settings: FetcherSettings,
        quota: Quota | None = None,
    ) -> None:
        """`connect(leader id, kind)` returns the connection of a new fetcher."""
        self._replicas = replicas
        self._broker_epoch = broker_epoch
        self._connect = connect
        self._settings = settings
        self._quota = quota
        self.fetchers: dict[tuple[int, FetcherKind], ReplicaFetcher] = {}
        self._assigned: dict[Partition, tuple[int, FetcherKind]] = {}
        self._followed: dict[Partition, FollowedPartition] = {}

    def follow(self, partition: Partition, in_sync: bool) -> None:
        """Fetch from the partition's leader in its epoch, or stop if there is none."""
        kind = FetcherKind.IN_SYNC if in_sync else FetcherKind.CATCH_UP
        assigned = partition.leader_id, kind
        before = self._assigned.get(partition)
        moved_from = None
        if before is not None and before != assigned:
            moved_from = self.fetchers[before] if before[0] == assigned[0] else None
            self.forget(partition)
        if partition.leader_id == NO_LEADER:
            self.forget(partition)
            return
        log = partition.log
        if log.latest_epoch > partition.leader_epoch:
            # No leader has appended that; the leader would not know where the two logs diverge.
            what = (
                f"has a batch of leader epoch {log.latest_epoch}, "
                f"but the partition has only reached epoch {partition.leader_epoch}"
            )
            self.forget(partition)
            partition.fail(LogDamaged(log.directory, what))
            return
        fetcher = self.fetchers.get(assigned)
        if fetcher is None:
            quota = self._quota if kind is FetcherKind.CATCH_UP else None
            fetcher = self.fetchers[assigned] = ReplicaFetcher(
                self._replicas.node_id,
                self._broker_epoch,
                self._connect(*assigned),
                self._settings,
                quota,
            )
        followed = self._followed.get(partition)
        if followed is None:
            followed = self._followed[partition] = FollowedPartition(self._replicas, partition)
        self._assigned[partition] = assigned
        fetcher.add(followed)
        if moved_from is not None:
            # A request of the fetcher before may reach the leader after the first one of this
            # fetcher: its older position would stay until there are more records.
            moved_from.when_ended(partial(self._tell_again, partition))

    def _tell_again(self, partition: Partition) -> None:
        assigned, followed = self._assigned.get(partition), self._followed.get(partition)
        if assigned is not None and followed is not None:
            self.fetchers[assigned].tell_again(followed.key)

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition; a fetcher without partitions ends."""
        assigned = self._assigned.pop(partition, None)
        followed = self._followed.pop(partition, None)
        if assigned is not None and followed is not None:
            fetcher = self.fetchers[assigned]
            fetcher.remove(followed.key)
            if not fetcher.partitions:
                fetcher.stop()
                del self.fetchers[assigned]

    def flushed(self, partition: Partition) -> None:
        """Tell the leader the new durable end."""
        assigned, followed = self._assigned.get(partition), self._followed.get(partition)
        if assigned is not None and followed is not None:
            self.fetchers[assigned].flushed(followed.key)

    def stop(self) -> None:
        """Stop all fetchers."""
        for fetcher in self.fetchers.values():
            fetcher.stop()
