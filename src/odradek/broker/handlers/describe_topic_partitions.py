"""DescribeTopicPartitions: v0. Topics in the order of their names, a page at a time (KIP-966).

No topic names mean all topics. A page ends after `response_partition_limit` partitions, at least 1
and at most `max.request.partition.size.limit`; its cursor is where the next page begins. Topics
before the request's cursor are left out. A cursor at a negative partition is INVALID_REQUEST for
every topic of the request. A partition without leader is no error here, unlike in Metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.acl_operations import TOPIC_OPERATIONS
from odradek.controller.image import MetadataImage, PartitionRegistration, TopicImage
from odradek.model.errors import ErrorCode
from odradek.model.topics import INTERNAL_TOPICS, ZERO_UUID, name_problem
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
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    asked = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (asked and first not in asked)):
        return invalid(request)
    names = sorted(name for name in asked or broker.image.topics if name >= first)
    return page(broker, request, names, cursor)


def page(
    broker: Broker, request: DescribeTopicPartitionsRequest, names: list[str], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    """The next partitions of these topics, up to the limit of one response."""
    most = broker.config.max_request_partition_size_limit
    room = max(1, min(request.response_partition_limit, most))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = broker.image.topic(name)
        if topic is None:
            if request.topics:
                response.topics.append(topic_error(name))
            continue
        at_cursor = cursor is not None and name == cursor.topic_name
        begin = cursor.partition_index if cursor is not None and at_cursor else 0
        end = max(begin, min(len(topic.partitions), begin + room))
        last = min(end, len(topic.partitions))
        response.topics.append(topic_response(broker.image, topic, begin, last))
        room -= end - begin
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def invalid(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The response to a cursor that is not in one of the requested topics."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=topic.name,
                topic_id=ZERO_UUID,
                partitions=[],
            )
            for topic in request.topics
        ]
    )


def topic_error(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_problem(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def topic_response(
    image: MetadataImage, topic: TopicImage, begin: int, end: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[row(image, number, topic.partitions[number]) for number in range(begin, end)],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def row(
    image: MetadataImage, number: int, partition: PartitionRegistration
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=image.offline_replicas(partition),
    )
