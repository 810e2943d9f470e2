"""Produce (key 0, versions 3 to 13): append record batches to partitions.

- 3 is the floor: message format v2, `transactional_id`.
- 4: the client is ready for KAFKA_STORAGE_ERROR. 5: `log_start_offset` in the response.
- 7: zstd allowed (KIP-110).
- 8: the invalid records and a message in the response (KIP-467).
- 9: flexible. 10: the current leader and its address on NOT_LEADER_OR_FOLLOWER (KIP-951).
- 11: TRANSACTION_ABORTABLE (KIP-890). 12: adds partitions to the transaction implicitly.
- 13: topics by id, not by name; UNKNOWN_TOPIC_ID (KIP-516).

`hot_produce` defines the classes of the messages; this module declares their wire form.

With `acks` 0 there is no response. Brokers advertise version 0 as the lowest and refuse 0 to 2,
because old librdkafka otherwise disables features (KAFKA-18659).
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.hot_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.schema import Records, field, i16, i32, i64, message, struct, wire_form

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]


@wire_form(PartitionProduceData)
@struct
class PartitionProduceDataForm:
    """The batches of one partition."""

    index: i32
    records: Records | None


@wire_form(TopicProduceData)
@struct
class TopicProduceDataForm:
    """One topic: by name up to version 12, by id from 13."""

    name: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partition_data: list[PartitionProduceData]


@wire_form(ProduceRequest)
@message(api=0, versions=(3, 13), flexible=9)
class ProduceRequestForm:
    """Appends record batches; the response waits for `acks`."""

    transactional_id: str | None = field(
        default=None, doc="Null unless the producer is transactional."
    )
    acks: i16 = field(doc="0 none, 1 the leader, -1 the in-sync replicas.")
    timeout_ms: i32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    """An invalid record, by its index in the batch."""

    batch_index: i32
    batch_index_error_message: str | None = None


@struct
class LeaderIdAndEpoch:
    """The current leader, if known."""

    leader_id: i32 = -1
    leader_epoch: i32 = -1


@wire_form(PartitionProduceResponse)
@struct
class PartitionProduceResponseForm:
    """The result of appending one partition's batches."""

    index: i32
    error_code: i16
    base_offset: i64
    log_append_time_ms: i64 = field(default=-1, doc="-1 where the producer sets timestamps.")
    log_start_offset: i64 = field(default=-1, since=5, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(factory=list, since=8, ignorable=True)
    error_message: str | None = field(default=None, since=8, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field(default=None, tag=0, since=10)


@wire_form(TopicProduceResponse)
@struct
class TopicProduceResponseForm:
    """The results of one topic, named as in the request."""

    name: str = field(default="", until=12, ignorable=True)
    topic_id: UUID = field(default=ZERO_UUID, since=13, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    """The address of a leader named in this response."""

    node_id: i32
    host: str
    port: i32
    rack: str | None = None


@wire_form(ProduceResponse)
@message(api=0, versions=(3, 13), flexible=9)
class ProduceResponseForm:
    """Per partition, the base offset of its batch or the error."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: i32 = 0
    node_endpoints: list[NodeEndpoint] = field(factory=list, tag=0, since=10)
