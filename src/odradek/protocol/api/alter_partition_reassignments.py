"""AlterPartitionReassignments (key 45, versions 0 to 1): begin or cancel reassignments (KIP-455).

1: whether the replication factor may change (KIP-860).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class ReassignablePartition:
    """One partition and its new replicas; null cancels the reassignment in progress."""

    partition_index: i32
    replicas: list[i32] | None = None


@struct
class ReassignableTopic:
    """Partitions of one topic."""

    name: str
    partitions: list[ReassignablePartition]


@message(api=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest:
    """Reassign partitions."""

    timeout_ms: i32 = 60_000
    allow_replication_factor_change: bool = field(default=True, since=1)
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    """The outcome of one partition."""

    partition_index: i32
    error_code: i16
    error_message: str | None = None


@struct
class ReassignableTopicResponse:
    """The outcomes of one topic."""

    name: str
    partitions: list[ReassignablePartitionResponse]


@message(api=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse:
    """Per partition, the error or none."""

    throttle_time_ms: i32 = 0
    allow_replication_factor_change: bool = field(default=True, since=1, ignorable=True)
    error_code: i16
    error_message: str | None = None
    responses: list[ReassignableTopicResponse]
