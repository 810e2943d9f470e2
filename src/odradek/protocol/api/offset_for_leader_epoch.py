"""OffsetForLeaderEpoch"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class OffsetForLeaderPartition:
    """Each partition to get offsets for."""

    partition: i32
    current_leader_epoch: i32 = field(default=-1)
    leader_epoch: i32


@struct
class OffsetForLeaderTopic:
    """Each topic to get offsets for."""

    topic: str
    partitions: list[OffsetForLeaderPartition]


@message(api=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    """"""

    replica_id: i32 = field(default=-2, since=3, ignorable=True)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    """Each partition in the topic we fetched offsets for."""

    error_code: i16
    partition: i32
    leader_epoch: i32 = field(default=-1)
    end_offset: i64 = field(default=-1)


@struct
class OffsetForLeaderTopicResult:
    """Each topic we fetched offsets for."""

    topic: str
    partitions: list[EpochEndOffset]


@message(api=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    topics: list[OffsetForLeaderTopicResult]
