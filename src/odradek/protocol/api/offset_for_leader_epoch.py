"""OffsetForLeaderEpoch (key 23, versions 2 to 4): the end offset of a leader epoch in the log.

- 3: `replica_id`. 4: flexible.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class OffsetForLeaderPartition:
    """One partition and the requested epoch."""

    partition: i32
    current_leader_epoch: i32 = field(default=-1, doc="-1 unknown: not checked.")
    leader_epoch: i32


@struct
class OffsetForLeaderTopic:
    """One topic."""

    topic: str
    partitions: list[OffsetForLeaderPartition]


@message(api=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    """Requests the end offsets of leader epochs."""

    replica_id: i32 = field(default=-2, since=3, ignorable=True, doc="-1 consumer, -2 debugging.")
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    """The largest epoch not above the requested one, and its end offset; -1 for none."""

    error_code: i16
    partition: i32
    leader_epoch: i32 = -1
    end_offset: i64 = -1


@struct
class OffsetForLeaderTopicResult:
    """One topic."""

    topic: str
    partitions: list[EpochEndOffset]


@message(api=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse:
    """Per partition, the end offset of the requested epoch."""

    throttle_time_ms: i32 = 0
    topics: list[OffsetForLeaderTopicResult]
