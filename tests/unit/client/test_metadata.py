"""The image of a cluster, and the topics that a client requests."""

from __future__ import annotations

from uuid import UUID

from odradek.client.metadata.cluster_image import NO_LEADER
from odradek.model.errors import ErrorCode
from odradek.model.node import Node
from odradek.model.topics import TopicPartition
from unit.client.metadata_responses import IDLE_MS, NEWEST, ORDERS, Knowing, response, topic


def test_a_response_becomes_the_image() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 5), (2, 6)))
    image = knowing.metadata.image
    assert image.version == 1
    assert image.nodes == {1: Node(1, "broker1", 9092), 2: Node(2, "broker2", 9092)}
    assert [image.leader("orders", number) for number in (0, 1, 2)] == [1, 2, NO_LEADER]
    assert image.leader_epoch("orders", 1) == 6
    assert image.topic_names == {ORDERS: "orders"}
    assert image.partitions(["orders", "unknown"]) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    ]
    assert image.partition_count("orders") == 2


def test_a_leader_without_a_known_address_is_no_leader() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (9, 1)))
    assert knowing.metadata.image.leader("orders", 0) == NO_LEADER


def test_an_image_does_not_change_after_an_update() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 1)))
    before = knowing.metadata.image
    knowing.learn(topic("orders", (2, 2)))
    assert before.leader("orders", 0) == 1
    assert knowing.metadata.image.leader("orders", 0) == 2


def test_new_topics_are_requested_alone_and_added() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.learn(topic("orders", (1, 1)))
    knowing.metadata.add_topic("payments")
    names, token = knowing.metadata.topics_to_request()
    assert names == ["payments"]
    answer = response(topic("payments", (2, 1), topic_id=UUID(int=2)))
    knowing.metadata.updated(answer, NEWEST, token)
    assert set(knowing.metadata.image.topics) == {"orders", "payments"}
    knowing.metadata.request_update()
    assert knowing.metadata.topics_to_request()[0] == ["orders", "payments"]


def test_an_idle_topic_is_forgotten() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("orders")
    knowing.metadata.add_topic("payments")
    knowing.learn(topic("orders", (1, 1)), topic("payments", (1, 1), topic_id=UUID(int=2)))
    knowing.clock.now_ms += IDLE_MS - 1
    knowing.metadata.add_topic("orders")
    knowing.clock.now_ms += 1
    knowing.metadata.request_update()
    assert knowing.metadata.topics_to_request()[0] == ["orders"]
    knowing.learn(topic("orders", (1, 1)))
    assert set(knowing.metadata.image.topics) == {"orders"}


def test_set_topics_stay_until_others_are_set() -> None:
    knowing = Knowing()
    knowing.metadata.set_topics(["orders", "payments"])
    knowing.clock.now_ms += 10 * IDLE_MS
    knowing.metadata.request_update()
    assert knowing.metadata.topics_to_request()[0] == ["orders", "payments"]
    knowing.metadata.set_topics(["payments"])
    knowing.metadata.request_update()
    assert knowing.metadata.topics_to_request()[0] == ["payments"]


def test_topics_are_requested_in_a_fixed_order() -> None:
    """Subscriptions are sets, whose order differs between processes."""
    knowing = Knowing()
    knowing.metadata.set_topics(frozenset(f"t{number}" for number in range(9)))
    assert knowing.metadata.topics_to_request()[0] == [f"t{number}" for number in range(9)]


def test_all_topics_are_requested_without_names() -> None:
    knowing = Knowing()
    knowing.metadata.set_topics([], all_topics=True)
    assert knowing.metadata.topics_to_request()[0] is None
    knowing.learn(topic("orders", (1, 1)), topic("payments", (1, 1), topic_id=UUID(int=2)))
    assert set(knowing.metadata.image.topics) == {"orders", "payments"}


def test_with_all_topics_no_name_is_requested_as_new() -> None:
    """A response to a request for all topics would never mention one that does not exist."""
    knowing = Knowing()
    knowing.metadata.set_topics([], all_topics=True)
    knowing.learn(topic("t", (1, 1)))
    knowing.metadata.set_topics(["t", "missing"], all_topics=True)
    assert knowing.metadata.topics_of_interest.new_names() == []
    assert not knowing.metadata.update_requested


def test_no_topics_are_not_all_topics() -> None:
    assert Knowing().metadata.topics_to_request()[0] == []


def test_a_topic_with_an_error_is_in_the_image() -> None:
    knowing = Knowing()
    knowing.metadata.add_topic("secret")
    knowing.learn(topic("secret", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    info = knowing.metadata.image.topics["secret"]
    assert info.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED and info.count == 0
    assert not knowing.metadata.update_requested, "asking again will not help"
