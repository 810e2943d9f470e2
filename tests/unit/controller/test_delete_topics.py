"""DeleteTopics by name and by id, with the answers of Kafka 4.3."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.controller.image import MetadataImage
from odradek.controller.topics import delete_topics
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from unit.controller.cluster_making import a_topic, an_image, create, replay_all

Asked = tuple[str | None, UUID]
Answer = tuple[str | None, UUID, int]
UNKNOWN = UUID(int=77)


@pytest.fixture
def image() -> MetadataImage:
    image = an_image()
    create(image, a_topic("one", configs={"retention.ms": "1"}), a_topic("two"))
    return image


def delete(image: MetadataImage, *asked: Asked, enabled: bool = True) -> list[Answer]:
    states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in asked]
    request = DeleteTopicsRequest(topics=states, timeout_ms=1)
    decision = delete_topics(image, request, 6, enabled=enabled)
    replay_all(image, decision.records)
    return [(item.name, item.topic_id, item.error_code) for item in decision.response.responses]


def delete_names(
    image: MetadataImage, version: int, *names: str, enabled: bool = True
) -> list[int]:
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=1)
    decision = delete_topics(image, request, version, enabled=enabled)
    replay_all(image, decision.records)
    return [item.error_code for item in decision.response.responses]


def id_of(image: MetadataImage, name: str) -> UUID:
    topic = image.topic(name)
    assert topic is not None
    return topic.id


def test_topics_are_deleted_by_name_and_by_id_with_both_in_the_answer(image: MetadataImage) -> None:
    one, two = id_of(image, "one"), id_of(image, "two")
    assert delete(image, ("one", ZERO_UUID), (None, two)) == [("one", one, 0), ("two", two, 0)]
    assert not image.topics
    assert not image.topics_by_id
    assert image.topic_config("one") == {}


@pytest.mark.parametrize("version", [1, 5])
def test_topics_are_deleted_by_name_in_older_versions(image: MetadataImage, version: int) -> None:
    assert delete_names(image, version, "one", "nope") == [0, 3]


def test_unknown_topics_are_refused(image: MetadataImage) -> None:
    assert delete(image, ("nope", ZERO_UUID), (None, UNKNOWN), ("", ZERO_UUID)) == [
        ("nope", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID),
        ("", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_topic_with_both_name_and_id_or_neither_is_refused(
    image: MetadataImage,
) -> None:
    one = id_of(image, "one")
    assert delete(image, ("one", one), (None, ZERO_UUID)) == [
        ("one", one, ErrorCode.INVALID_REQUEST),
        (None, ZERO_UUID, ErrorCode.INVALID_REQUEST),
    ]


def test_a_topic_that_is_there_twice_is_answered_once_and_not_deleted(image: MetadataImage) -> None:
    one, invalid = id_of(image, "one"), ErrorCode.INVALID_REQUEST
    by_name, by_id = ("one", ZERO_UUID), (None, one)
    assert delete(image, by_name, by_name) == [("one", ZERO_UUID, invalid)]
    assert delete(image, by_id, by_id) == [(None, one, invalid)]
    assert delete(image, by_name, by_id) == [("one", one, invalid)]
    assert "one" in image.topics


def test_with_delete_topic_enable_false_all_topics_are_refused(image: MetadataImage) -> None:
    assert delete_names(image, 2, "one", enabled=False) == [ErrorCode.INVALID_REQUEST]
    assert delete_names(image, 3, "one", enabled=False) == [ErrorCode.TOPIC_DELETION_DISABLED]
    assert "one" in image.topics


def test_a_deleted_name_can_be_created_again_with_another_id(image: MetadataImage) -> None:
    before = id_of(image, "one")
    delete(image, ("one", ZERO_UUID))
    create(image, a_topic("filler"), a_topic("one"))
    assert id_of(image, "one") != before
    assert image.topic_config("one") == {}
