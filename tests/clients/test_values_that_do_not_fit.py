"""Names and numbers that the protocol has no room for: whoever gives one is told so by the call
that did, and the client goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek import Admin, Consumer, Producer
from odradek.client.errors import InvalidRequest, InvalidTopic
from odradek.model.ids import TopicPartition
from odradek.testing.broker import Broker

LONG = "x" * 32_768
WIDE = 2**63

PRODUCING: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "topic": (lambda p: p.send(LONG, b"v"), InvalidTopic),
    "topic asked about": (lambda p: p.partitions_for(LONG), InvalidTopic),
}
CONSUMING: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "topic": (lambda c: c.subscribe(LONG), InvalidTopic),
    "partition of a topic": (lambda c: c.assign([TopicPartition(LONG, 0)]), InvalidTopic),
    "offset": (lambda c: c.commit({TopicPartition("t", 0): WIDE}), InvalidRequest),
}
ADMINISTERING: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "topic": (lambda a: a.topic(LONG), InvalidRequest),
    "new topic": (lambda a: a.create_topic(LONG), InvalidRequest),
    "number of partitions": (lambda a: a.create_topic("new", partitions=WIDE), InvalidRequest),
    "group": (lambda a: a.group(LONG), InvalidRequest),
    "deleted group": (lambda a: a.delete_group(LONG), InvalidRequest),
}


@pytest.mark.parametrize("what", PRODUCING)
def test_a_producer_says_so(broker: Broker, new_topic: Callable[..., str], what: str) -> None:
    call, kind = PRODUCING[what]
    topic = new_topic()
    with Producer(brokers=broker.bootstrap) as producer:
        with pytest.raises(kind, match="What to do"):
            call(producer)
        assert producer.send(topic, b"v").result(60).offset == 0


@pytest.mark.parametrize("what", CONSUMING)
def test_a_consumer_says_so(broker: Broker, new_topic: Callable[..., str], what: str) -> None:
    call, kind = CONSUMING[what]
    topic = new_topic()
    with Consumer(brokers=broker.bootstrap, group="g") as consumer:
        with pytest.raises(kind, match="What to do"):
            call(consumer)
        assert consumer.partitions_for(topic) == [0]


@pytest.mark.parametrize("what", ADMINISTERING)
def test_an_admin_says_so(broker: Broker, what: str) -> None:
    call, kind = ADMINISTERING[what]
    with Admin(brokers=broker.bootstrap) as admin:
        with pytest.raises(kind, match="What to do"):
            call(admin)
        assert "new" not in [topic.name for topic in admin.topics()]
