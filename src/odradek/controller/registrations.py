"""What the image consists of: brokers, topics, partitions, and names of resources with settings.

Registrations are values: a change makes a new one. Field names are those of Kafka's records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1
UNASSIGNED_DIRECTORY = ZERO_UUID


class ResourceType(IntEnum):
    """What can have settings, with the codes of the protocol."""

    TOPIC = 2
    BROKER = 4


class ConfigResource(NamedTuple):
    """A thing with settings. The broker resource without a name stands for all brokers."""

    type: ResourceType
    name: str


class Endpoint(NamedTuple):
    """An address at which a broker can be reached."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as it last registered. `epoch` is the offset of that record."""

    id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[tuple[str, int, int], ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()

    @classmethod
    def of(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        """The registration that a record says."""
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(
                Endpoint(each.name, each.host, each.port, each.security_protocol)
                for each in record.end_points
            ),
            features=tuple(
                (each.name, each.min_supported_version, each.max_supported_version)
                for each in record.features
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
        )

    def record(self) -> RegisterBrokerRecord:
        """The record that says it."""
        return RegisterBrokerRecord(
            broker_id=self.id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                BrokerEndpoint(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in self.endpoints
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in self.features
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.log_dirs),
        )

    @property
    def default_directory(self) -> UUID:
        """Where a new replica goes: the one directory there is, or for the broker to say."""
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """A partition: who has it, who is in sync, who leads.

    The leader epoch rises with every election, the partition epoch with every change at all.
    """

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0

    @classmethod
    def of(cls, record: PartitionRecord) -> PartitionRegistration:
        """The partition as a record says it in full."""
        return cls(
            replicas=tuple(record.replicas),
            directories=tuple(record.directories) or (UNASSIGNED_DIRECTORY,) * len(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            leader_recovery_state=record.leader_recovery_state,
        )

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """The partition after a change. Naming a leader is an election, even of the same one."""
        elected = change.leader != NO_LEADER_CHANGE
        recovery = change.leader_recovery_state
        return replace(
            self,
            replicas=self.replicas if change.replicas is None else tuple(change.replicas),
            directories=(
                self.directories if change.directories is None else tuple(change.directories)
            ),
            isr=self.isr if change.isr is None else tuple(change.isr),
            leader=change.leader if elected else self.leader,
            leader_epoch=self.leader_epoch + elected,
            partition_epoch=self.partition_epoch + 1,
            removing_replicas=(
                self.removing_replicas
                if change.removing_replicas is None
                else tuple(change.removing_replicas)
            ),
            adding_replicas=(
                self.adding_replicas
                if change.adding_replicas is None
                else tuple(change.adding_replicas)
            ),
            leader_recovery_state=(
                self.leader_recovery_state if recovery == NO_RECOVERY_STATE_CHANGE else recovery
            ),
        )

    def record(self, topic_id: UUID, partition: int) -> PartitionRecord:
        """The record that says it in full."""
        return PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
        )


@dataclass(slots=True)
class TopicImage:
    """A topic and its partitions by number, which are 0 to `len(partitions) - 1`."""

    name: str
    id: UUID
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)
