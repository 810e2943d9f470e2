"""The asyncio consumer against our broker."""

from __future__ import annotations

import asyncio
import threading

import pytest

from clients.consumer.written import A_BATCH, LONG_S, NewTopic, Produce
from odradek.client.aio.consumer import Consumer as AwaitedConsumer
from odradek.client.errors import ClientClosed
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker


class TestAwaited:
    def test_poll_consume_and_iteration_return_all_records(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, *[b"%d" % n for n in range(10)])

        async def read() -> list[object]:
            found: list[object] = []
            async with AwaitedConsumer(brokers=broker.bootstrap, value=int) as consumer:
                await consumer.assign({(topic, 0): (0, 10)})
                record = await consumer.poll(LONG_S)
                assert record is not None
                found.append(record.value)
                found += [record.value for record in await consumer.consume(3, LONG_S)]
                async for record in consumer:
                    found.append(record.value)
                await consumer.seek((topic, 0), 8)
                async for batch in consumer.batches(max_wait=LONG_S):
                    found += [record.value for record in batch]
                await consumer.seek((topic, 0), 9)
                async for columns in consumer.arrow(max_wait=LONG_S):
                    found += columns["value"].to_pylist()
                assert await consumer.position((topic, 0)) == 10
            return found

        assert asyncio.run(read()) == [*range(10), 8, 9, b"9"]

    def test_more_records_than_the_prefetch_limit_are_all_read(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, values = new_topic(), [b"%05d" % n * 20 for n in range(300)]
        for start in range(0, 300, 100):
            produce(topic, *values[start : start + 100])

        async def read() -> list[bytes | None]:
            async with AwaitedConsumer(
                brokers=broker.bootstrap, prefetch_max_bytes=A_BATCH
            ) as consumer:
                await consumer.assign({(topic, 0): (0, 300)})
                return [record.value async for record in consumer]

        assert asyncio.run(asyncio.wait_for(read(), LONG_S)) == values

    @pytest.mark.parametrize("call", ["poll", "consume"])
    def test_a_poll_without_a_timeout_yields_to_other_tasks(
        self, broker: Broker, call: str
    ) -> None:
        async def ask() -> None:
            async with AwaitedConsumer(brokers=broker.bootstrap) as consumer:
                other = asyncio.create_task(asyncio.sleep(0))
                for _ in range(3):
                    assert not await (
                        consumer.poll() if call == "poll" else consumer.consume(1, timeout=0)
                    )
                assert other.done()

        asyncio.run(ask())

    def test_a_cancelled_poll_loses_no_record(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic, found, cancelled = new_topic(), list[int](), 0
        produce(topic, *[b"x"] * 1000)

        async def read() -> None:
            nonlocal cancelled
            async with AwaitedConsumer(brokers=broker.bootstrap) as consumer:
                await consumer.assign({(topic, 0): (0, 1000)})
                first = await consumer.poll(LONG_S)
                assert first is not None
                while len(found) < 999:
                    poll = asyncio.create_task(consumer.poll(LONG_S))
                    await asyncio.sleep(0)
                    if poll.cancel():
                        cancelled += 1
                        await asyncio.wait([poll])
                    elif (record := poll.result()) is None:
                        return
                    else:
                        found.append(record.offset)

        asyncio.run(read())
        assert found == [*range(1, 1000)]
        assert cancelled, "some yield to other tasks"

    def test_a_group_member_awaits_its_callbacks(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"a")
        told: list[tuple[str, list[TopicPartition]]] = []

        async def assigned(_: object, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(("assigned", partitions))

        async def read() -> None:
            async with AwaitedConsumer(
                brokers=broker.bootstrap, group=topic, auto_offset_reset="earliest"
            ) as consumer:
                await consumer.subscribe(
                    topic,
                    on_assign=assigned,
                    on_revoke=lambda _, partitions: told.append(("revoked", partitions)),
                )
                record = await consumer.poll(LONG_S)
                assert record is not None
                await consumer.commit(record)

        asyncio.run(read())
        partitions = [TopicPartition(topic, 0)]
        assert told == [("assigned", partitions), ("revoked", partitions)]

    def test_a_cancelled_consume_loses_no_record(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"a", b"b")

        async def read() -> list[object]:
            async with AwaitedConsumer(brokers=broker.bootstrap) as consumer:
                await consumer.assign({(topic, 0): 0})
                waiting = asyncio.ensure_future(consumer.consume(100, LONG_S))
                while await consumer.position((topic, 0)) < 2:
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                return [record.value for record in await consumer.consume(2, LONG_S)]

        assert asyncio.run(read()) == [b"a", b"b"]

    def test_a_cancelled_close_can_be_awaited_again(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"a")

        async def use() -> None:
            consumer = AwaitedConsumer(
                topic, brokers=broker.bootstrap, group=topic, auto_offset_reset="earliest"
            )
            await consumer.start()
            assert await consumer.poll(LONG_S) is not None
            closing = asyncio.ensure_future(consumer.close())
            await asyncio.sleep(0)
            assert not closing.done(), "it leaves the group"
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await consumer.close()
            with pytest.raises(ClientClosed):
                await consumer.poll(LONG_S)

        before = threading.enumerate()
        asyncio.run(use())
        left = [thread.name for thread in threading.enumerate() if thread not in before]
        assert not any(name.startswith("odradek-consumer") for name in left)

    def test_a_consumer_that_was_not_started_raises(self) -> None:
        async def use() -> None:
            await AwaitedConsumer("t", brokers="127.0.0.1:1").poll()

        with pytest.raises(ClientClosed, match="start"):
            asyncio.run(use())
