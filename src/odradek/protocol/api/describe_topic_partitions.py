"""DescribeTopicPartitions (key 75, version 0): partitions of topics, in pages (KIP-966)."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import i16, i32, message, struct


@struct
class TopicRequest:
    """One topic."""

    name: str


@struct
class Cursor:
    """A position in the list: the partitions of a topic from this one on."""

    topic_name: str
    partition_index: i32


@message(api=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    """Describe the partitions of topics, from a cursor on."""

    topics: list[TopicRequest]
    response_partition_limit: i32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    """One partition."""

    error_code: i16
    partition_index: i32
    leader_id: i32
    leader_epoch: i32 = -1
    replica_nodes: list[i32]
    isr_nodes: list[i32]
    eligible_leader_replicas: list[i32] | None = None
    last_known_elr: list[i32] | None = None
    offline_replicas: list[i32]


@struct
class DescribeTopicPartitionsResponseTopic:
    """One topic."""

    error_code: i16
    name: str | None
    topic_id: UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: i32 = -(2**31)


@message(api=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse:
    """One page; `next_cursor` is where the next page begins."""

    throttle_time_ms: i32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
