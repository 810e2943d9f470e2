"""Metadata: v0-13. Brokers, topics, partitions and their leaders.

Which topics: in version 0 an empty list means all, from version 1 on null does. Requests by topic
id (KIP-516) are possible from version 12; versions 10 and 11 have the field, but a request that
uses it is INVALID_REQUEST. In a request with ids, topics with only a name are left out.

A topic that does not exist is created if the request allows it (always, before version 4) and the
setting `auto.create.topics.enable` does. As in Kafka the response is UNKNOWN_TOPIC_OR_PARTITION,
and the client finds the topic in its next request.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.broker.acl_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from odradek.controller.image import MetadataImage, TopicImage
from odradek.controller.topics import MAX_TOPICS_PER_REQUEST
from odradek.model.errors import ErrorCode
from odradek.model.topics import INTERNAL_TOPICS, ZERO_UUID, name_problem
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

log = logging.getLogger(__name__)

FIRST_VERSION_BY_ID = 12
NAMES_PER_SLICE = 500


def handle(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    asked = request.topics or []
    if context.version < FIRST_VERSION_BY_ID and any(by_id(topic) for topic in asked):
        return refused(asked)
    topics = found_topics(broker, context.version, request)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in broker.alive_brokers()
        ],
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )


def found_topics(
    broker: Broker, version: int, request: MetadataRequest
) -> list[MetadataResponseTopic]:
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
    asked = request.topics or []
    if asks_for_all(version, request):
        return [
            topic_response(broker.image, topic, operations)
            for topic in broker.image.topics.values()
        ]
    if any(topic.topic_id != ZERO_UUID for topic in asked):
        asked = [topic for topic in asked if topic.topic_id != ZERO_UUID]
    found: dict[str | UUID, MetadataResponseTopic] = {}
    unknown: list[str] = []
    for topic in asked:
        key: str | UUID = topic.topic_id if topic.name is None else topic.name
        if key not in found:
            found[key] = find(broker, topic, operations, unknown)
    if unknown and request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
        broker.auto_create_topics(unknown)
    return list(found.values())


def asks_for_all(version: int, request: MetadataRequest) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def naming_all(
    image: MetadataImage, version: int, request: MetadataRequest
) -> MetadataRequest | None:
    """Return a request for all topics as one that names each of them; None if it is another one.

    One that is deleted before its part is handled is answered as unknown.
    """
    if not asks_for_all(version, request):
        return None
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in image.topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=request.include_cluster_authorized_operations,
        include_topic_authorized_operations=request.include_topic_authorized_operations,
    )


def within_creation_limit(
    broker: Broker, request: MetadataRequest
) -> Generator[None, None, MetadataRequest]:
    """Return a long request, read in slices: as it is, or, if it names more new topics than one
    request may create, as one that creates none. Each of its parts is below that limit.
    """
    topics = request.topics or []
    allowed = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
    if not allowed or len(topics) <= MAX_TOPICS_PER_REQUEST:
        return request
    first, new = "", 0
    for number, topic in enumerate(topics, 1):
        if topic.name is not None and broker.image.topic(topic.name) is None:
            first = first or topic.name
            new += 1
        if number % NAMES_PER_SLICE == 0:
            yield
    if new <= MAX_TOPICS_PER_REQUEST:
        return request
    log.warning(
        "%d topics were not created; the first, %s: a Metadata request creates %d at most",
        new,
        first,
        MAX_TOPICS_PER_REQUEST,
    )
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=request.include_cluster_authorized_operations,
        include_topic_authorized_operations=request.include_topic_authorized_operations,
    )


def refused(asked: list[MetadataRequestTopic]) -> MetadataResponse:
    """The response to topic ids in a version that must not use them: without the cluster."""
    invalid = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        brokers=[], topics=[topic_error(t.name or "", t.topic_id, invalid) for t in asked]
    )


def by_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def find(
    broker: Broker, asked: MetadataRequestTopic, operations: int, unknown: list[str]
) -> MetadataResponseTopic:
    """The response for one topic; adds its name to `unknown` if it can be created."""
    if asked.name is None or asked.topic_id != ZERO_UUID:
        topic = broker.image.topic_by_id(asked.topic_id)
        if topic is None:
            return topic_error(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return topic_response(broker.image, topic, operations)
    topic = broker.image.topic(asked.name)
    if topic is not None:
        return topic_response(broker.image, topic, operations)
    if name_problem(asked.name) is not None:
        return topic_error(asked.name, ZERO_UUID, ErrorCode.INVALID_TOPIC_EXCEPTION, operations)
    unknown.append(asked.name)
    return topic_error(asked.name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, operations)


def topic_error(
    name: str | None, topic_id: UUID, error: ErrorCode, operations: int = NOT_REQUESTED
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=operations,
    )


def topic_response(
    image: MetadataImage, topic: TopicImage, operations: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                error_code=0 if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=image.offline_replicas(partition),
            )
            for number, partition in topic.partitions.items()
        ],
        topic_authorized_operations=operations,
    )
