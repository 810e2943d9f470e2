"""Metadata (key 3, versions 0 to 13): brokers, topics, partitions, leaders.

- 1: an empty array of topics means none, null all; in version 0 empty means all.
- 4: whether topics may be created. 5: offline replicas. 7: leader epochs (KIP-320).
- 8: authorized operations; of the cluster up to 10 only, then see DescribeCluster (KIP-700).
- 9: flexible. 10: topic ids in the response. 12: topic ids in the request (KIP-516).
- 13: an error for the whole response (KIP-1102).
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class MetadataRequestTopic:
    """One topic: by name, or from version 12 by id."""

    topic_id: UUID = field(default=ZERO_UUID, since=10, ignorable=True)
    name: str | None = field(nullable_since=10)


@message(api=3, versions=(0, 13), flexible=9)
class MetadataRequest:
    """Describe topics; null for all of them."""

    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: bool = field(default=True, since=4)
    include_cluster_authorized_operations: bool = field(default=False, since=8, until=10)
    include_topic_authorized_operations: bool = field(default=False, since=8)


@struct
class MetadataResponseBroker:
    """One live broker and its address on the listener that received the request."""

    node_id: i32
    host: str
    port: i32
    rack: str | None = field(default=None, since=1, ignorable=True)


@struct
class MetadataResponsePartition:
    """One partition."""

    error_code: i16
    partition_index: i32
    leader_id: i32
    leader_epoch: i32 = field(default=-1, since=7, ignorable=True)
    replica_nodes: list[i32]
    isr_nodes: list[i32]
    offline_replicas: list[i32] = field(factory=list, since=5, ignorable=True)


@struct
class MetadataResponseTopic:
    """One topic. The name or id is missing only if a topic requested by the other is unknown."""

    error_code: i16
    name: str | None = field(nullable_since=12)
    topic_id: UUID = field(default=ZERO_UUID, since=10, ignorable=True)
    is_internal: bool = field(default=False, since=1, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: i32 = field(
        default=-(2**31), since=8, doc="Bits; the default where not asked."
    )


@message(api=3, versions=(0, 13), flexible=9)
class MetadataResponse:
    """The cluster as this broker sees it."""

    throttle_time_ms: i32 = field(default=0, since=3, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = field(default=None, since=2, ignorable=True)
    controller_id: i32 = field(default=-1, since=1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: i32 = field(
        default=-(2**31), since=8, until=10, doc="Bits; the default where not asked."
    )
    error_code: i16 = field(default=0, since=13, ignorable=True)
