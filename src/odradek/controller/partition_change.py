"""The change of one partition: leader, in-sync replicas and replicas, as one record.

`PartitionChange` collects what a decision wants of a partition, and `record` completes it as
Kafka's PartitionChangeBuilder does (without eligible leader replicas):

1. A reassignment whose new replicas are all in sync is completed at once.
2. A leader is elected among the replicas of the target: the one of the preferred election, or the
   present one while it may stay. An unclean election may take a replica that is not in sync, which
   loses records; it becomes the only in-sync replica, and its state is recovering.
3. Replicas that go away raise the leader epoch, even if the leader stays.

A replica may lead if its broker is registered, not fenced and not shutting down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from uuid import UUID

from odradek.controller.image import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionRegistration,
)
from odradek.protocol.metadata_records import PartitionChangeRecord

RECOVERING = 1


class Election(IntEnum):
    """How a leader is elected; the first two are the protocol's codes of ElectLeaders."""

    PREFERRED = 0
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any in-sync replica; if there is none, any live one."""
    ONLINE = 2
    """Any in-sync replica."""


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """What shall become of a partition. It starts as the partition is: see `of`."""

    partition: PartitionRegistration
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    election: Election

    @classmethod
    def of(
        cls, partition: PartitionRegistration, election: Election = Election.ONLINE
    ) -> PartitionChange:
        """Return the change that keeps everything, up to the election."""
        return cls(
            partition,
            partition.replicas,
            partition.isr,
            partition.adding_replicas,
            partition.removing_replicas,
            election,
        )

    def record(
        self, image: MetadataImage, topic_id: UUID, number: int
    ) -> PartitionChangeRecord | None:
        """Return the record of the change; None if nothing changes."""
        return self._completed()._record(image, topic_id, number)

    def _completed(self) -> PartitionChange:
        """Return the change with its reassignment completed, if the in-sync replicas allow it."""
        adding, removing = self.adding_replicas, self.removing_replicas
        if not adding and not removing:
            return self
        isr = tuple(replica for replica in self.isr if replica not in removing)
        replicas = tuple(replica for replica in self.replicas if replica not in removing)
        if not isr or not replicas or not set(isr).issuperset(adding):
            return self
        if len(adding) < len(removing) and not set(isr).issuperset(replicas):
            return self  # The new replicas would be fewer in-sync ones than there are now.
        return replace(self, replicas=replicas, isr=isr, adding_replicas=(), removing_replicas=())

    def _record(
        self, image: MetadataImage, topic_id: UUID, number: int
    ) -> PartitionChangeRecord | None:
        before = self.partition
        elected, unclean = self._elect(image)
        leader, isr, recovery = NO_LEADER_CHANGE, self.isr, NO_RECOVERY_STATE_CHANGE
        if elected != before.leader:
            leader = elected
            if unclean:
                isr = (elected,)
                if before.leader_recovery_state != RECOVERING:
                    recovery = RECOVERING
        elif not set(self.replicas).issuperset(before.replicas):
            leader = before.leader
        directories = self._directories(image)
        record = PartitionChangeRecord(
            partition_id=number,
            topic_id=topic_id,
            isr=changed(isr, before.isr) if isr else None,
            leader=leader,
            replicas=changed(self.replicas, before.replicas),
            removing_replicas=changed(self.removing_replicas, before.removing_replicas),
            adding_replicas=changed(self.adding_replicas, before.adding_replicas),
            leader_recovery_state=recovery,
            directories=None if directories == before.directories else list(directories),
        )
        nothing = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
        return None if record == nothing else record

    def _directories(self, image: MetadataImage) -> tuple[UUID, ...]:
        known = dict(zip(self.partition.replicas, self.partition.directories, strict=True))
        return tuple(
            known[replica] if replica in known else default_directory(image, replica)
            for replica in self.replicas
        )

    def _elect(self, image: MetadataImage) -> tuple[int, bool]:
        """Return the leader, or `NO_LEADER`, and whether records may be lost."""

        def alive(replica: int) -> bool:
            broker = image.brokers.get(replica)
            return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

        def may_lead(replica: int) -> bool:
            return replica in self.isr and alive(replica)

        present = self.partition.leader
        candidates = (present, *self.replicas)
        if self.election is Election.PREFERRED:
            candidates = (self.replicas[0], present, *self.replicas[1:])
        for replica in candidates:
            if may_lead(replica):
                return replica, False
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if alive(replica):
                    return replica, True
        return NO_LEADER, False


def changed(after: tuple[int, ...], before: tuple[int, ...]) -> list[int] | None:
    """Return the new value of a list for a record; None if it stays."""
    return None if after == before else list(after)


def default_directory(image: MetadataImage, broker_id: int) -> UUID:
    """The directory of a new replica on a broker."""
    broker = image.brokers.get(broker_id)
    return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory
