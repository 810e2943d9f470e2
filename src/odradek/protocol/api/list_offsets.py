"""ListOffsets"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, i8, message, struct


@struct
class ListOffsetsPartition:
    """Each partition in the request."""

    partition_index: i32
    current_leader_epoch: i32 = field(default=-1, since=4, ignorable=True)
    timestamp: i64


@struct
class ListOffsetsTopic:
    """Each topic in the request."""

    name: str
    partitions: list[ListOffsetsPartition]


@message(api=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest:
    """"""

    replica_id: i32
    isolation_level: i8 = field(default=0, since=2)
    topics: list[ListOffsetsTopic]
    timeout_ms: i32 = field(default=0, since=10, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    """Each partition in the response."""

    partition_index: i32
    error_code: i16
    timestamp: i64 = field(default=-1)
    offset: i64 = field(default=-1)
    leader_epoch: i32 = field(default=-1, since=4)


@struct
class ListOffsetsTopicResponse:
    """Each topic in the response."""

    name: str
    partitions: list[ListOffsetsPartitionResponse]


@message(api=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0, since=2, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
