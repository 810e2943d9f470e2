"""The metadata image: brokers, topics, partitions, settings and producer ids of the cluster.

Only `MetadataImage.replay` changes an image. It replays the records of a new decision, of a log
that is loaded and of a snapshot alike, so a restart restores the same image. It validates nothing:
a record that does not fit raises `ReplayError`, which means damage or a bug.

Two images exist in service: clients are answered from the committed one, and decisions are made on
the pending one (see `metadata_log`).

Registrations are values: a change makes a new one. Field names are those of Kafka's records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1
MIGRATING_DIRECTORY = ZERO_UUID
"""The directory of a replica in records of a writer that knew no directories."""
UNASSIGNED_DIRECTORY = UUID(int=1)
"""The directory of a replica until its broker, which has several, has chosen one."""
ELIGIBLE_LEADER_REPLICAS_FEATURE = "eligible.leader.replicas.version"


class ResourceType(IntEnum):
    """Kinds of resources that have settings, with the protocol's codes."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource with settings. The broker resource with an empty name is the cluster default."""

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
    cordoned_log_dirs: tuple[UUID, ...] | None = None
    """Directories that get no new partitions (KIP-1066); None until the broker has told."""

    @classmethod
    def of(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        """Make the registration of a record."""
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
            cordoned_log_dirs=directories_or_none(record.cordoned_log_dirs),
        )

    def record(self) -> RegisterBrokerRecord:
        """Return the record of this registration."""
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
            cordoned_log_dirs=(
                None if self.cordoned_log_dirs is None else list(self.cordoned_log_dirs)
            ),
        )

    def endpoint(self, name: str) -> Endpoint | None:
        """Return the address of the listener with this name; None if it has not registered one."""
        return next((each for each in self.endpoints if each.name == name), None)

    @property
    def active(self) -> bool:
        """True if replicas on this broker may be in sync and lead."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def usable(self) -> bool:
        """True if new replicas may be placed on this broker: one that is fenced comes last.

        One that has stopped cleanly is fenced and no more shutting down, as in Kafka.
        """
        if self.in_controlled_shutdown and not self.fenced:
            return False
        cordoned = self.cordoned_log_dirs
        return not cordoned or not self.log_dirs or not set(self.log_dirs).issubset(cordoned)

    def has_online(self, directory: UUID) -> bool:
        """True if a replica in this directory can be used, as far as the broker has told."""
        if directory in self.log_dirs or not self.log_dirs:
            return True
        return directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)

    @property
    def default_directory(self) -> UUID:
        """The directory of a new replica: the only one, or unassigned, for the broker to choose."""
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIRECTORY


def directories_or_none(record_field: list[UUID] | None) -> tuple[UUID, ...] | None:
    """Return the directories in a nullable field of a record."""
    return None if record_field is None else tuple(record_field)


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """A partition: its replicas, in-sync replicas and leader.

    The leader epoch rises with every election, the partition epoch with every change. `elr`: the
    eligible leader replicas, which left the ISR when it was below the minimum and so have all
    committed records. `last_known_elr`: the last leader of a partition that has none (KIP-966).
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
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def of(cls, record: PartitionRecord) -> PartitionRegistration:
        """Make the registration of a record, which has all fields."""
        return cls(
            replicas=tuple(record.replicas),
            directories=tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            leader_recovery_state=record.leader_recovery_state,
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )

    @property
    def eligible(self) -> tuple[int, ...]:
        """The replicas with all committed records: in sync, or eligible beside these."""
        return self.isr + self.elr

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """Return the partition after a change. A leader in it is an election, even the same one."""
        elected = change.leader != NO_LEADER_CHANGE
        recovery = change.leader_recovery_state
        return PartitionRegistration(
            kept(self.replicas, change.replicas),
            self.directories if change.directories is None else tuple(change.directories),
            kept(self.isr, change.isr),
            change.leader if elected else self.leader,
            self.leader_epoch + elected,
            self.partition_epoch + 1,
            kept(self.removing_replicas, change.removing_replicas),
            kept(self.adding_replicas, change.adding_replicas),
            self.leader_recovery_state if recovery == NO_RECOVERY_STATE_CHANGE else recovery,
            kept(self.elr, change.eligible_leader_replicas),
            kept(self.last_known_elr, change.last_known_elr),
        )

    def directory(self, replica: int) -> UUID:
        """Return the directory of one of the replicas."""
        return self.directories[self.replicas.index(replica)]

    def record(self, topic_id: UUID, partition: int) -> PartitionRecord:
        """Return the record of this registration, with all fields."""
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
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )


