"""DescribeQuorum (key 55, versions 0 to 2): leader and voters of the metadata log (KIP-595).

- 1: when voters fetched and were caught up (KIP-836). 2: error messages, directories of voters,
  addresses of nodes (KIP-853).
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, i64, message, struct, u16


@struct
class DescribeQuorumPartition:
    """One partition to describe."""

    partition_index: i32


@struct
class DescribeQuorumTopic:
    """One topic to describe."""

    topic_name: str
    partitions: list[DescribeQuorumPartition]


@message(api=55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest:
    """Describe the quorum of partitions; only the metadata log has one."""

    topics: list[DescribeQuorumTopic]


@struct
class ReplicaState:
    """One replica as the leader sees it."""

    replica_id: i32
    replica_directory_id: UUID = field(default=ZERO_UUID, since=2, ignorable=True)
    log_end_offset: i64 = field(doc="-1 unknown.")
    last_fetch_timestamp: i64 = field(
        default=-1, since=1, ignorable=True, doc="-1 unknown, or the leader itself."
    )
    last_caught_up_timestamp: i64 = field(default=-1, since=1, ignorable=True)


@struct
class DescribedQuorumPartition:
    """One partition."""

    partition_index: i32
    error_code: i16
    error_message: str | None = field(default=None, since=2, ignorable=True)
    leader_id: i32 = 0
    leader_epoch: i32 = 0
    high_watermark: i64 = 0
    current_voters: list[ReplicaState] = field(factory=list)
    observers: list[ReplicaState] = field(factory=list)


@struct
class DescribedQuorumTopic:
    """One topic."""

    topic_name: str
    partitions: list[DescribedQuorumPartition]


@struct
class QuorumListener:
    """An address of a node."""

    name: str
    host: str
    port: u16


@struct
class QuorumNode:
    """A node of the quorum."""

    node_id: i32
    listeners: list[QuorumListener]


@message(api=55, versions=(0, 2), flexible=0)
class DescribeQuorumResponse:
    """Per partition, leader, high watermark and replicas."""

    error_code: i16
    error_message: str | None = field(default=None, since=2, ignorable=True)
    topics: list[DescribedQuorumTopic]
    nodes: list[QuorumNode] = field(factory=list, since=2, ignorable=True)
