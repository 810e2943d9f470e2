"""Fetch (key 1, versions 4 to 18): read record batches, and wait if there are none.

- 4 is the floor: isolation level, aborted transactions. 5: log start offsets.
- 7: incremental fetch sessions (KIP-227). 9: `current_leader_epoch` for fencing (KIP-320).
- 10: zstd. 11: fetching from the nearest replica (KIP-392).
- 12: flexible; divergence found while fetching (KIP-595).
- 13: topics by id, not by name (KIP-516). 14: OFFSET_MOVED_TO_TIERED_STORAGE.
- 15: `replica_state` in place of `replica_id` (KIP-903). 16: addresses of new leaders (KIP-951).
- 17: the follower's directory (KIP-853). 18: the follower's high watermark (KIP-1166).
- From 12 on Odradek's followers tell the durable end of a partition, a tagged field of its own.

`hot_fetch` defines the classes of the messages; this module declares their wire form.
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.hot_fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.schema import Records, field, i8, i16, i32, i64, message, struct, wire_form

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ReplicaState",
    "SnapshotId",
]


@wire_form(ReplicaState)
@struct
class ReplicaStateForm:
    """The id and epoch of a follower; consumers send none."""

    replica_id: i32 = -1
    replica_epoch: i64 = -1


@wire_form(FetchPartition)
@struct
class FetchPartitionForm:
    """One partition and the offset to read from."""

    partition: i32
    current_leader_epoch: i32 = field(
        default=-1, since=9, ignorable=True, doc="-1 unknown: not checked."
    )
    fetch_offset: i64
    last_fetched_epoch: i32 = field(default=-1, since=12, doc="-1 for consumers.")
    log_start_offset: i64 = field(default=-1, since=5, ignorable=True)
    partition_max_bytes: i32
    replica_directory_id: UUID = field(default=ZERO_UUID, tag=0, since=17, ignorable=True)
    high_watermark: i64 = field(
        default=2**63 - 1,
        tag=1,
        since=18,
        ignorable=True,
        doc="-1 unknown; the default where the follower does not send it.",
    )
    durable_end: i64 = field(
        default=-1,
        tag=100,
        since=12,
        ignorable=True,
        doc="Odradek's own: the follower's log is on disk up to here; -1 where it is not sent.",
    )


@wire_form(FetchTopic)
@struct
class FetchTopicForm:
    """One topic: by name up to version 12, by id from 13."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[FetchPartition]


@wire_form(ForgottenTopic)
@struct
class ForgottenTopicForm:
    """Partitions that leave the session."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[i32]


@wire_form(FetchRequest)
@message(api=1, versions=(4, 18), flexible=12)
class FetchRequestForm:
    """Reads partitions from offsets, within a fetch session or without one."""

    cluster_id: str | None = field(
        default=None,
        tag=0,
        since=12,
        ignorable=True,
        doc="Sent by brokers that are not registered yet.",
    )
    replica_id: i32 = field(
        default=-1, until=14, doc="-1 for consumers; from 15 see `replica_state`."
    )
    replica_state: ReplicaState | None = field(default=None, tag=1, since=15)
    max_wait_ms: i32 = field(doc="How long to wait for `min_bytes`.")
    min_bytes: i32
    max_bytes: i32 = field(
        default=2**31 - 1, doc="A first batch larger than this is returned nevertheless (KIP-74)."
    )
    isolation_level: i8 = field(default=0, doc="0 read_uncommitted, 1 read_committed.")
    session_id: i32 = field(default=0, since=7, ignorable=True, doc="0 for none or a new one.")
    session_epoch: i32 = field(
        default=-1,
        since=7,
        ignorable=True,
        doc="-1 no session, 0 a new one, else the next in the session.",
    )
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(factory=list, since=7)
    rack_id: str = field(default="", since=11, ignorable=True)


@struct
class EpochEndOffset:
    """The largest epoch that the follower's log shares with the leader's, and its end."""

    epoch: i32 = -1
    end_offset: i64 = -1


@struct
class LeaderIdAndEpoch:
    """The current leader, if known."""

    leader_id: i32 = -1
    leader_epoch: i32 = -1


@struct
class SnapshotId:
    """The snapshot to fetch instead, if the log begins after the fetch offset."""

    end_offset: i64 = -1
    epoch: i32 = -1


@struct
class AbortedTransaction:
    """A producer's records from this offset up to its abort marker are aborted."""

    producer_id: i64
    first_offset: i64


@wire_form(PartitionData)
@struct
class PartitionDataForm:
    """The offsets and batches of one partition."""

    partition_index: i32
    error_code: i16
    high_watermark: i64
    last_stable_offset: i64 = -1
    log_start_offset: i64 = field(default=-1, since=5, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field(default=None, tag=0, since=12)
    current_leader: LeaderIdAndEpoch | None = field(default=None, tag=1, since=12)
    snapshot_id: SnapshotId | None = field(default=None, tag=2, since=12)
    aborted_transactions: list[AbortedTransaction] | None = field(doc="Null for read_uncommitted.")
    preferred_read_replica: i32 = field(default=-1, since=11, doc="-1 for none.")
    records: Records | None


@wire_form(FetchableTopicResponse)
@struct
class FetchableTopicResponseForm:
    """The partitions of one topic, named as in the request."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    """The address of a leader named in this response."""

    node_id: i32
    host: str
    port: i32
    rack: str | None = None


@wire_form(FetchResponse)
@message(api=1, versions=(4, 18), flexible=12)
class FetchResponseForm:
    """Per partition, its offsets and the batches that were read."""

    throttle_time_ms: i32 = 0
    error_code: i16 = field(default=0, since=7, ignorable=True)
    session_id: i32 = field(default=0, since=7, doc="0 for none.")
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(factory=list, tag=0, since=16)
