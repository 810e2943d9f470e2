"""The consumer protocol: messages between members of a consumer group, through the coordinator.

    subscription, assignment     version i16, then the message of that version
    sticky user data             previous assignment by topic, generation i32 (0.11 had none)
    cooperative-sticky user data generation i32

They belong to no API of their own: JoinGroup carries a subscription as the metadata of an assignor,
SyncGroup an assignment. The coordinator forwards both without decoding them; only tools
(DescribeGroups) and the checks of OffsetDelete decode them.

Version 1 adds owned partitions (KIP-429), 2 their generation, 3 the rack (KIP-881). Newer versions
only append fields, so a version above `HIGHEST_VERSION` is read as that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from odradek.model.errors import ProtocolError
from odradek.model.topics import TopicPartition, numbers_by_topic
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import field, i32, message, struct

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumer groups in JoinGroup."""

HIGHEST_VERSION: Final = 3
NO_GENERATION: Final = -1
NO_API_KEY: Final = -1

T = TypeVar("T")


@struct
class TopicPartitions:
    """A topic with the numbers of some of its partitions."""

    topic: str
    partitions: list[i32]


@message(api=NO_API_KEY, versions=(0, HIGHEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolSubscription:
    """A member's topics, and the partitions it owns."""

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartitions] = field(factory=list, since=1, ignorable=True)
    generation_id: i32 = field(default=NO_GENERATION, since=2, ignorable=True)
    rack_id: str | None = field(default=None, since=3, ignorable=True)


@message(api=NO_API_KEY, versions=(0, HIGHEST_VERSION), flexible=None, open_ended=True)
class ConsumerProtocolAssignment:
    """The partitions assigned to a member."""

    assigned_partitions: list[TopicPartitions]
    user_data: bytes | None = None


@message(api=NO_API_KEY, versions=(0, 1), flexible=None, open_ended=True)
class StickyUserData:
    """A member's partitions after its last rebalance, and the generation of that rebalance."""

    previous_assignment: list[TopicPartitions]
    generation: i32 = field(default=NO_GENERATION, since=1)


@message(api=NO_API_KEY, versions=(0, 0), flexible=None, open_ended=True)
class CooperativeStickyUserData:
    """The generation of the owned partitions, for leaders that know only versions 0 and 1."""

    generation: i32


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's topics and owned partitions, as assignors use them."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION
    """The generation of the owned partitions; -1 if unknown."""
    rack_id: str | None = None
    group_instance_id: str | None = None
    """Not part of this message: the coordinator sends it beside the subscription."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions assigned to one member, with user data of the assignor."""

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


def group_by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Group partitions by topic, keeping the order of topics and of partitions."""
    groups = numbers_by_topic(partitions)
    return [TopicPartitions(topic=topic, partitions=group) for topic, group in groups.items()]


def flatten(groups: Iterable[TopicPartitions]) -> list[TopicPartition]:
    """Return the partitions of groups in order; the inverse of `group_by_topic`."""
    return [
        TopicPartition(group.topic, partition) for group in groups for partition in group.partitions
    ]


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """Encode a subscription after its version; topics and partitions are sorted, as in Java."""
    return encode_versioned(
        ConsumerProtocolSubscription(
            topics=sorted(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=group_by_topic(sorted(subscription.owned_partitions)),
            generation_id=subscription.generation_id,
            rack_id=subscription.rack_id,
        ),
        version,
    )


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """Decode the result of `encode_subscription`. Raises `ProtocolError`."""
    found = decode_versioned(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=found.topics,
        user_data=found.user_data,
        owned_partitions=flatten(found.owned_partitions),
        generation_id=found.generation_id,
        rack_id=found.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """Encode an assignment after its version."""
    return encode_versioned(
        ConsumerProtocolAssignment(
            assigned_partitions=group_by_topic(assignment.partitions),
            user_data=assignment.user_data,
        ),
        version,
    )


def decode_assignment(data: bytes) -> Assignment:
    """Decode the result of `encode_assignment`. Raises `ProtocolError`."""
    found = decode_versioned(ConsumerProtocolAssignment, data)
    return Assignment(flatten(found.assigned_partitions), found.user_data)


def encode_sticky_user_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Encode the user data of the sticky assignor."""
    return encode_bytes(
        StickyUserData(previous_assignment=group_by_topic(partitions), generation=generation), 1
    )


def decode_sticky_user_data(data: bytes) -> tuple[list[TopicPartition], int]:
    """Return the previous partitions and their generation; none for another assignor's data."""
    for version in (1, 0):
        try:
            found = decode(StickyUserData, version, data)
        except ProtocolError:
            continue
        return flatten(found.previous_assignment), found.generation
    return [], NO_GENERATION


def encode_cooperative_sticky_user_data(generation: int) -> bytes:
    """Encode the user data of the cooperative-sticky assignor: the generation alone.

    The subscription itself has the partitions.
    """
    return encode_bytes(CooperativeStickyUserData(generation=generation), 0)


def decode_cooperative_sticky_user_data(data: bytes) -> int:
    """Return the generation; -1 for another assignor's data."""
    try:
        return decode(CooperativeStickyUserData, 0, data).generation
    except ProtocolError:
        return NO_GENERATION


def encode_versioned(value: object, version: int) -> bytes:
    """Encode a message after its version."""
    return version.to_bytes(2, "big") + encode_bytes(value, version)


def decode_versioned(cls: type[T], data: bytes) -> T:
    """Decode a message after its version. Raises `ProtocolError`."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise ProtocolError(f"{cls.__name__} begins with its version, not with {data[:2].hex()!r}")
    return decode(cls, min(version, HIGHEST_VERSION), data, 2)
