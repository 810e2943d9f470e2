"""Names of topics and groups that are not text: the call raises, and the client goes on.

In both APIs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

import odradek
from odradek import Admin, Consumer, NewTopic, Producer, aio
from odradek.testing.broker import Broker

NAMES = (b"orders", 5, None)
"""Values given in the place of text."""

Call = Callable[[Any, Any], Any]
"""A call of a client with a name."""

PRODUCING: dict[str, Call] = {
    "topic": lambda p, name: p.send(name, b"v"),
    "topic and key": lambda p, name: p.send(name, "v", key="k"),
    "topic of many": lambda p, name: p.send_many(name, [b"v"]),
    "topic asked about": lambda p, name: p.partitions_for(name),
}
CONSUMING: dict[str, Call] = {
    "topic": lambda c, name: c.subscribe(name),
    "one topic of two": lambda c, name: c.subscribe(["t", name]),
    "topic asked about": lambda c, name: c.partitions_for(name),
    "partition": lambda c, name: c.assign([(name, 0)]),
    "partition asked about": lambda c, name: c.end_offsets([(name, 0)]),
}
ADMINISTERING: dict[str, Call] = {
    "topic": lambda a, name: a.topic(name),
    "topics": lambda a, name: a.describe_topics(["t", name]),
    "new topic": lambda a, name: a.create_topic(name),
    "new topics": lambda a, name: a.create_topics_many(["t", name]),
    "new topic with partitions": lambda a, name: a.create_topics_many([NewTopic(name, 2)]),
    "deleted": lambda a, name: a.delete_topic(name),
    "deleted topics": lambda a, name: a.delete_topics_many(["t", name]),
    "more partitions": lambda a, name: a.create_partitions(name, 3),
    "partitions": lambda a, name: a.partitions_of([name]),
    "settings": lambda a, name: a.describe_config(topic=name),
    "settings of a group": lambda a, name: a.describe_config(group=name),
    "changed settings": lambda a, name: a.set_config({"retention.ms": 1}, topic=name),
    "group": lambda a, name: a.group(name),
    "groups": lambda a, name: a.describe_groups(["g", name]),
    "deleted group": lambda a, name: a.delete_group(name),
    "deleted groups": lambda a, name: a.delete_groups_many(["g", name]),
    "offsets of a group": lambda a, name: a.group_offsets(name),
    "set offsets": lambda a, name: a.alter_group_offsets(name, {("t", 0): 1}),
    "deleted offsets": lambda a, name: a.delete_group_offsets(name, [("t", 0)]),
    "lag": lambda a, name: a.lag(name),
    "moved group": lambda a, name: a.seek_group(name, "end"),
    "topics of a moved group": lambda a, name: a.seek_group("g", "end", topics=[name]),
}
SHOWN = "|".join(re.escape(repr(name)) for name in (*NAMES, b"orders"[0]))
TOLD = rf"({SHOWN}).*(What to do: give (its name|one name, or several,) as text|give a topic and)"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", PRODUCING)
def test_a_producer_refuses_a_topic_that_is_not_text(
    broker: Broker, new_topic: Callable[..., str], what: str, name: object
) -> None:
    topic = new_topic()
    with Producer(brokers=broker.bootstrap) as producer:
        with pytest.raises(TypeError, match=TOLD):
            PRODUCING[what](producer, name)
        assert producer.send(topic, b"v").result(60).offset == 0


def test_every_way_to_produce_refuses_a_topic_that_is_not_text(broker: Broker) -> None:
    given: Any = b"orders"
    with Producer(brokers=broker.bootstrap) as producer:
        with pytest.raises(TypeError, match=TOLD):
            producer.produce(given, b"v")
        with pytest.raises(TypeError, match=TOLD):
            producer.produce_batch(given, [{"value": b"v"}])
        assert len(producer) == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", CONSUMING)
def test_a_consumer_refuses_a_topic_that_is_not_text_and_goes_on(
    broker: Broker, new_topic: Callable[..., str], what: str, name: object
) -> None:
    topic = new_topic()
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send(topic, b"v")
    with Consumer(brokers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        with pytest.raises(TypeError, match=TOLD):
            CONSUMING[what](consumer, name)
        consumer.subscribe([topic])
        assert next(consumer).value == b"v"


def test_a_pattern_of_bytes_is_refused(broker: Broker) -> None:
    pattern: Any = re.compile(b"orders.*")
    with (
        Consumer(brokers=broker.bootstrap) as consumer,
        pytest.raises(TypeError, match=r"pattern.*What to do: .*text"),
    ):
        consumer.subscribe(pattern)


def test_read_refuses_a_topic_that_is_not_text(broker: Broker) -> None:
    given: Any = b"orders"
    with pytest.raises(TypeError, match=TOLD):
        odradek.read(given, brokers=broker.bootstrap)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ADMINISTERING)
def test_an_admin_client_refuses_names_that_are_not_text(
    broker: Broker, what: str, name: object
) -> None:
    with Admin(brokers=broker.bootstrap) as admin:
        with pytest.raises(TypeError, match=TOLD):
            ADMINISTERING[what](admin, name)
        assert "t" not in [topic.name for topic in admin.topics()]


def test_asyncio_clients_refuse_names_that_are_not_text(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    given: Any = b"orders"

    async def calls() -> None:
        async with aio.Producer(brokers=broker.bootstrap) as producer:
            with pytest.raises(TypeError, match=TOLD):
                producer.send_nowait(given, b"v")
            for call in PRODUCING.values():
                with pytest.raises(TypeError, match=TOLD):
                    await call(producer, given)
            assert (await producer.send(topic, b"v")).offset == 0
        async with aio.Consumer(brokers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
            for call in CONSUMING.values():
                with pytest.raises(TypeError, match=TOLD):
                    await call(consumer, given)
            await consumer.subscribe([topic])
            found = await consumer.poll(60)
            assert found is not None and found.value == b"v"
        async with aio.Admin(brokers=broker.bootstrap) as admin:
            for call in ADMINISTERING.values():
                with pytest.raises(TypeError, match=TOLD):
                    await call(admin, given)
            assert topic in [each.name for each in await admin.topics()]

    asyncio.run(asyncio.wait_for(calls(), 120))
