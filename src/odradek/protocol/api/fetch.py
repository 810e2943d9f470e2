"""Fetch"""

from __future__ import annotations

from uuid import UUID

from odradek.model.ids import ZERO_UUID
from odradek.protocol.schema import Records, field, i16, i32, i64, i8, message, struct


@struct
class ReplicaState:
    """The state of the replica in the follower."""

    replica_id: i32 = field(default=-1)
    replica_epoch: i64 = field(default=-1)


@struct
class FetchPartition:
    """The partitions to fetch."""

    partition: i32
    current_leader_epoch: i32 = field(default=-1, since=9, ignorable=True)
    fetch_offset: i64
    last_fetched_epoch: i32 = field(default=-1, since=12)
    log_start_offset: i64 = field(default=-1, since=5, ignorable=True)
    partition_max_bytes: i32
    replica_directory_id: UUID = field(default=ZERO_UUID, tag=0, since=17, ignorable=True)
    high_watermark: i64 = field(default=2**63 - 1, tag=1, since=18, ignorable=True)


@struct
class FetchTopic:
    """The topics to fetch."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    """In an incremental fetch request, the partitions to remove."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[i32]


@message(api=1, versions=(4, 18), flexible=12)
class FetchRequest:
    """"""

    cluster_id: str | None = field(default=None, tag=0, since=12, ignorable=True)
    replica_id: i32 = field(default=-1, until=14)
    replica_state: ReplicaState | None = field(default=None, tag=1, since=15)
    max_wait_ms: i32
    min_bytes: i32
    max_bytes: i32 = field(default=2**31 - 1)
    isolation_level: i8 = field(default=0)
    session_id: i32 = field(default=0, since=7, ignorable=True)
    session_epoch: i32 = field(default=-1, since=7, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(factory=list, since=7)
    rack_id: str = field(default="", since=11, ignorable=True)


@struct
class EpochEndOffset:
    """In case divergence is detected based on the `LastFetchedEpoch` and `FetchOffset` in the request, this field indicates the largest epoch and its end offset such that subsequent records are known to diverge."""

    epoch: i32 = field(default=-1)
    end_offset: i64 = field(default=-1)


@struct
class LeaderIdAndEpoch:
    """The current leader of the partition."""

    leader_id: i32 = field(default=-1)
    leader_epoch: i32 = field(default=-1)


@struct
class SnapshotId:
    """In the case of fetching an offset less than the LogStartOffset, this is the end offset and epoch that should be used in the FetchSnapshot request."""

    end_offset: i64 = field(default=-1)
    epoch: i32 = field(default=-1)


@struct
class AbortedTransaction:
    """The aborted transactions."""

    producer_id: i64
    first_offset: i64


@struct
class PartitionData:
    """The topic partitions."""

    partition_index: i32
    error_code: i16
    high_watermark: i64
    last_stable_offset: i64 = field(default=-1)
    log_start_offset: i64 = field(default=-1, since=5, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field(default=None, tag=0, since=12)
    current_leader: LeaderIdAndEpoch | None = field(default=None, tag=1, since=12)
    snapshot_id: SnapshotId | None = field(default=None, tag=2, since=12)
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: i32 = field(default=-1, since=11)
    records: Records | None


@struct
class FetchableTopicResponse:
    """The response topics."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    """Endpoints for all current-leaders enumerated in PartitionData, with errors NOT_LEADER_OR_FOLLOWER & FENCED_LEADER_EPOCH."""

    node_id: i32
    host: str
    port: i32
    rack: str | None = field(default=None)


@message(api=1, versions=(4, 18), flexible=12)
class FetchResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    error_code: i16 = field(default=0, since=7, ignorable=True)
    session_id: i32 = field(default=0, since=7)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(factory=list, tag=0, since=16)
