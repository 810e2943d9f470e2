"""OffsetCommit (key 8, versions 2 to 10): store the committed offsets of a group.

- 2 is the floor. 3: throttle time. 5: no retention time per commit.
- 6: leader epochs (KIP-320). 7: static members (KIP-345). 8: flexible.
- 9: groups of the protocol of KIP-848, whose members have epochs.
- 10: topics by id instead of by name.
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class OffsetCommitRequestPartition:
    """The offset to commit for one partition: that of the next record to read."""

    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = field(default=-1, since=6, ignorable=True)
    committed_metadata: str | None


@struct
class OffsetCommitRequestTopic:
    """One topic: by name up to version 9, by id from 10."""

    name: str = field(default="", until=9, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=10, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@message(api=8, versions=(2, 10), flexible=8)
class OffsetCommitRequest:
    """Commit offsets, as a member or (generation -1, no member id) without membership."""

    group_id: str
    generation_id_or_member_epoch: i32 = -1
    member_id: str = ""
    group_instance_id: str | None = field(default=None, since=7)
    retention_time_ms: i64 = field(
        default=-1, until=4, ignorable=True, doc="-1: the broker's setting."
    )
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    """The error of one partition, or none."""

    partition_index: i32
    error_code: i16


@struct
class OffsetCommitResponseTopic:
    """One topic."""

    name: str = field(default="", until=9, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


@message(api=8, versions=(2, 10), flexible=8)
class OffsetCommitResponse:
    """Per partition, the error or none."""

    throttle_time_ms: i32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
