"""What a blocked event loop does to a group member in `odradek.aio`, as the API page says it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

import odradek.aio
from odradek import Admin, Consumer, Producer
from odradek.errors import CommitFailed
from odradek.testing import Broker

LONG_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group.min.session.timeout.ms": 100, "group.initial.rebalance.delay.ms": 0}
    with Broker(settings=settings) as running:
        yield running


def written(broker: Broker, topic: str, count: int) -> None:
    with Admin(brokers=broker.bootstrap) as admin:
        admin.create_topic(topic)
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(count)]).result(LONG_S)


def settings(broker: Broker, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 2_000,
        "heartbeat.interval.ms": 100,
    }


def taken_by_another(broker: Broker, topic: str) -> int:
    """Join the group, read its first record, and leave; return the record's offset."""
    with Consumer({**settings(broker, topic), "session.timeout.ms": 60_000}) as other:
        other.subscribe(topic)
        record = other.poll(LONG_S)
        assert record is not None
        return record.offset


def test_a_loop_blocked_beyond_the_session_timeout_loses_its_partitions(broker: Broker) -> None:
    written(broker, "blocked", 3)
    told: list[str] = []

    async def main() -> None:
        async with odradek.aio.Consumer(settings(broker, "blocked")) as consumer:
            await consumer.subscribe(
                "blocked",
                on_assign=lambda _, partitions: told.append("assigned"),
                on_revoke=lambda _, partitions: told.append("revoked"),
                on_lost=lambda _, partitions: told.append("lost"),
            )
            record = await consumer.poll(LONG_S)
            assert record is not None and record.offset == 0
            # The other one gets the partition only when this member's session has ended.
            assert taken_by_another(broker, "blocked") == 0
            with pytest.raises(CommitFailed):
                await consumer.commit(record)
            assert told == ["assigned"]
            again = await consumer.poll(LONG_S)
            assert again is not None and again.offset == 0
            assert told == ["assigned", "lost", "assigned"]
            await consumer.commit(again)

    asyncio.run(main())


def test_blocking_work_in_a_thread_keeps_the_membership(broker: Broker) -> None:
    written(broker, "in-a-thread", 1)
    told: list[str] = []

    async def main() -> None:
        async with odradek.aio.Consumer(settings(broker, "in-a-thread")) as consumer:
            await consumer.subscribe(
                "in-a-thread", on_lost=lambda _, partitions: told.append("lost")
            )
            record = await consumer.poll(LONG_S)
            assert record is not None
            await asyncio.to_thread(time.sleep, 2.5)
            await consumer.commit(record)

    asyncio.run(main())
    assert told == []
