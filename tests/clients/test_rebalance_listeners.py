"""Our consumers in groups at our broker: calls, actions and errors of rebalance listeners."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import odradek.aio
from clients.group_readers import COOPERATIVE, EAGER, PATIENCE_S, NewTopic, Reader, consumer, until
from odradek import Consumer, Producer
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker

Calls = list[tuple[str, list[int]]]


def produce(broker: Broker, topic: str, count: int) -> None:
    with Producer(brokers=broker.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


def offsets(member: Consumer[bytes, bytes], count: int) -> list[int]:
    """Return the offsets of the next records, one by one."""
    records = [member.poll(PATIENCE_S) for _ in range(count)]
    return [record.offset for record in records if record is not None]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (
            EAGER,
            [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0]), ("revoked", [0])],
        ),
        (
            COOPERATIVE,
            [
                ("assigned", [0, 1]),
                ("revoked", [1]),
                ("assigned", []),
                ("assigned", []),
                ("revoked", [0]),
            ],
        ),
    ],
)
def test_the_listener_is_called_as_in_java(
    broker: Broker, new_topic: NewTopic, strategy: str, expected: Calls
) -> None:
    topic = new_topic(2)
    settings = {"partition.assignment.strategy": strategy}
    first = Reader(consumer(broker, topic, group_instance_id="a", **settings), topic)
    first.start()
    until(lambda: len(first.owned) == 2, "the first member has all")
    second = Reader(consumer(broker, topic, group_instance_id="b", **settings), topic)
    second.start()
    until(lambda: len(second.owned) == 1, "the second member has its share")
    until(lambda: first.calls == expected[:-1], f"calls up to the end: {expected}")
    first.end()
    second.end()
    assert first.calls == expected


def test_offsets_are_committed_in_the_listener_and_found_by_the_next_owner(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 10)
    settings = {"enable.auto.commit": False}
    with consumer(broker, topic, **settings) as member:
        committed = []

        def commit(member: Any, partitions: list[TopicPartition]) -> None:
            committed.append(member.commit(timeout=PATIENCE_S))

        member.subscribe([topic], on_revoke=commit)
        assert offsets(member, 7) == list(range(7))
    assert [at.offset for kept in committed for at in kept.values()] == [7]
    with consumer(broker, topic, **settings) as member:
        member.subscribe([topic])
        assert offsets(member, 3) == [7, 8, 9]


def test_listeners_of_asyncio_consumers_may_await_a_commit(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 5)
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    told: list[str] = []

    async def assigned(_: Any, partitions: list[TopicPartition]) -> None:
        told.append("assigned")

    async def revoked(member: Any, partitions: list[TopicPartition]) -> None:
        await member.commit(timeout=PATIENCE_S)
        told.append("revoked")

    async def read(count: int) -> list[int]:
        async with odradek.aio.Consumer(settings) as member:
            await member.subscribe([topic], on_assign=assigned, on_revoke=revoked)
            records = [await member.poll(PATIENCE_S) for _ in range(count)]
            return [record.offset for record in records if record is not None]

    assert asyncio.run(read(3)) == [0, 1, 2]
    assert asyncio.run(read(2)) == [3, 4]
    assert told == ["assigned", "revoked"] * 2


def test_a_listeners_error_is_raised_by_the_poll_and_the_consumer_goes_on(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 3)

    def complain(_: Any, partitions: list[TopicPartition]) -> None:
        if partitions:
            raise LookupError("no table for this partition")

    with consumer(broker, topic) as member:
        member.subscribe([topic], on_assign=complain)
        with pytest.raises(LookupError, match="no table"):
            member.poll(PATIENCE_S)
        assert offsets(member, 3) == [0, 1, 2]


class CtrlC(BaseException):
    """Stands for KeyboardInterrupt, which would end the test run."""


def test_ctrl_c_in_a_listener_is_raised_once_and_the_consumer_goes_on(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 3)
    calls: list[list[TopicPartition]] = []

    def interrupted(_: Any, partitions: list[TopicPartition]) -> None:
        calls.append(partitions)
        raise CtrlC

    with consumer(broker, topic) as member:
        member.subscribe([topic], on_assign=interrupted)
        with pytest.raises(CtrlC):
            member.poll(PATIENCE_S)
        assert offsets(member, 3) == [0, 1, 2]
    assert calls == [[TopicPartition(topic, 0)]]
