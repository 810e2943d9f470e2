"""FetchSnapshot (key 59, versions 0 to 1): read a piece of a metadata snapshot (KIP-630).

- 1: the directory of the replica and addresses of the leader (KIP-853).
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.vote import QuorumNodeEndpoint
from odradek.protocol.schema import Records, field, i16, i32, i64, message, struct


@struct
class FetchedSnapshotId:
    """A snapshot: of the records before `end_offset`, the last of which is of `epoch`."""

    end_offset: i64
    epoch: i32


@struct
class SnapshotPartition:
    """The piece of one partition's snapshot that begins at the byte `position`."""

    partition: i32
    current_leader_epoch: i32
    snapshot_id: FetchedSnapshotId
    position: i64
    replica_directory_id: UUID = field(default=ZERO_UUID, tag=0, since=1, ignorable=True)


@struct
class SnapshotTopic:
    """One topic; only the metadata log has snapshots."""

    name: str
    partitions: list[SnapshotPartition]


@message(api=59, versions=(0, 1), flexible=0)
class FetchSnapshotRequest:
    """Reads at most `max_bytes` of snapshots."""

    cluster_id: str | None = field(default=None, tag=0)
    replica_id: i32 = -1
    max_bytes: i32 = 2**31 - 1
    topics: list[SnapshotTopic]


@struct
class SnapshotLeader:
    """The current leader."""

    leader_id: i32 = field(doc="-1 unknown.")
    leader_epoch: i32


@struct
class SnapshotPartitionResponse:
    """A piece of one partition's snapshot, which may begin and end within a batch."""

    index: i32
    error_code: i16
    snapshot_id: FetchedSnapshotId
    current_leader: SnapshotLeader | None = field(default=None, tag=0)
    size: i64 = field(default=0, doc="Of the whole snapshot, in bytes.")
    position: i64 = 0
    unaligned_records: Records


@struct
class SnapshotTopicResponse:
    """The pieces of one topic."""

    name: str
    partitions: list[SnapshotPartitionResponse]


@message(api=59, versions=(0, 1), flexible=0)
class FetchSnapshotResponse:
    """Per partition, a piece of the snapshot."""

    throttle_time_ms: i32 = 0
    error_code: i16
    topics: list[SnapshotTopicResponse] = field(factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field(factory=list, tag=0, since=1, ignorable=True)
