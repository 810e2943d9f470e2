"""ElectLeaders (key 43, versions 0 to 2): elect leaders of partitions (KIP-183).

- 1: the type of the election, a top-level error (KIP-460). 2: flexible.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, message, struct


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: str
    partitions: list[i32]


@message(api=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    """Elect leaders of partitions; null for all."""

    election_type: i8 = field(
        default=0, since=1, doc="0 the preferred replica, 1 any live replica if there is no leader."
    )
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: i32 = 60_000


@struct
class PartitionResult:
    """The outcome of one partition."""

    partition_id: i32
    error_code: i16
    error_message: str | None


@struct
class ReplicaElectionResult:
    """The outcomes of one topic."""

    topic: str
    partition_result: list[PartitionResult]


@message(api=43, versions=(0, 2), flexible=2)
class ElectLeadersResponse:
    """Per partition, the error or none."""

    throttle_time_ms: i32 = 0
    error_code: i16 = field(default=0, since=1, ignorable=True)
    replica_election_results: list[ReplicaElectionResult]
