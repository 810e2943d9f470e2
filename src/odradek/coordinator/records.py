"""The records of `__consumer_offsets`: Kafka's own schemas, so that its tools read our log.

    key      type i16 · body          type 0 and 1: an offset, 2: a group; bodies are version 0
    value    version i16 · body       none: a tombstone

Groups are written in version 3 and offsets in version 4, as Kafka 4.3 does. An offset with an
expiration time of its own, which clients before 2.1 could ask for, takes version 1. Every version
is read. Keys of unknown types (groups of the consumer protocol, for example) are skipped while
loading: the log may come from a broker that supports more.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from odradek.model.errors import ProtocolError
from odradek.model.topics import ZERO_UUID
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import declaration, field, i32, i64, message, struct

TYPE_BYTES = 2


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
    """Key of a group."""

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


class CoordinatorRecord(NamedTuple):
    """A key and its value; the value of a tombstone is None."""

    key: OffsetCommitKey | GroupMetadataKey
    value: OffsetCommitValue | GroupMetadataValue | None


LEGACY_OFFSET_COMMIT = 0
GROUP_VERSION = 3
OFFSET_VERSION = 4
EXPIRING_OFFSET_VERSION = 1

KEYS: dict[int, type[Any]] = {
    LEGACY_OFFSET_COMMIT: OffsetCommitKey,
    1: OffsetCommitKey,
    2: GroupMetadataKey,
}
VALUES: dict[type[Any], type[Any]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
}


def key_bytes(record: CoordinatorRecord) -> bytes:
    """The encoded key of a record."""
    key = record.key
    return declaration(type(key)).api.to_bytes(TYPE_BYTES, "big") + encode_bytes(key, 0)


def value_bytes(record: CoordinatorRecord) -> bytes | None:
    """The encoded value of a record; None for a tombstone."""
    value = record.value
    if value is None:
        return None
    version = written_version(value)
    return version.to_bytes(TYPE_BYTES, "big") + encode_bytes(value, version)


def written_version(value: OffsetCommitValue | GroupMetadataValue) -> int:
    """The version in which Kafka 4.3 writes this value."""
    if isinstance(value, GroupMetadataValue):
        return GROUP_VERSION
    return OFFSET_VERSION if value.expire_timestamp == -1 else EXPIRING_OFFSET_VERSION


def decode_record(key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """The record of a key and a value; None if its type is not known here.

    Raises `ProtocolError` if the bytes are not such a record or its version is unknown.
    """
    if key is None or len(key) < TYPE_BYTES:
        raise ProtocolError("a coordinator record without a key")
    kind = KEYS.get(int.from_bytes(key[:TYPE_BYTES], "big"))
    if kind is None:
        return None
    read = decode(kind, 0, key, TYPE_BYTES)
    if value is None:
        return CoordinatorRecord(read, None)
    cls = VALUES[kind]
    version = int.from_bytes(value[:TYPE_BYTES], "big", signed=True)
    low, high = declaration(cls).versions
    if not low <= version <= high:
        raise ProtocolError(f"{cls.__name__} has versions {low} to {high}, not {version}")
    return CoordinatorRecord(read, decode(cls, version, value, TYPE_BYTES))
