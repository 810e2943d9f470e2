"""Produce"""

from __future__ import annotations

from uuid import UUID

from odradek.model.ids import ZERO_UUID
from odradek.protocol.schema import Records, field, i16, i32, i64, message, struct


@struct
class PartitionProduceData:
    """Each partition to produce to."""

    index: i32
    records: Records | None


@struct
class TopicProduceData:
    """Each topic to produce to."""

    name: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partition_data: list[PartitionProduceData]


@message(api=0, versions=(3, 13), flexible=9)
class ProduceRequest:
    """"""

    transactional_id: str | None = field(default=None)
    acks: i16
    timeout_ms: i32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    """The batch indices of records that caused the batch to be dropped."""

    batch_index: i32
    batch_index_error_message: str | None = field(default=None)


@struct
class LeaderIdAndEpoch:
    """The leader broker that the producer should use for future requests."""

    leader_id: i32 = field(default=-1)
    leader_epoch: i32 = field(default=-1)


@struct
class PartitionProduceResponse:
    """Each partition that we produced to within the topic."""

    index: i32
    error_code: i16
    base_offset: i64
    log_append_time_ms: i64 = field(default=-1)
    log_start_offset: i64 = field(default=-1, since=5, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(factory=list, since=8, ignorable=True)
    error_message: str | None = field(default=None, since=8, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field(default=None, tag=0, since=10)


@struct
class TopicProduceResponse:
    """Each produce response."""

    name: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    """Endpoints for all current-leaders enumerated in PartitionProduceResponses, with errors NOT_LEADER_OR_FOLLOWER."""

    node_id: i32
    host: str
    port: i32
    rack: str | None = field(default=None)


@message(api=0, versions=(3, 13), flexible=9)
class ProduceResponse:
    """"""

    responses: list[TopicProduceResponse]
    throttle_time_ms: i32 = field(default=0)
    node_endpoints: list[NodeEndpoint] = field(factory=list, tag=0, since=10)
