"""The asyncio producer in programs of coroutines."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

import odradek.aio
from clients.producer.read_back import LONG_S, read
from odradek.client.errors import BufferFull, ClientClosed
from odradek.testing import Broker


def test_send_enqueue_and_flush_deliver_records(broker, topic):
    async def main() -> None:
        async with odradek.aio.Producer(brokers=broker.bootstrap, value="json") as producer:
            delivery = await producer.send(topic, {"id": 1}, partition=0)
            assert delivery.offset == 0
            futures = [await producer.enqueue(topic, n, partition=0) for n in range(50)]
            assert [(await future).offset for future in futures] == list(range(1, 51))
            later = producer.send_nowait(topic, "now", partition=0)
            assert await producer.flush() == 0
            assert later.result(0).offset == 51
            assert await producer.partitions_for(topic) == [0, 1, 2]
            many = await producer.send_many(topic, list(range(100)), partition=1)
            assert [found.records for found in await many] == [100]
            table = pa.table({"value": ["a", "b"]})
            arrow = await producer.send_arrow(topic, table, partition=2)
            assert (await arrow)[0].last_offset == 1
            assert producer.metrics()["record-send-total"] == 154

    asyncio.run(main())
    assert len(read(broker, topic, 154)) == 154


def test_leaving_the_asyncio_block_delivers(broker, topic):
    async def main() -> list:
        async with odradek.aio.Producer(brokers=broker.bootstrap, linger_ms=60_000) as producer:
            return [await producer.enqueue(topic, "x", partition=0) for _ in range(10)]

    assert [future.result(0).offset for future in asyncio.run(main())] == list(range(10))


def test_invalid_asyncio_calls_are_refused(broker, topic):
    async def main() -> None:
        producer = odradek.aio.Producer(brokers=broker.bootstrap)
        with pytest.raises(ClientClosed, match="was not started"):
            await producer.send(topic, "x")
        async with producer:
            with pytest.raises(BufferFull, match="partitions_for"):
                producer.send_nowait(topic, "x")
            future = await producer.enqueue(topic, "x")
            with pytest.raises(RuntimeError, match="await it"):
                future.result(LONG_S)
            await future
        with pytest.raises(ClientClosed):
            await producer.send(topic, "x")

    asyncio.run(main())


def test_a_cancelled_enqueue_frees_its_buffer(broker, topic):
    async def main() -> None:
        settings = {"batch_size": 1_000, "buffer_memory": 1_000}
        async with odradek.aio.Producer(brokers=broker.bootstrap, **settings) as producer:  # type: ignore[call-overload]
            waiting = asyncio.ensure_future(producer.enqueue("nowhere", "x"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await producer.send(topic, "y" * 900)

    asyncio.run(main())


def test_send_nowait_works_after_partitions_for(broker, topic):
    async def main() -> None:
        async with odradek.aio.Producer(brokers=broker.bootstrap) as producer:
            with pytest.raises(BufferFull):
                producer.send_nowait(topic, "x", partition=1)
            assert await producer.partitions_for(topic) == [0, 1, 2]
            assert (await producer.send_nowait(topic, "x", partition=1)).offset == 0

    asyncio.run(main())


def test_a_cancelled_close_of_a_producer_can_be_awaited_again():
    async def main() -> None:
        with Broker() as broker:
            producer = odradek.aio.Producer(brokers=broker.bootstrap, linger_ms=60_000)
            await producer.start()
            await producer.send_many("t", ["known"])
            await producer.flush()
        future = await producer.enqueue("t", "nobody takes this")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ClientClosed, match="was cancelled"):
            await asyncio.wait_for(future, LONG_S)
        with pytest.raises(ClientClosed):
            await producer.send("t", "late")
        await producer.close()

    before = threading.enumerate()
    asyncio.run(main())
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert not any(name.startswith("odradek-producer") for name in left)
