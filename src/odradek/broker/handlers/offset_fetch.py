"""OffsetFetch: v1-10. See `coordinator.group.offsets`.

Up to version 7 for one group, whose error is at the top from version 2 on and in each partition
before; from 8 for several. Version 10 names topics by id: an unknown one is UNKNOWN_TOPIC_ID. In
the response for all offsets of a group, topics without an id are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.coordinator.group.offsets import partition_response
from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_SEVERAL = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> CallbackResponse:
    version = context.version
    groups = request.groups if version >= FIRST_VERSION_WITH_SEVERAL else [single_group(request)]
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    unknown = [resolve_topic_ids(broker, group) if by_id else [] for group in groups]

    def respond(found: list[OffsetFetchResponseGroup]) -> None:
        for group, refused in zip(found, unknown, strict=True):
            if by_id:
                set_topic_ids(broker, group)
            if group.error_code == ErrorCode.NONE:
                group.topics.extend(refused)
        if version >= FIRST_VERSION_WITH_SEVERAL:
            context.respond(OffsetFetchResponse(groups=found))
        else:
            context.respond(single_response(found[0], groups[0], version))

    broker.groups.fetch_offsets(groups, request.require_stable, respond)
    return CALLBACK_RESPONSE


def single_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The group of a request below version 8, in the form of later versions."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def resolve_topic_ids(
    broker: Broker, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Set the names of a request's topics. Return the responses for those of an unknown id."""
    refused: list[OffsetFetchResponseTopics] = []
    if group.topics is None:
        return refused
    known = []
    for topic in group.topics:
        found = broker.image.topic_by_id(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
            continue
        error = ErrorCode.UNKNOWN_TOPIC_ID
        refused.append(
            OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                partitions=[
                    partition_response(number, None, error) for number in topic.partition_indexes
                ],
            )
        )
    group.topics = known
    return refused


def set_topic_ids(broker: Broker, group: OffsetFetchResponseGroup) -> None:
    """Set the ids of a response's topics; those without an id are left out."""
    known = []
    for topic in group.topics:
        found = broker.image.topic(topic.name)
        if found is not None:
            topic.topic_id = found.id
            known.append(topic)
    group.topics = known


def single_response(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    """The response below version 8, for one group."""
    error = ErrorCode(group.error_code)
    topics = group.topics
    if error is not ErrorCode.NONE and version < FIRST_VERSION_WITH_GROUP_ERROR:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    partition_response(number, None, error) for number in topic.partition_indexes
                ],
            )
            for topic in asked.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
