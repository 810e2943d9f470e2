"""DescribeTopicPartitions"""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class TopicRequest:
    """The topics to fetch details for."""

    name: str


@struct
class Cursor:
    """The first topic and partition index to fetch details for."""

    topic_name: str
    partition_index: i32


@message(api=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    """"""

    topics: list[TopicRequest]
    response_partition_limit: i32 = field(default=2000)
    cursor: Cursor | None = field(default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """Each partition in the topic."""

    error_code: i16
    partition_index: i32
    leader_id: i32
    leader_epoch: i32 = field(default=-1)
    replica_nodes: list[i32]
    isr_nodes: list[i32]
    eligible_leader_replicas: list[i32] | None = field(default=None)
    last_known_elr: list[i32] | None = field(default=None)
    offline_replicas: list[i32]


@struct
class DescribeTopicPartitionsResponseTopic:
    """Each topic in the response."""

    error_code: i16
    name: str | None
    topic_id: UUID
    is_internal: bool = field(default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: i32 = field(default=-(2**31))


@message(api=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(default=None)
