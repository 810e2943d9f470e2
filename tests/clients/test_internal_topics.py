"""`exclude.internal.topics`: patterns match internal topics only if it is false.

For a member of a group and for a consumer without one.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from clients.group_readers import NewTopic, consumer, until
from odradek import Consumer
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker

OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("settings", "internal"),
    [
        ({}, False),
        ({"exclude_internal_topics": True}, False),
        ({"exclude_internal_topics": False}, True),
    ],
)
def test_a_pattern_matches_internal_topics_only_if_they_are_not_excluded(
    broker: Broker, new_topic: NewTopic, alone: bool, settings: dict[str, Any], internal: bool
) -> None:
    topic = new_topic(1)
    with consumer(broker, topic) as other:  # The first commit creates the topic of offsets.
        other.commit({TopicPartition(topic, 0): 0})
    reader = (
        Consumer(brokers=broker.bootstrap, **settings)
        if alone
        else consumer(broker, f"{topic}-of-patterns", **settings)
    )
    with reader:
        # Topics of other tests exist as well.
        reader.subscribe(re.compile(f"{topic}|{OFFSETS}"))

        def topics() -> set[str]:
            reader.poll(0.05)
            return {partition.topic for partition in reader.assignment()}

        until(lambda: bool(topics()), "it has something")
        assert topics() == ({topic, OFFSETS} if internal else {topic})
