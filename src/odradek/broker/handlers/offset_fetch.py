"""OffsetFetch: v1-10. See `coordinator.group.offset_fetch`.

Up to version 7 for one group, whose error is at the top from version 2 on and with each partition
before; from 8 for several. Version 10 names topics by id: an unknown one is UNKNOWN_TOPIC_ID, and
of a group that is asked for all it has, topics without an id are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import LATER, Later
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


def handle(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> Later:
    version = context.version
    groups = request.groups if version >= FIRST_VERSION_WITH_SEVERAL else [only_group(request)]
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    unknown = [named(broker, group) if by_id else [] for group in groups]

    def respond(found: list[OffsetFetchResponseGroup]) -> None:
        for group, refused in zip(found, unknown, strict=True):
            if by_id:
                identify(broker, group)
            if group.error_code == ErrorCode.NONE:
                group.topics.extend(refused)
        if version >= FIRST_VERSION_WITH_SEVERAL:
            context.respond(OffsetFetchResponse(groups=found))
        else:
            context.respond(alone(found[0], groups[0], version))

    broker.groups.fetch_offsets(groups, respond)
    return LATER


def only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """What is asked for below version 8, as later versions ask for it."""
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


def named(broker: Broker, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Give the topics of a request their names; those that have none are answered here."""
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


def identify(broker: Broker, group: OffsetFetchResponseGroup) -> None:
    """Give the topics of an answer their ids; those that have none are left out."""
    known = []
    for topic in group.topics:
        found = broker.image.topic(topic.name)
        if found is not None:
            topic.topic_id = found.id
            known.append(topic)
    group.topics = known


def alone(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    """The answer below version 8, to one group."""
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
