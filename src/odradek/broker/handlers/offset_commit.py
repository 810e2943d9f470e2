"""OffsetCommit: v2-10. See `coordinator.group.offset_commit`.

Partitions that do not exist are refused here, with UNKNOWN_TOPIC_OR_PARTITION, topics by an unknown
id (version 10) with UNKNOWN_TOPIC_ID; the group is asked about the others, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.broker.context import LATER, Later
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
) -> OffsetCommitResponse | Later:
    by_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    answer = Answer()
    wanted = []
    for topic in request.topics:
        existing = _existing(broker, topic, by_id, answer)
        if existing is not None:
            wanted.append(existing)
    if not wanted:
        return OffsetCommitResponse(topics=answer.topics)
    request.topics = wanted

    def respond(response: OffsetCommitResponse) -> None:
        for topic in response.topics:
            answer.add(topic, topic.partitions)
        context.respond(OffsetCommitResponse(topics=answer.topics))

    broker.groups.commit_offsets(request, context.version, respond)
    return LATER


def _existing(
    broker: Broker, topic: OffsetCommitRequestTopic, by_id: bool, answer: Answer
) -> OffsetCommitRequestTopic | None:
    """The topic, under its name, with the partitions that there are; the others are answered."""
    image = broker.image
    found = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
    if found is None:
        unknown_id = ErrorCode.UNKNOWN_TOPIC_ID
        error = unknown_id if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.refuse(topic, [p.partition_index for p in topic.partitions], error)
        return None
    topic.name, topic.topic_id = found.name, found.id
    missing = [
        p.partition_index for p in topic.partitions if p.partition_index not in found.partitions
    ]
    if missing:
        answer.refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic.partitions = [p for p in topic.partitions if p.partition_index in found.partitions]
    return topic if topic.partitions else None


class Answer:
    """The topics of a response, each once, whoever answered its partitions."""

    def __init__(self) -> None:
        self.topics: list[OffsetCommitResponseTopic] = []
        self._known: dict[tuple[str, UUID], OffsetCommitResponseTopic] = {}

    def refuse(
        self, topic: OffsetCommitRequestTopic, indexes: Iterable[int], error: ErrorCode
    ) -> None:
        """An error for some partitions."""
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
        """Partitions that were answered."""
        key = topic.name, topic.topic_id
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=[]
            )
            self.topics.append(known)
        known.partitions.extend(partitions)
