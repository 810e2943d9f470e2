"""ListPartitionReassignments (key 46, version 0): the reassignments in progress (KIP-455)."""

from __future__ import annotations

from odradek.protocol.schema import i16, i32, message, struct


@struct
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: str
    partition_indexes: list[i32]


@message(api=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    """List the reassignments of partitions; null for all."""

    timeout_ms: i32 = 60_000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment:
    """One partition that is being reassigned."""

    partition_index: i32
    replicas: list[i32]
    adding_replicas: list[i32]
    removing_replicas: list[i32]


@struct
class OngoingTopicReassignment:
    """The partitions of one topic."""

    name: str
    partitions: list[OngoingPartitionReassignment]


@message(api=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse:
    """The partitions that are being reassigned."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    topics: list[OngoingTopicReassignment]
