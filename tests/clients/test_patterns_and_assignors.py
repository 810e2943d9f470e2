"""Our consumers in groups at our broker: subscriptions by pattern, and custom assignors."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import pytest

from clients.group_readers import NewTopic, Reader, consumer, until
from odradek import Admin
from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
)
from odradek.client.errors import ConfigError
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import Assignment, Subscription
from odradek.testing.broker import Broker


def test_a_pattern_matches_topics_created_later(broker: Broker, new_topic: NewTopic) -> None:
    stem = new_topic(1)
    with Admin(brokers=broker.bootstrap) as admin:
        admin.create_topic(f"{stem}-one", partitions=1)
        with consumer(broker, stem, metadata_max_age_ms=200) as member:
            member.subscribe(re.compile(f"{stem}-.*"))
            owned: set[str] = set()

            def has(*names: str) -> bool:
                member.poll(0.05)
                owned.clear()
                owned.update(partition.topic for partition in member.assignment())
                return owned == {f"{stem}-{name}" for name in names}

            until(lambda: has("one"), "the topic that matches")
            admin.create_topic(f"{stem}-two", partitions=2)
            until(lambda: has("one", "two"), "the topic that came later")


def test_a_pattern_is_assigned_before_metadata_max_age(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    with consumer(broker, topic) as member:
        member.subscribe(re.compile(f"{topic}|no-such-topic"))
        until(lambda: member.poll(0.05) is None and len(member.assignment()) == 2, "it has all")


class EverythingToTheLast(PartitionAssignor):
    """A custom assignor with user data of each member for its leader."""

    name = "everything-to-the-last"

    def __init__(self, wish: bytes) -> None:
        self.wish = wish
        self.told: list[bytes | None] = []

    def subscription_user_data(self, topics: Collection[str]) -> bytes:
        return self.wish

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        wishes = {member: each.user_data or b"" for member, each in subscriptions.items()}
        last = max(wishes, key=lambda member: wishes[member])
        everything = [
            TopicPartition(t, n) for t, c in partitions_per_topic.items() for n in range(c)
        ]
        return {
            member: Assignment(everything if member == last else [], b"of " + wishes[last])
            for member in subscriptions
        }

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self.told.append(assignment.user_data)


def test_a_custom_assignor_is_used(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    first, last = EverythingToTheLast(b"a"), EverythingToTheLast(b"z")
    with consumer(broker, topic, assignors=[first]) as member:
        member.subscribe([topic])
        until(lambda: member.poll(0.05) is None and len(member.assignment()) == 3, "it has all")
        other = Reader(consumer(broker, topic, assignors=[last]), topic)
        other.start()
        until(lambda: member.poll(0.05) is None and len(other.owned) == 3, "the last one has all")
        other.end()
    assert first.told[:2] == [b"of a", b"of z"]
    assert last.told == [b"of z"]


def test_an_invalid_assignor_is_refused_at_once(broker: Broker) -> None:
    for wrong in ([], ["rnage"], [3], [EverythingToTheLast(b"a"), EverythingToTheLast(b"b")]):
        with pytest.raises(ConfigError, match="assignor"):
            consumer(broker, "g", assignors=wrong)
    with pytest.raises(ConfigError, match="not both"):
        consumer(broker, "g", assignors=["range"], partition_assignment_strategy="range")
