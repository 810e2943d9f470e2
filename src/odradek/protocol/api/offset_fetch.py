"""OffsetFetch (key 9, versions 1 to 10): the committed offsets of a group.

- 1 is the floor. 2: null for all topics, an error for the whole group. 3: throttle time.
- 5: leader epochs (KIP-320). 6: flexible. 7: `require_stable` (KIP-447).
- 8: several groups in one request, in `groups`. 9: member id and epoch (KIP-848).
- 10: topics by id instead of by name.
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class OffsetFetchRequestTopic:
    """One topic, up to version 7."""

    name: str
    partition_indexes: list[i32]


@struct
class OffsetFetchRequestTopics:
    """One topic of a group, from version 8: by name up to 9, by id from 10."""

    name: str = field(default="", until=9, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=10, ignorable=True)
    partition_indexes: list[i32]


@struct
class OffsetFetchRequestGroup:
    """One group, from version 8; null topics for all of them."""

    group_id: str
    member_id: str | None = field(default=None, since=9, ignorable=True)
    member_epoch: i32 = field(default=-1, since=9, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None


@message(api=9, versions=(1, 10), flexible=6)
class OffsetFetchRequest:
    """Requests committed offsets."""

    group_id: str = field(default="", until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(factory=list, until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(factory=list, since=8)
    require_stable: bool = field(
        default=False, since=7, doc="Answer UNSTABLE_OFFSET_COMMIT where a transaction is open."
    )


@struct
class OffsetFetchResponsePartition:
    """One partition, up to version 7; offset -1 where nothing was committed."""

    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = field(default=-1, since=5, ignorable=True)
    metadata: str | None
    error_code: i16


@struct
class OffsetFetchResponseTopic:
    """One topic, up to version 7."""

    name: str
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponsePartitions:
    """One partition of a group, from version 8; offset -1 where nothing was committed."""

    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = -1
    metadata: str | None
    error_code: i16


@struct
class OffsetFetchResponseTopics:
    """One topic of a group, from version 8."""

    name: str = field(default="", until=9, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=10, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    """One group, from version 8."""

    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: i16 = 0


@message(api=9, versions=(1, 10), flexible=6)
class OffsetFetchResponse:
    """The offsets: at the top level up to version 7, per group from 8."""

    throttle_time_ms: i32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(factory=list, until=7)
    error_code: i16 = field(default=0, since=2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(factory=list, since=8)
