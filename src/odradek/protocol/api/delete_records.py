"""DeleteRecords"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class DeleteRecordsPartition:
    """Each partition that we want to delete records from."""

    partition_index: i32
    offset: i64


@struct
class DeleteRecordsTopic:
    """Each topic that we want to delete records from."""

    name: str
    partitions: list[DeleteRecordsPartition]


@message(api=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    """"""

    topics: list[DeleteRecordsTopic]
    timeout_ms: i32


@struct
class DeleteRecordsPartitionResult:
    """Each partition that we wanted to delete records from."""

    partition_index: i32
    low_watermark: i64
    error_code: i16


@struct
class DeleteRecordsTopicResult:
    """Each topic that we wanted to delete records from."""

    name: str
    partitions: list[DeleteRecordsPartitionResult]


@message(api=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    topics: list[DeleteRecordsTopicResult]
