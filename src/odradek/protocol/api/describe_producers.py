"""DescribeProducers"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class TopicRequest:
    """The topics to list producers for."""

    name: str
    partition_indexes: list[i32]


@message(api=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    """"""

    topics: list[TopicRequest]


@struct
class ProducerState:
    """The active producers for the partition."""

    producer_id: i64
    producer_epoch: i32
    last_sequence: i32 = field(default=-1)
    last_timestamp: i64 = field(default=-1)
    coordinator_epoch: i32
    current_txn_start_offset: i64 = field(default=-1)


@struct
class PartitionResponse:
    """Each partition in the response."""

    partition_index: i32
    error_code: i16
    error_message: str | None = field(default=None)
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    """Each topic in the response."""

    name: str
    partitions: list[PartitionResponse]


@message(api=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    topics: list[TopicResponse]
