"""Half a surrogate pair is a character to Python and none to UTF-8: whoever uses one in a name is
told so by the call that used it, in both faces, and the client goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek import Admin, Consumer, Producer, aio
from odradek.client.errors import (
    ConfigError,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    SerializationError,
)
from odradek.model.ids import TopicPartition
from odradek.testing.broker import Broker

NAME = "half\udc80"
SHOWN = r"half\udc80"
PARTITION = TopicPartition(NAME, 0)

PRODUCING: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "topic": (lambda p: p.send(NAME, b"v"), InvalidTopic),
    "topic of many": (lambda p: p.send_many(NAME, [b"v"]), InvalidTopic),
    "topic asked about": (lambda p: p.partitions_for(NAME), InvalidTopic),
    "key": (lambda p: p.send("t", b"v", key=NAME), SerializationError),
    "value": (lambda p: p.send("t", NAME), SerializationError),
    "name of a header": (lambda p: p.send("t", b"v", headers={NAME: b"v"}), SerializationError),
    "header": (lambda p: p.send("t", b"v", headers={"h": NAME}), SerializationError),
}
CONSUMING: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "topic": (lambda c: c.subscribe(NAME), InvalidTopic),
    "one topic of two": (lambda c: c.subscribe(["t", NAME]), InvalidTopic),
    "partition": (lambda c: c.assign([PARTITION]), InvalidTopic),
    "topic asked about": (lambda c: c.partitions_for(NAME), InvalidTopic),
    "committed": (lambda c: c.commit({PARTITION: 1}), InvalidTopic),
    "asked for what is committed": (lambda c: c.committed([PARTITION]), InvalidTopic),
}
ADMINISTERING: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "topic": (lambda a: a.topic(NAME), InvalidRequest),
    "new topic": (lambda a: a.create_topic(NAME), InvalidRequest),
    "setting": (lambda a: a.create_topic("new", config={NAME: "1"}), InvalidRequest),
    "deleted": (lambda a: a.delete_topic(NAME), InvalidRequest),
    "records": (lambda a: a.delete_records({PARTITION: 1}), KafkaError),
    "group": (lambda a: a.group(NAME), InvalidRequest),
    "offsets of a group": (lambda a: a.group_offsets(NAME), InvalidRequest),
    "deleted group": (lambda a: a.delete_group(NAME), InvalidRequest),
}


@pytest.mark.parametrize("what", PRODUCING)
def test_a_producer_says_so(broker: Broker, new_topic: Callable[..., str], what: str) -> None:
    call, kind = PRODUCING[what]
    topic = new_topic()
    with Producer(brokers=broker.bootstrap) as producer:
        with pytest.raises(kind) as told:
            call(producer)
        assert "udc80" in str(told.value) and "What to do" in str(told.value)
        assert producer.send(topic, b"v").result(60).offset == 0


@pytest.mark.parametrize("what", CONSUMING)
def test_a_consumer_says_so(broker: Broker, new_topic: Callable[..., str], what: str) -> None:
    call, kind = CONSUMING[what]
    topic = new_topic()
    with Consumer(brokers=broker.bootstrap, group="g") as consumer:
        with pytest.raises(kind) as told:
            call(consumer)
        assert SHOWN in str(told.value)
        assert consumer.partitions_for(topic) == [0]


@pytest.mark.parametrize("what", ADMINISTERING)
def test_an_admin_says_so(broker: Broker, what: str) -> None:
    call, kind = ADMINISTERING[what]
    with Admin(brokers=broker.bootstrap) as admin:
        with pytest.raises(kind) as told:
            call(admin)
        assert SHOWN in str(told.value) and "What to do" in str(told.value)
        assert NAME not in [topic.name for topic in admin.topics()]


@pytest.mark.parametrize("make", [Producer, Consumer, Admin, aio.Producer, aio.Consumer, aio.Admin])
@pytest.mark.parametrize("setting", ["client.id", "bootstrap.servers"])
def test_settings_are_text(make: Any, setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        make({"bootstrap.servers": "localhost:1", setting: NAME})


@pytest.mark.parametrize("setting", ["group.id", "group.instance.id"])
def test_settings_of_groups_are_text(setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        Consumer({"bootstrap.servers": "localhost:1", "group.id": "g", setting: NAME})


def test_asyncio_says_the_same(broker: Broker) -> None:
    async def calls() -> None:
        async with aio.Producer(brokers=broker.bootstrap) as producer:
            for call, kind in PRODUCING.values():
                with pytest.raises(kind):
                    await call(producer)
        async with aio.Consumer(brokers=broker.bootstrap, group="g") as consumer:
            for call, kind in CONSUMING.values():
                with pytest.raises(kind):
                    await call(consumer)
        async with aio.Admin(brokers=broker.bootstrap) as admin:
            for call, kind in ADMINISTERING.values():
                with pytest.raises(kind):
                    await call(admin)

    asyncio.run(asyncio.wait_for(calls(), 120))
