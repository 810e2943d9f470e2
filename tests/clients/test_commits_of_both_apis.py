"""Commits with metadata, asynchronous commits and consumer state, in both APIs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek import Consumer, TopicPartition
from odradek.client.aio.consumer import Consumer as AwaitedConsumer
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.testing.broker import Broker

LONG_S = 60.0
COUNT = 20


@pytest.fixture
def topic(broker: Broker, new_topic: Callable[..., str]) -> str:
    """A topic with records."""
    name = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(COUNT):
        producer.produce(name, b"%d" % number)
    assert producer.flush(LONG_S) == 0
    return name


def settings(broker: Broker, topic: str) -> dict[str, Any]:
    return {
        "brokers": broker.bootstrap,
        "group": f"group of {topic}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def check(found: dict[str, float], topic: str) -> None:
    """Check the state of a consumer that has read and committed everything."""
    assert found["records-consumed-total"] == COUNT
    assert found["bytes-consumed-total"] > 0
    assert found["fetch-total"] >= 1
    assert found["fetch-latency-max"] >= 0
    assert found["records-lag-max"] == found[f"{topic}-0.records-lag"] == 0
    assert found["assigned-partitions"] == 1
    assert found["commit-total"] >= 1
    assert found["failed-commit-total"] == 0
    assert found["rebalance-total"] >= 1
    assert found["last-rebalance-seconds-ago"] >= 0


def test_committed_metadata_is_returned_with_the_offsets(broker: Broker, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    at = OffsetAndMetadata(3, "up to the third", 0)
    with Consumer(topic, **settings(broker, topic)) as consumer:
        assert consumer.poll(LONG_S) is not None
        assert consumer.commit({partition: at}) == {partition: at}
        assert consumer.committed(partition) == {partition: at}


@pytest.mark.parametrize("forever", [math.inf, -1])
def test_an_infinite_timeout_is_accepted_by_every_call(
    broker: Broker, topic: str, forever: float
) -> None:
    first = TopicPartition(topic, 0)
    with Consumer(topic, **settings(broker, topic)) as consumer:
        assert consumer.poll(forever) is not None
        assert consumer.commit({first: 3}, timeout=forever) == {first: OffsetAndMetadata(3)}
        assert consumer.committed(first, timeout=forever) == {first: OffsetAndMetadata(3)}
        assert consumer.watermarks(first, timeout=forever) == (0, COUNT)
        consumer.close(forever)


def test_close_accepts_an_infinite_timeout(broker: Broker, topic: str) -> None:
    async def awaited() -> None:
        async with AwaitedConsumer(topic, **settings(broker, topic)) as consumer:
            assert await consumer.poll(math.inf) is not None
            await consumer.close(None)

    asyncio.run(awaited())
    consumer = Consumer(topic, **settings(broker, topic))
    assert consumer.poll(math.inf) is not None
    consumer.close(None)


def test_an_asynchronous_commit_returns_at_once(broker: Broker, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with Consumer(topic, **settings(broker, topic)) as consumer:
        for _ in range(5):
            assert consumer.poll(LONG_S) is not None
        assert consumer.commit(asynchronous=True) is None
        # The synchronous commit ends after the asynchronous ones, which were sent before it.
        consumer.commit({partition: OffsetAndMetadata(5, "later", 0)})
        assert consumer.metrics()["commit-total"] == 2
        assert consumer.commit({partition: 4}, asynchronous=True) is None
        deadline = monotonic() + LONG_S
        while consumer.committed(partition)[partition] != OffsetAndMetadata(4):
            assert monotonic() < deadline


def test_metrics_and_partitions_describe_what_was_consumed(broker: Broker, topic: str) -> None:
    with Consumer(topic, **settings(broker, topic)) as consumer:
        assert consumer.metrics()["records-consumed-total"] == 0
        for _ in range(COUNT):
            next(consumer)
        consumer.commit()
        check(consumer.metrics(), topic)


def test_the_asyncio_consumer_commits_metadata_and_asynchronously_too(
    broker: Broker, topic: str
) -> None:
    partition = TopicPartition(topic, 0)
    at = OffsetAndMetadata(3, "up to the third", 0)

    async def use() -> None:
        async with AwaitedConsumer(topic, **settings(broker, topic)) as consumer:
            for _ in range(COUNT):
                assert await consumer.poll(LONG_S) is not None
            assert await consumer.commit({partition: at}) == {partition: at}
            assert await consumer.committed(partition) == {partition: at}
            assert await consumer.commit(asynchronous=True) is None
            deadline = monotonic() + LONG_S
            while (await consumer.committed(partition))[partition] == at:
                assert monotonic() < deadline
            check(consumer.metrics(), topic)

    asyncio.run(use())
