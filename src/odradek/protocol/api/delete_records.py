"""DeleteRecords (key 21, versions 0 to 2): delete the records below an offset (KIP-107).

- 2: flexible.
"""

from __future__ import annotations

from odradek.protocol.schema import i16, i32, i64, message, struct


@struct
class DeleteRecordsPartition:
    """One partition and the offset below which to delete; -1 for the high watermark."""

    partition_index: i32
    offset: i64


@struct
class DeleteRecordsTopic:
    """One topic."""

    name: str
    partitions: list[DeleteRecordsPartition]


@message(api=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    """Raise the log start offsets of partitions."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: i32


@struct
class DeleteRecordsPartitionResult:
    """One partition."""

    partition_index: i32
    low_watermark: i64
    error_code: i16


@struct
class DeleteRecordsTopicResult:
    """One topic."""

    name: str
    partitions: list[DeleteRecordsPartitionResult]


@message(api=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse:
    """Per partition, its new low watermark: the lowest log start offset of its replicas."""

    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult]