def kept(present: tuple[int, ...], changed: list[int] | None) -> tuple[int, ...]:
    """Return the replicas of a list after a change, in which None stands for no change."""
    return present if changed is None else tuple(changed)


@dataclass(slots=True)
class TopicImage:
    """A topic and its partitions by number, 0 to `len(partitions) - 1`."""

    name: str
    id: UUID
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)


NOTHING: Mapping[str, str] = {}


class ReplayError(Exception):
    """A record does not fit those before it: the log is damaged, or there is a bug."""


class MetadataImage:
    """Brokers, topics, settings, features and producer ids of one cluster."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.brokers: dict[int, BrokerRegistration] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[UUID, TopicImage] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self._colliding_names: dict[str, set[str]] = {}

    # Reading

    def topic(self, name: str) -> TopicImage | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        return self.topics_by_id.get(topic_id)

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, topic_id: UUID, partition: int) -> PartitionRegistration | None:
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def offline_replicas(self, partition: PartitionRegistration) -> list[int]:
        """Return the replicas whose broker is fenced or gone, or whose directory is offline."""
        offline = []
        for replica, directory in zip(partition.replicas, partition.directories, strict=True):
            broker = self.brokers.get(replica)
            if broker is None or broker.fenced or not broker.has_online(directory):
                offline.append(replica)
        return offline

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the values set for a resource, by name. Not a copy: do not keep it."""
        return self.configs.get(resource, NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the values set for a topic."""
        return self.config(ConfigResource(ResourceType.TOPIC, name))

    def broker_config(self, broker_id: int | None) -> Mapping[str, str]:
        """Return the values set for a broker, or with None the cluster defaults."""
        name = "" if broker_id is None else str(broker_id)
        return self.config(ConfigResource(ResourceType.BROKER, name))

    def colliding_topic(self, name: str) -> str | None:
        """Return a topic whose name differs only in `.` and `_`, which are the same in metrics."""
        others = self._colliding_names.get(name.replace(".", "_"), set()) - {name}
        return min(others, default=None)

    @property
    def keeps_eligible_leader_replicas(self) -> bool:
        """True if the cluster has eligible leader replicas (KIP-966)."""
        return self.features.get(ELIGIBLE_LEADER_REPLICAS_FEATURE, 0) > 0

    def partition_count(self) -> int:
        """Return the number of partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics.values())

    # Changing

    def replay(self, record: object) -> None:
        """Apply one record. Raises `ReplayError` if it does not fit."""
        action = REPLAY.get(type(record))
        if action is None:
            raise ReplayError(f"{type(record).__name__} is not known to this version")
        action(self, record)

    def _topic_of(self, topic_id: UUID, record: object) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise ReplayError(f"{record} names a topic that does not exist")
        return topic

    def _replay_topic(self, record: TopicRecord) -> None:
        if record.name in self.topics or record.topic_id in self.topics_by_id:
            raise ReplayError(f"{record} creates a topic that exists")
        topic = TopicImage(record.name, record.topic_id)
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic
        if "." in topic.name or "_" in topic.name:
            self._colliding_names.setdefault(topic.name.replace(".", "_"), set()).add(topic.name)

    def _replay_partition(self, record: PartitionRecord) -> None:
        topic = self._topic_of(record.topic_id, record)
        topic.partitions[record.partition_id] = PartitionRegistration.of(record)

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic_of(record.topic_id, record)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise ReplayError(f"{record} names a partition that does not exist")
        topic.partitions[record.partition_id] = partition.merge(record)

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic_of(record.topic_id, record)
        del self.topics[topic.name], self.topics_by_id[topic.id]
        self.configs.pop(ConfigResource(ResourceType.TOPIC, topic.name), None)
        alike = self._colliding_names.get(topic.name.replace(".", "_"))
        if alike is not None:
            alike.discard(topic.name)
            if not alike:
                del self._colliding_names[topic.name.replace(".", "_")]

    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Forget the eligible leader replicas, like Kafka with a new partition epoch."""
        topics: Iterable[TopicImage] = self.topics.values()
        if record.topic_name:
            if record.topic_name not in self.topics:
                raise ReplayError(f"{record} names a topic that does not exist")
            topics = (self.topics[record.topic_name],)
        for topic in topics:
            for number, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    topic.partitions[number] = replace(
                        partition,
                        elr=(),
                        last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    )

    def _replay_config(self, record: ConfigRecord) -> None:
        if record.resource_type not in ResourceType.__members__.values():
            raise ReplayError(f"{record} has a resource type that has no settings in this version")
        resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
        if record.value is not None:
            self.configs.setdefault(resource, {})[record.name] = record.value
            return
        values = self.configs.get(resource)
        if values is not None:
            values.pop(record.name, None)
            if not values:
                del self.configs[resource]

    def _replay_register(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = BrokerRegistration.of(record)

    def _registered(self, broker_id: int, epoch: int, record: object) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ReplayError(f"{record} names a broker registration that does not exist")
        return broker

    def _replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch, record)
        self.brokers[broker.id] = replace(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=(
                broker.in_controlled_shutdown or record.in_controlled_shutdown > 0
            ),
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=(
                broker.cordoned_log_dirs
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs)
            ),
        )

    def _replay_fence(self, record: FenceBrokerRecord) -> None:
        broker = self._registered(record.id, record.epoch, record)
        self.brokers[broker.id] = replace(broker, fenced=True)

    def _replay_unfence(self, record: UnfenceBrokerRecord) -> None:
        broker = self._registered(record.id, record.epoch, record)
        self.brokers[broker.id] = replace(broker, fenced=False)

    def _replay_unregister(self, record: UnregisterBrokerRecord) -> None:
        del self.brokers[self._registered(record.broker_id, record.broker_epoch, record).id]

    def _replay_feature(self, record: FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self.next_producer_id:
            raise ReplayError(f"{record} would allocate producer ids a second time")
        self.next_producer_id = record.next_producer_id

    def _replay_nothing(self, record: NoOpRecord) -> None:
        """A NoOpRecord changes nothing."""

    # As a whole

    def copy(self) -> MetadataImage:
        """Return a copy that shares the registrations, which never change."""
        other = MetadataImage(self.cluster_id)
        other.brokers = dict(self.brokers)
        for topic in self.topics.values():
            twin = TopicImage(topic.name, topic.id, dict(topic.partitions))
            other.topics[twin.name] = other.topics_by_id[twin.id] = twin
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other._colliding_names = {key: set(names) for key, names in self._colliding_names.items()}
        return other

    def records(self) -> Iterator[object]:
        """Yield the records that make this image from an empty one: the contents of a snapshot."""
        for feature, level in sorted(self.features.items()):
            yield FeatureLevelRecord(name=feature, feature_level=level)
        for _, broker in sorted(self.brokers.items()):
            yield broker.record()
        for _, topic in sorted(self.topics.items()):
            yield TopicRecord(name=topic.name, topic_id=topic.id)
            for number, partition in sorted(topic.partitions.items()):
                yield partition.record(topic.id, number)
        for resource, values in sorted(self.configs.items()):
            for name, value in sorted(values.items()):
                yield config_record(resource, name, value)
        if self.next_producer_id > 0:
            yield ProducerIdsRecord(broker_id=-1, next_producer_id=self.next_producer_id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetadataImage):
            return NotImplemented
        return vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def config_record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    """Return the record that sets a setting, or with None removes it."""
    return ConfigRecord(
        resource_type=resource.type, resource_name=resource.name, name=name, value=value
    )


REPLAY: dict[type[object], Callable[[MetadataImage, Any], None]] = {
    TopicRecord: MetadataImage._replay_topic,
    PartitionRecord: MetadataImage._replay_partition,
    PartitionChangeRecord: MetadataImage._replay_partition_change,
    RemoveTopicRecord: MetadataImage._replay_remove_topic,
    ClearElrRecord: MetadataImage._replay_clear_elr,
    ConfigRecord: MetadataImage._replay_config,
    RegisterBrokerRecord: MetadataImage._replay_register,
    BrokerRegistrationChangeRecord: MetadataImage._replay_registration_change,
    FenceBrokerRecord: MetadataImage._replay_fence,
    UnfenceBrokerRecord: MetadataImage._replay_unfence,
    UnregisterBrokerRecord: MetadataImage._replay_unregister,
    FeatureLevelRecord: MetadataImage._replay_feature,
    ProducerIdsRecord: MetadataImage._replay_producer_ids,
    NoOpRecord: MetadataImage._replay_nothing,
}
