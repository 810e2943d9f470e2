"""OffsetDelete (key 47, version 0): delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: i32


@struct
class OffsetDeleteRequestTopic:
    """One topic."""

    name: str
    partitions: list[OffsetDeleteRequestPartition]


@message(api=47, versions=(0, 0), flexible=None)
class OffsetDeleteRequest:
    """Delete committed offsets of partitions that no member reads."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    """One partition."""

    partition_index: i32
    error_code: i16


@struct
class OffsetDeleteResponseTopic:
    """One topic."""

    name: str
    partitions: list[OffsetDeleteResponsePartition]


@message(api=47, versions=(0, 0), flexible=None)
class OffsetDeleteResponse:
    """The error of the whole group, and of each partition."""

    error_code: i16 = field(doc="That of the whole group.")
    throttle_time_ms: i32 = 0
    topics: list[OffsetDeleteResponseTopic]
