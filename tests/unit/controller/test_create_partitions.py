"""CreatePartitions, with the answers of Kafka 4.3."""

from __future__ import annotations

import random

import pytest

from odradek.controller.image import MetadataImage
from odradek.controller.topics import create_partitions
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from unit.controller.cluster_making import a_topic, an_image, create, replay_all

BAD = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.fixture
def image() -> MetadataImage:
    image = an_image()
    create(image, a_topic("two", 2, 1), a_topic("one", 1, 1))
    return image


def asked(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    given = None
    if assignments is not None:
        given = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


def add(
    image: MetadataImage, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> list[tuple[str, int]]:
    request = CreatePartitionsRequest(
        topics=list(topics), timeout_ms=1, validate_only=validate_only
    )
    decision = create_partitions(image, request, random.Random(1))
    replay_all(image, decision.records)
    return [(result.name, result.error_code) for result in decision.response.results]


def test_new_partitions_follow_the_existing_ones(image: MetadataImage) -> None:
    assert add(image, asked("two", 4)) == [("two", 0)]
    topic = image.topic("two")
    assert topic is not None
    assert list(topic.partitions) == [0, 1, 2, 3]
    assert topic.partitions[3].leader == 1


def test_validate_only_changes_nothing(image: MetadataImage) -> None:
    assert add(image, asked("two", 4), validate_only=True) == [("two", 0)]
    assert image.partition_count() == 3


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (asked("two", 2), ErrorCode.INVALID_PARTITIONS),
        (asked("two", 1), ErrorCode.INVALID_PARTITIONS),
        (asked("two", 0), ErrorCode.INVALID_PARTITIONS),
        (asked("two", -1), ErrorCode.INVALID_PARTITIONS),
        (asked("nope", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (asked("", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (asked("two", 3, [[1]]), ErrorCode.NONE),
        (asked("two", 3, [[1], [1]]), BAD),
        (asked("two", 4, [[1]]), BAD),
        (asked("two", 3, []), BAD),
        (asked("two", 3, [[2]]), BAD),
        (asked("two", 3, [[1, 1]]), BAD),
        (asked("two", 3, [[]]), BAD),
        (asked("one", 1, [[1]]), ErrorCode.INVALID_PARTITIONS),
        (asked("two", 10_002), ErrorCode.NONE),
        (asked("two", 10_003), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_each_request_has_kafkas_answer(
    image: MetadataImage, topic: CreatePartitionsTopic, error: ErrorCode
) -> None:
    assert add(image, topic) == [(topic.name, error)]


def test_a_topic_that_is_there_twice_is_answered_once_and_unchanged(image: MetadataImage) -> None:
    assert add(image, asked("two", 3), asked("two", 4), asked("one", 2)) == [
        ("two", ErrorCode.INVALID_REQUEST),
        ("one", ErrorCode.NONE),
    ]
    assert image.partition_count() == 4
