"""OffsetDelete: v0. See `coordinator.group.offset_deletion`.

Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; the others are passed on to the group.
An error of the group is the whole response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> CallbackResponse:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    existing_topics = []
    for topic in request.topics:
        found = broker.image.topic(topic.name)
        numbers = {} if found is None else found.partitions
        existing = [each for each in topic.partitions if each.partition_index in numbers]
        missing = [
            OffsetDeleteResponsePartition(
                partition_index=each.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for each in topic.partitions
            if each.partition_index not in numbers
        ]
        if missing:
            add(topics, topic.name, missing)
        if existing:
            existing_topics.append(OffsetDeleteRequestTopic(name=topic.name, partitions=existing))
    request.topics = existing_topics

    def respond(response: OffsetDeleteResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            context.respond(response)
            return
        for answered in response.topics:
            add(topics, answered.name, answered.partitions)
        context.respond(
            OffsetDeleteResponse(error_code=response.error_code, topics=list(topics.values()))
        )

    broker.groups.delete_offsets(request, respond)
    return CALLBACK_RESPONSE


def add(
    topics: dict[str, OffsetDeleteResponseTopic],
    name: str,
    partitions: list[OffsetDeleteResponsePartition],
) -> None:
    """Add the results of partitions to their topic."""
    known = topics.get(name)
    if known is None:
        topics[name] = OffsetDeleteResponseTopic(name=name, partitions=partitions)
    else:
        known.partitions = [*known.partitions, *partitions]
