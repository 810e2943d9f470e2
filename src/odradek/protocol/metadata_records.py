"""Records of the cluster metadata log and their framing, with KRaft's schemas.

    value    frame version uvarint (1) · record key uvarint · record version uvarint · body

The records have no keys in the log. Bodies are declared like the messages of the protocol and are
all flexible, so an older reader skips a newer version's tagged fields; the version to write follows
from the finalized `metadata.version`. This module only encodes and decodes: the controller applies
records to the cluster image.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.model.errors import ProtocolError
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.primitives import read_uvarint, uvarint
from odradek.protocol.schema import declaration, field, i8, i16, i32, i64, message, struct, u16


@struct
class BrokerEndpoint:
    """An address at which the broker can be reached."""

    name: str
    host: str
    port: u16
    security_protocol: i16


@struct
class BrokerFeature:
    """A feature and the levels that this broker supports."""

    name: str
    min_supported_version: i16
    max_supported_version: i16


@message(api=0, versions=(0, 4), flexible=0)
class RegisterBrokerRecord:
    """A broker registered; replaces its earlier registration."""

    broker_id: i32
    is_migrating_zk_broker: bool = field(default=False, since=2)
    incarnation_id: UUID
    broker_epoch: i64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: str | None
    fenced: bool = field(default=True)
    in_controlled_shutdown: bool = field(default=False, since=1)
    log_dirs: list[UUID] = field(factory=list, tag=0, since=3)
    cordoned_log_dirs: list[UUID] | None = field(default=None, tag=1, since=4)


@message(api=1, versions=(0, 0), flexible=0)
class UnregisterBrokerRecord:
    """A broker left the cluster permanently."""

    broker_id: i32
    broker_epoch: i64


@message(api=2, versions=(0, 0), flexible=0)
class TopicRecord:
    """A topic was created; its partitions follow as `PartitionRecord`s."""

    name: str
    topic_id: UUID


@message(api=3, versions=(0, 2), flexible=0)
class PartitionRecord:
    """The full state of a partition."""

    partition_id: i32 = field(default=-1)
    topic_id: UUID
    replicas: list[i32]
    isr: list[i32]
    removing_replicas: list[i32]
    adding_replicas: list[i32]
    leader: i32 = field(default=-1)
    leader_recovery_state: i8 = field(
        default=0, tag=0, doc="0 recovered, 1 recovering from an unclean election."
    )
    leader_epoch: i32 = field(default=-1)
    partition_epoch: i32 = field(default=-1)
    directories: list[UUID] = field(factory=list, since=1)
    eligible_leader_replicas: list[i32] | None = field(default=None, tag=1, since=2)
    last_known_elr: list[i32] | None = field(default=None, tag=2, since=2)


@message(api=4, versions=(0, 0), flexible=0)
class ConfigRecord:
    """A setting of a resource was set, or removed where `value` is null."""

    resource_type: i8 = field(doc="2 topic, 4 broker, 16 client metrics, 32 group.")
    resource_name: str
    name: str
    value: str | None


@message(api=5, versions=(0, 2), flexible=0)
class PartitionChangeRecord:
    """The changes of a partition; null, or the default, where nothing changed.

    Any change of `leader` or `isr` raises the partition epoch by one; a change of `leader` (also to
    none, -1) raises the leader epoch as well. Neither epoch is in the record.
    """

    partition_id: i32 = field(default=-1)
    topic_id: UUID
    isr: list[i32] | None = field(default=None, tag=0)
    leader: i32 = field(default=-2, tag=1, doc="-2 unchanged, -1 none.")
    replicas: list[i32] | None = field(default=None, tag=2)
    removing_replicas: list[i32] | None = field(default=None, tag=3)
    adding_replicas: list[i32] | None = field(default=None, tag=4)
    leader_recovery_state: i8 = field(default=-1, tag=5, doc="-1 unchanged, 0 or 1.")
    directories: list[UUID] | None = field(default=None, tag=8, since=1)
    eligible_leader_replicas: list[i32] | None = field(default=None, tag=6, since=2)
    last_known_elr: list[i32] | None = field(default=None, tag=7, since=2)


@message(api=7, versions=(0, 0), flexible=0)
class FenceBrokerRecord:
    """A broker was fenced. Kafka writes `BrokerRegistrationChangeRecord` since 3.3."""

    id: i32
    epoch: i64


@message(api=8, versions=(0, 0), flexible=0)
class UnfenceBrokerRecord:
    """A broker was unfenced. See `FenceBrokerRecord`."""

    id: i32
    epoch: i64


@message(api=9, versions=(0, 0), flexible=0)
class RemoveTopicRecord:
    """A topic and its partitions were deleted."""

    topic_id: UUID


@message(api=12, versions=(0, 0), flexible=0)
class FeatureLevelRecord:
    """A feature, such as `metadata.version`, was set to a level; 0 removes it."""

    name: str
    feature_level: i16


@message(api=15, versions=(0, 0), flexible=0)
class ProducerIdsRecord:
    """A broker was given a block of producer ids; the next block begins at `next_producer_id`."""

    broker_id: i32
    broker_epoch: i64 = field(default=-1)
    next_producer_id: i64


@message(api=17, versions=(0, 3), flexible=0)
class BrokerRegistrationChangeRecord:
    """The changes of a registration; 0, or the default, where nothing changed."""

    broker_id: i32
    broker_epoch: i64
    fenced: i8 = field(default=0, tag=0, doc="-1 unfenced, 0 unchanged, 1 fenced.")
    in_controlled_shutdown: i8 = field(
        default=0, tag=1, since=1, doc="0 unchanged, 1 in controlled shutdown."
    )
    log_dirs: list[UUID] = field(factory=list, tag=2, since=2)
    cordoned_log_dirs: list[UUID] | None = field(default=None, tag=3, since=3)


@message(api=20, versions=(0, 0), flexible=0)
class NoOpRecord:
    """No change; written periodically so that the log shows progress."""


@message(api=23, versions=(0, 0), flexible=0)
class BeginTransactionRecord:
    """The records up to the end or abort record take effect together (KIP-868)."""

    name: str | None = field(default=None, tag=0)


@message(api=24, versions=(0, 0), flexible=0)
class EndTransactionRecord:
    """The records since the begin record take effect."""


@message(api=25, versions=(0, 0), flexible=0)
class AbortTransactionRecord:
    """The records since the begin record are discarded."""

    reason: str | None = field(default=None, tag=0)


@message(api=28, versions=(0, 0), flexible=0)
class ClearElrRecord:
    """The eligible leader replicas of a topic, or with an empty name of all topics, were forgotten.

    Its `min.insync.replicas` changed: what they were eligible for no longer holds (KIP-966).
    """

    topic_name: str


FRAME_VERSION = 1

RECORDS: dict[int, type[Any]] = {
    declaration(cls).api: cls
    for cls in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        FeatureLevelRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        NoOpRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        ClearElrRecord,
    )
}
"""Record key -> class."""


def encode_record(record: object, version: int) -> bytes:
    """Return the value of a record in the log."""
    key = declaration(type(record)).api
    head = uvarint(FRAME_VERSION) + uvarint(key) + uvarint(version)
    return head + encode_bytes(record, version)


def decode_record(value: bytes) -> Any:
    """Return the record of a value. Raises `ProtocolError`, also for an unknown key or version."""
    frame_version, pos = read_uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"metadata frame version {frame_version} is not known")
    key, pos = read_uvarint(value, pos)
    version, pos = read_uvarint(value, pos)
    cls = RECORDS.get(key)
    if cls is None:
        raise ProtocolError(f"metadata record key {key} is not known")
    low, high = declaration(cls).versions
    if not low <= version <= high:
        raise ProtocolError(f"{cls.__name__} has versions {low} to {high}, not {version}")
    return decode(cls, version, value, pos)
