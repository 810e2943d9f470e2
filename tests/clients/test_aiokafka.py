"""aiokafka, which speaks only non-flexible versions, against this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from clients.records import CODECS, RECORDS, Sent
from odradek.testing.broker import Broker


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    broker: Broker, new_topic: Callable[..., str], codec: str
) -> None:
    topic = new_topic()
    # aiokafka cannot send a header without a value.
    records = [r for r in RECORDS if all(value is not None for _, value in r.headers)]
    found = asyncio.run(round_trip(broker.bootstrap, topic, records, codec))
    assert found == records


async def round_trip(bootstrap: str, topic: str, records: list[Sent], codec: str) -> list[Sent]:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        acks="all",
        enable_idempotence=True,
    ) as producer:
        for record in records:
            await producer.send_and_wait(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp_ms=record.timestamp,
                headers=record.headers,
            )
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    found = [await asyncio.wait_for(consumer.getone(), 10) for _ in records]
    await consumer.stop()
    return [Sent(r.key, r.value, list(r.headers), r.timestamp) for r in found]
