"""The records of `__consumer_offsets`: the groups, and the offsets that they committed.

Keys have type 0 or 1 for an offset, 2 for a group. Groups are written in version 3 and offsets in
version 4, as Kafka 4.3 does. An offset with an expiration time of its own, which clients before 2.1
could ask for, takes version 1. Keys of other types are those of groups of the consumer protocol,
for example.
"""

from __future__ import annotations

from uuid import UUID

from odradek.coordinator.records import RecordCodec
from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i32, i64, message, struct


@message(api=1, versions=(0, 0), flexible=None)
class OffsetCommitKey:
    """Key of the offset that a group committed for a partition."""

    group: str
    topic: str
    partition: i32


@message(api=1, versions=(0, 4), flexible=4)
class OffsetCommitValue:
    """A committed offset: that of the next record to read."""

    offset: i64
    leader_epoch: i32 = field(default=-1, since=3, ignorable=True)
    metadata: str = field(doc="Free text of the client.")
    commit_timestamp: i64
    expire_timestamp: i64 = field(default=-1, since=1, until=1, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=4, tag=0, ignorable=True)


@message(api=2, versions=(0, 0), flexible=None)
class GroupMetadataKey:
    """The key of the record that holds a group's generation and members."""

    group: str


@struct
class MemberMetadata:
    """One member of a stable generation."""

    member_id: str
    group_instance_id: str | None = field(default=None, since=3, ignorable=True)
    client_id: str
    client_host: str
    rebalance_timeout: i32 = field(default=-1, since=1, ignorable=True, doc="ms; -1 as session.")
    session_timeout: i32 = field(doc="ms")
    subscription: bytes = field(doc="Its metadata under the chosen protocol.")
    assignment: bytes


@message(api=2, versions=(0, 4), flexible=4)
class GroupMetadataValue:
    """A generation of a group with its members; an empty group has none."""

    protocol_type: str
    generation: i32
    protocol: str | None
    leader: str | None
    current_state_timestamp: i64 = field(default=-1, since=2, ignorable=True)
    members: list[MemberMetadata]


LEGACY_OFFSET_COMMIT = 0
GROUP_VERSION = 3
OFFSET_VERSION = 4
EXPIRING_OFFSET_VERSION = 1


def written_version(value: OffsetCommitValue | GroupMetadataValue) -> int:
    """The version in which Kafka 4.3 writes this value."""
    if isinstance(value, GroupMetadataValue):
        return GROUP_VERSION
    return OFFSET_VERSION if value.expire_timestamp == -1 else EXPIRING_OFFSET_VERSION


GROUP_RECORDS = RecordCodec(
    {LEGACY_OFFSET_COMMIT: OffsetCommitKey, 1: OffsetCommitKey, 2: GroupMetadataKey},
    {OffsetCommitKey: OffsetCommitValue, GroupMetadataKey: GroupMetadataValue},
    written_version,
)
"""The codec of these records."""
