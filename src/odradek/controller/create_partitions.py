"""Adding partitions to topics that exist."""

from __future__ import annotations

from collections import Counter

from odradek.controller.assignments import check_replicas, new_partition
from odradek.controller.create_topics import check_factor
from odradek.controller.decision import MAX_RECORDS_PER_DECISION, Decision, Refused
from odradek.controller.image import MetadataImage
from odradek.controller.placement import place
from odradek.controller.registrations import TopicImage
from odradek.model.env import Random
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    image: MetadataImage, request: CreatePartitionsRequest, random: Random
) -> Decision[CreatePartitionsResponse]:
    """Records for the new partitions, and an answer for each topic that was named."""
    counts = Counter(topic.name for topic in request.topics)
    records: list[object] = []
    results = [
        _result(name, Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    ]
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        try:
            added = _add(image, topic, random, MAX_RECORDS_PER_DECISION - len(records))
        except Refused as refused:
            results.append(_result(topic.name, refused))
        else:
            records += added
            results.append(_result(topic.name, None))
    return Decision(
        [] if request.validate_only else records, CreatePartitionsResponse(results=results)
    )


def _result(name: str, refused: Refused | None) -> CreatePartitionsTopicResult:
    if refused is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(
        name=name, error_code=refused.error, error_message=refused.message
    )


def _add(
    image: MetadataImage, asked: CreatePartitionsTopic, random: Random, room: int
) -> list[object]:
    topic = image.topic(asked.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    present = len(topic.partitions)
    if asked.count == present:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if asked.count < present:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {present} partition(s); "
            f"{asked.count} would not be an increase.",
        )
    extra = asked.count - present
    if extra > room:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"A request may add {MAX_RECORDS_PER_DECISION} partitions at most.",
        )
    return [
        new_partition(image, replicas).record(topic.id, present + number)
        for number, replicas in enumerate(_replicas(image, topic, asked, extra, random))
    ]


def _replicas(
    image: MetadataImage,
    topic: TopicImage,
    asked: CreatePartitionsTopic,
    extra: int,
    random: Random,
) -> list[tuple[int, ...]]:
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        check_factor(image, factor)
        return place(image.brokers.values(), extra, factor, random)
    if len(asked.assignments) != extra:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {extra} additional partition(s), but {len(asked.assignments)} "
            "assignment(s) were specified.",
        )
    for assignment in asked.assignments:
        check_replicas(image, assignment.broker_ids, factor)
    return [tuple(assignment.broker_ids) for assignment in asked.assignments]
