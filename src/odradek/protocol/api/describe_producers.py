"""DescribeProducers (key 61, version 0): the producers with state in a partition (KIP-664)."""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, i64, message, struct


@struct
class TopicRequest:
    """One topic."""

    name: str
    partition_indexes: list[i32]


@message(api=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    """Requests the producer state of partitions."""

    topics: list[TopicRequest]


@struct
class ProducerState:
    """One producer."""

    producer_id: i64
    producer_epoch: i32
    last_sequence: i32 = -1
    last_timestamp: i64 = -1
    coordinator_epoch: i32
    current_txn_start_offset: i64 = field(default=-1, doc="-1 for no open transaction.")


@struct
class PartitionResponse:
    """One partition."""

    partition_index: i32
    error_code: i16
    error_message: str | None = None
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    """One topic."""

    name: str
    partitions: list[PartitionResponse]


@message(api=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse:
    """Per partition, its active producers."""

    throttle_time_ms: i32 = 0
    topics: list[TopicResponse]
