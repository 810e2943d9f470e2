"""DescribeTopicPartitions: v0. Topics in the order of their names, a page at a time (KIP-966).

No topic named means all. A page ends after `response_partition_limit` partitions, at least 1 and at
most `max.request.partition.size.limit`; its cursor says where the next one begins. Topics before
the request's cursor are left out; a cursor at a negative partition is INVALID_REQUEST for every
topic named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.operations import ON_TOPIC
from odradek.controller.registrations import PartitionRegistration, TopicImage
from odradek.controller.topic_names import INTERNAL_TOPICS, name_problem
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_UUID
from odradek.protocol.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = broker.image
    limit = min(request.response_partition_limit, broker.config.max_request_partition_size_limit)
    limit = max(limit, 1)
    first = request.cursor.topic_name if request.cursor is not None else ""
    start = request.cursor.partition_index if request.cursor is not None else 0
    if start < 0:
        return refused(request)
    names = sorted({topic.name for topic in request.topics} or image.topics)
    answer = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if name < first:
            continue
        topic = image.topic(name)
        if topic is None:
            if request.topics:
                answer.topics.append(missing(name))
            continue
        begin = min(start, len(topic.partitions)) if name == first else 0
        if limit <= 0:
            answer.next_cursor = Cursor(topic_name=name, partition_index=begin)
            break
        end = min(len(topic.partitions), begin + limit)
        answer.topics.append(described(topic, begin, end))
        limit -= end - begin
        if end < len(topic.partitions):
            answer.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return answer


def refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=topic.name,
                topic_id=ZERO_UUID,
                is_internal=False,
                partitions=[],
            )
            for topic in request.topics
        ]
    )


def missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_problem(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=ON_TOPIC,
    )


def described(topic: TopicImage, begin: int, end: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[row(number, topic.partitions[number]) for number in range(begin, end)],
        topic_authorized_operations=ON_TOPIC,
    )


def row(number: int, partition: PartitionRegistration) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=0 if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[],
    )
