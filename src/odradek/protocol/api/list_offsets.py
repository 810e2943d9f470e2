"""ListOffsets (key 2, versions 1 to 11): the offset for a timestamp, or for a special one.

    -1 latest   -2 earliest   -3 offset of the largest timestamp (7)   -4 earliest local (8)
    -5 latest tiered (9)   -6 earliest pending upload (11)

- 2: isolation level. 4: leader epochs (KIP-320). 5: OFFSET_NOT_AVAILABLE. 6: flexible.
- 7 to 9 and 11: the special timestamps above. 10: a timeout, for reads from tiered storage.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, i64, message, struct


@struct
class ListOffsetsPartition:
    """One partition and the timestamp to look up."""

    partition_index: i32
    current_leader_epoch: i32 = field(default=-1, since=4, ignorable=True)
    timestamp: i64 = field(doc="Milliseconds, or a special one (above).")


@struct
class ListOffsetsTopic:
    """One topic."""

    name: str
    partitions: list[ListOffsetsPartition]


@message(api=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest:
    """Look offsets up by timestamp."""

    replica_id: i32 = field(doc="-1 for consumers, -2 for debugging.")
    isolation_level: i8 = field(default=0, since=2, doc="0 read_uncommitted, 1 read_committed.")
    topics: list[ListOffsetsTopic]
    timeout_ms: i32 = field(default=0, since=10, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    """The offset found in one partition."""

    partition_index: i32
    error_code: i16
    timestamp: i64 = -1
    offset: i64 = -1
    leader_epoch: i32 = field(default=-1, since=4)


@struct
class ListOffsetsTopicResponse:
    """One topic."""

    name: str
    partitions: list[ListOffsetsPartitionResponse]


@message(api=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse:
    """Per partition, the offset found; -1 for none."""

    throttle_time_ms: i32 = field(default=0, since=2, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
