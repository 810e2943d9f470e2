"""DescribeProducers: v0. The idempotent producers with state in a partition (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.leader_hints import error_if_missing
from odradek.model.errors import ErrorCode
from odradek.model.topics import name_problem
from odradek.protocol.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[producers_of(broker, topic.name, i) for i in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def producers_of(broker: Broker, topic: str, index: int) -> PartitionResponse:
    problem = name_problem(topic)
    if problem is not None:
        return failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if broker.image.topic(topic) is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return failed(index, unknown, unknown.text)
    partition = broker.replicas.by_name.get((topic, index))
    if partition is None:
        error = error_if_missing(broker, topic, index)
    else:
        error = partition.availability()
    if partition is None or error:
        return failed(index, error, None)
    return PartitionResponse(
        partition_index=index,
        error_code=0,
        active_producers=[
            ProducerState(
                producer_id=active.producer_id,
                producer_epoch=active.producer_epoch,
                last_sequence=active.last_sequence,
                last_timestamp=active.last_timestamp,
                coordinator_epoch=active.coordinator_epoch,
                current_txn_start_offset=active.current_txn_start_offset,
            )
            for active in partition.log.producers.active_producers()
        ],
    )


def failed(index: int, error: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index, error_code=error, error_message=message, active_producers=[]
    )
