"""Values that the protocol cannot carry: the call raises, and the client goes on.

Unpaired surrogates (a character to Python, not encodable in UTF-8), names that are too long,
numbers that are too wide; in both APIs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, aio
from odradek.client.errors import (
    ConfigError,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    SerializationError,
)
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker

HALF, LONG, WIDE = "half\udc80", "x" * 32_768, 2**63
HALF_TOLD, LONG_TOLD, WIDE_TOLD = r"half\udc80", "32768", "at most 64 bits"
ODD, ENDLESS = TopicPartition(HALF, 0), TopicPartition(LONG, 0)

Refused = tuple[Callable[[Any], Any], type[Exception], str]
"""A call, its error, and a part of the error's message."""

PRODUCING: dict[str, Refused] = {
    "topic": (lambda p: p.send(HALF, b"v"), InvalidTopic, HALF_TOLD),
    "topic of many": (lambda p: p.send_many(HALF, [b"v"]), InvalidTopic, HALF_TOLD),
    "topic asked about": (lambda p: p.partitions_for(HALF), InvalidTopic, HALF_TOLD),
    "key": (lambda p: p.send("t", b"v", key=HALF), SerializationError, r"\udc80"),
    "value": (lambda p: p.send("t", HALF), SerializationError, r"\udc80"),
    "name of a header": (
        lambda p: p.send("t", b"v", headers={HALF: b"v"}),
        SerializationError,
        HALF_TOLD,
    ),
    "header": (lambda p: p.send("t", b"v", headers={"h": HALF}), SerializationError, HALF_TOLD),
    "long topic": (lambda p: p.send(LONG, b"v"), InvalidTopic, LONG_TOLD),
    "long topic asked about": (lambda p: p.partitions_for(LONG), InvalidTopic, LONG_TOLD),
}
CONSUMING: dict[str, Refused] = {
    "topic": (lambda c: c.subscribe(HALF), InvalidTopic, HALF_TOLD),
    "one topic of two": (lambda c: c.subscribe(["t", HALF]), InvalidTopic, HALF_TOLD),
    "partition": (lambda c: c.assign([ODD]), InvalidTopic, HALF_TOLD),
    "topic asked about": (lambda c: c.partitions_for(HALF), InvalidTopic, HALF_TOLD),
    "committed": (lambda c: c.commit({ODD: 1}), InvalidTopic, HALF_TOLD),
    "asked for what is committed": (lambda c: c.committed([ODD]), InvalidTopic, HALF_TOLD),
    "long topic": (lambda c: c.subscribe(LONG), InvalidTopic, LONG_TOLD),
    "partition of a long topic": (lambda c: c.assign([ENDLESS]), InvalidTopic, LONG_TOLD),
    "wide offset": (
        lambda c: c.commit({TopicPartition("t", 0): WIDE}),
        InvalidRequest,
        WIDE_TOLD,
    ),
}
ADMINISTERING: dict[str, Refused] = {
    "topic": (lambda a: a.topic(HALF), InvalidRequest, HALF_TOLD),
    "new topic": (lambda a: a.create_topic(HALF), InvalidRequest, HALF_TOLD),
    "setting": (lambda a: a.create_topic("new", config={HALF: "1"}), InvalidRequest, HALF_TOLD),
    "deleted": (lambda a: a.delete_topic(HALF), InvalidRequest, HALF_TOLD),
    "records": (lambda a: a.delete_records({ODD: 1}), KafkaError, HALF_TOLD),
    "group": (lambda a: a.group(HALF), InvalidRequest, HALF_TOLD),
    "offsets of a group": (lambda a: a.group_offsets(HALF), InvalidRequest, HALF_TOLD),
    "deleted group": (lambda a: a.delete_group(HALF), InvalidRequest, HALF_TOLD),
    "long topic": (lambda a: a.topic(LONG), InvalidRequest, LONG_TOLD),
    "new long topic": (lambda a: a.create_topic(LONG), InvalidRequest, LONG_TOLD),
    "wide number of partitions": (
        lambda a: a.create_topic("new", partitions=WIDE),
        InvalidRequest,
        WIDE_TOLD,
    ),
    "number of partitions with a fraction": (
        lambda a: a.create_topic("new", partitions=1.5),
        InvalidRequest,
        "whole numbers",
    ),
    "value of a setting that is no text": (
        lambda a: a.create_topics_many([NewTopic("new", config={"retention.ms": 5})]),  # type: ignore[dict-item]
        InvalidRequest,
        "as text",
    ),
    "name of a setting that is no text": (
        lambda a: a.set_config({b"retention.ms": 5}, broker=1),
        InvalidRequest,
        "as text",
    ),
    "note that is no text": (
        lambda a: a.alter_group_offsets("g", {("t", 0): OffsetAndMetadata(1, b"note")}),  # type: ignore[arg-type]
        InvalidRequest,
        "as text",
    ),
    "long group": (lambda a: a.group(LONG), InvalidRequest, LONG_TOLD),
    "deleted long group": (lambda a: a.delete_group(LONG), InvalidRequest, LONG_TOLD),
}


