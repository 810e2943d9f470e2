"""OffsetCommit: v2-10. See `coordinator.group.offset_commit`.

Partitions that do not exist are refused here with UNKNOWN_TOPIC_OR_PARTITION, topics of an unknown
id (version 10) with UNKNOWN_TOPIC_ID. The others are passed on to the group, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | CallbackResponse:
    by_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    builder = ResponseBuilder()
    existing_topics = []
    for topic in request.topics:
        existing = _existing(broker, topic, by_id, builder)
        if existing is not None:
            existing_topics.append(existing)
    if not existing_topics:
        return OffsetCommitResponse(topics=builder.topics)
    request.topics = existing_topics

    def respond(response: OffsetCommitResponse) -> None:
        for topic in response.topics:
            builder.add(topic, topic.partitions)
        context.respond(OffsetCommitResponse(topics=builder.topics))

    broker.groups.commit_offsets(request, context.version, respond)
    return CALLBACK_RESPONSE


def _existing(
    broker: Broker, topic: OffsetCommitRequestTopic, by_id: bool, builder: ResponseBuilder
) -> OffsetCommitRequestTopic | None:
    """The topic by name with its existing partitions; the others are added to the response."""
    image = broker.image
    found = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
    if found is None:
        unknown_id = ErrorCode.UNKNOWN_TOPIC_ID
        error = unknown_id if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        builder.refuse(topic, [p.partition_index for p in topic.partitions], error)
        return None
    topic.name, topic.topic_id = found.name, found.id
    missing = [
        p.partition_index for p in topic.partitions if p.partition_index not in found.partitions
    ]
    if missing:
        builder.refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic.partitions = [p for p in topic.partitions if p.partition_index in found.partitions]
    return topic if topic.partitions else None


class ResponseBuilder:
    """Builds the topics of a response, each once, from several results."""

    def __init__(self) -> None:
        self.topics: list[OffsetCommitResponseTopic] = []
        self._known: dict[tuple[str, UUID], OffsetCommitResponseTopic] = {}

    def refuse(
        self, topic: OffsetCommitRequestTopic, indexes: Iterable[int], error: ErrorCode
    ) -> None:
        """Add an error for some partitions."""
        self.add(
            topic,
            [
                OffsetCommitResponsePartition(partition_index=index, error_code=error)
                for index in indexes
            ],
        )

    def add(
        self,
        topic: OffsetCommitRequestTopic | OffsetCommitResponseTopic,
        partitions: Iterable[OffsetCommitResponsePartition],
    ) -> None:
        """Add the results of partitions."""
        key = topic.name, topic.topic_id
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=[]
            )
            self.topics.append(known)
        known.partitions.extend(partitions)
