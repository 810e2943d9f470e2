"""A record that the producer itself refuses fails its transaction, also if the application goes on.

As in Java's producer: what is committed is all that was sent, and nothing of it is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import odradek
import odradek.aio
from odradek.client.errors import (
    BufferFull,
    InvalidTopic,
    KafkaError,
    RecordTooLarge,
    SerializationError,
    TransactionFailed,
    UnknownTopicOrPartition,
)
from odradek.testing.broker import Broker

NewTopic = Callable[..., str]
Send = Callable[[Any, str], Any]
BIG = b"x" * 2_000_000

REFUSED: dict[str, tuple[type[KafkaError], Send]] = {
    "too large": (RecordTooLarge, lambda p, topic: p.send(topic, BIG)),
    "not serializable": (SerializationError, lambda p, topic: p.send(topic, object())),
    "bad header": (SerializationError, lambda p, topic: p.send(topic, b"", headers={"a": 1})),
    "bad topic": (InvalidTopic, lambda p, topic: p.send("no topic!", b"")),
    "no partition": (UnknownTopicOrPartition, lambda p, topic: p.send(topic, b"", partition=9)),
    "one of many": (RecordTooLarge, lambda p, topic: p.send_many(topic, [b"1", BIG, b"2"])),
    "header of many": (
        SerializationError,
        lambda p, topic: p.send_many(topic, [b"1"], headers={"a": 1}),
    ),
    "one of a table": (
        RecordTooLarge,
        lambda p, topic: p.send_arrow(topic, pa.table({"value": [b"1", BIG]})),
    ),
}
BLOCKING: dict[str, tuple[type[KafkaError], Send]] = {
    **REFUSED,
    "produce": (RecordTooLarge, lambda p, topic: p.produce(topic, BIG)),
}
AWAITED: dict[str, tuple[type[KafkaError], Send]] = {
    **REFUSED,
    "enqueue": (RecordTooLarge, lambda p, topic: p.enqueue(topic, BIG)),
}


@pytest.fixture
def producer(broker: Broker) -> Iterator[Any]:
    with odradek.Producer(
        brokers=broker.bootstrap, transactional_id="refused", max_block_ms=300
    ) as made:
        yield made


def values(broker: Broker, topic: str) -> list[Any]:
    return odradek.read(topic, brokers=broker.bootstrap)["value"].to_pylist()


@pytest.mark.parametrize("case", BLOCKING)
def test_a_refused_record_that_was_caught_fails_the_commit(
    case: str, producer: Any, broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    expected, send = BLOCKING[case]
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"before")
    with pytest.raises(expected) as refused:
        send(producer, topic)
    with pytest.raises(TransactionFailed) as failed:
        producer.commit_transaction()
    producer.abort_transaction()
    assert failed.value.__cause__ is refused.value
    assert failed.value.requires_abort and not failed.value.fatal
    with producer.transaction():
        producer.send(topic, b"next")
    assert values(broker, topic) == [b"next"]


def test_a_message_that_produce_batch_did_not_queue_fails_the_commit(
    producer: Any, broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    messages: list[dict[str, Any]] = [{"value": b"1"}, {"value": BIG}]
    producer.init_transactions()
    producer.begin_transaction()
    assert producer.produce_batch(topic, messages) == 1
    with pytest.raises(TransactionFailed):
        producer.commit_transaction()
    producer.abort_transaction()
    assert isinstance(messages[1]["_error"], RecordTooLarge)
    assert values(broker, topic) == []


def test_calls_with_wrong_arguments_and_a_full_buffer_are_no_records(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with odradek.Producer(
        brokers=broker.bootstrap, transactional_id="full", on_full="raise", linger_ms=60_000,
        buffer_memory=50_000,
    ) as producer:  # fmt: skip
        producer.partitions_for(topic)
        with producer.transaction():
            with pytest.raises(TypeError):
                producer.send(7, b"")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="partition -3"):
                producer.send(topic, b"", partition=-3)
            producer.send(topic, bytes(30_000))
            with pytest.raises(BufferFull):
                producer.send(topic, bytes(30_000))
    assert len(values(broker, topic)) == 1


@pytest.mark.parametrize("case", AWAITED)
def test_a_refused_record_that_was_caught_fails_the_awaited_commit(
    case: str, broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    expected, send = AWAITED[case]

    async def run() -> None:
        async with odradek.aio.Producer(
            brokers=broker.bootstrap, transactional_id="awaited", max_block_ms=300
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(topic, b"before")
            with pytest.raises(expected):
                await send(producer, topic)
            with pytest.raises(TransactionFailed):
                await producer.commit_transaction()
            await producer.abort_transaction()
            await producer.begin_transaction()
            with pytest.raises(RecordTooLarge):
                producer.send_nowait(topic, BIG)
            with pytest.raises(TransactionFailed):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                with pytest.raises(BufferFull):
                    producer.send_nowait("not-known-yet", b"")
                await producer.send(topic, b"next")

    asyncio.run(run())
    assert values(broker, topic) == [b"next"]