def check(client: object, refused: Refused) -> None:
    call, kind, told = refused
    with pytest.raises(kind) as caught:
        call(client)
    assert told in str(caught.value) and "What to do" in str(caught.value)


@pytest.mark.parametrize("what", PRODUCING)
def test_a_producer_refuses_values_the_protocol_cannot_carry(
    broker: Broker, new_topic: Callable[..., str], what: str
) -> None:
    topic = new_topic()
    with Producer(brokers=broker.bootstrap) as producer:
        check(producer, PRODUCING[what])
        assert producer.send(topic, b"v").result(60).offset == 0


@pytest.mark.parametrize("what", CONSUMING)
def test_a_consumer_refuses_values_the_protocol_cannot_carry(
    broker: Broker, new_topic: Callable[..., str], what: str
) -> None:
    topic = new_topic()
    with Consumer(brokers=broker.bootstrap, group="g") as consumer:
        check(consumer, CONSUMING[what])
        assert consumer.partitions_for(topic) == [0]


@pytest.mark.parametrize("what", ADMINISTERING)
def test_an_admin_client_refuses_values_the_protocol_cannot_carry(
    broker: Broker, what: str
) -> None:
    with Admin(brokers=broker.bootstrap) as admin:
        check(admin, ADMINISTERING[what])
        assert {HALF, LONG, "new"}.isdisjoint(topic.name for topic in admin.topics())


@pytest.mark.parametrize("make", [Producer, Consumer, Admin, aio.Producer, aio.Consumer, aio.Admin])
@pytest.mark.parametrize("setting", ["client.id", "bootstrap.servers"])
def test_settings_that_are_not_valid_text_are_refused(make: Any, setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        make({"bootstrap.servers": "localhost:1", setting: HALF})


@pytest.mark.parametrize("setting", ["group.id", "group.instance.id"])
def test_group_settings_that_are_not_valid_text_are_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        Consumer({"bootstrap.servers": "localhost:1", "group.id": "g", setting: HALF})


def test_asyncio_clients_refuse_values_the_protocol_cannot_carry(broker: Broker) -> None:
    async def calls() -> None:
        async with aio.Producer(brokers=broker.bootstrap) as producer:
            for call, kind, _ in PRODUCING.values():
                with pytest.raises(kind):
                    await call(producer)
        async with aio.Consumer(brokers=broker.bootstrap, group="g") as consumer:
            for call, kind, _ in CONSUMING.values():
                with pytest.raises(kind):
                    await call(consumer)
        async with aio.Admin(brokers=broker.bootstrap) as admin:
            for call, kind, _ in ADMINISTERING.values():
                with pytest.raises(kind):
                    await call(admin)

    asyncio.run(asyncio.wait_for(calls(), 120))
