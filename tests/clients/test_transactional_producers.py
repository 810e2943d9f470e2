"""A producer with a transactional id fails before its timeout, and says why if its client shows it.

Java: tests/interop/test_java_tools.py.
"""

from __future__ import annotations

import asyncio

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
import pytest

from odradek.testing.broker import Broker

PATIENCE_S = 30


def test_confluent_kafka_says_why(broker: Broker) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "id"}
    )
    with pytest.raises(
        confluent_kafka.KafkaException, match="This broker has no transactions"
    ) as e:
        producer.init_transactions(PATIENCE_S)
    assert e.value.args[0].fatal()


def test_kafka_python_fails_at_once(broker: Broker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="id")
    with pytest.raises(kafka.errors.KafkaError, match="UnsupportedVersionError"):
        producer.init_transactions()
    producer.close()


def test_aiokafka_fails_at_once(broker: Broker) -> None:
    async def started() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="id"
        )
        try:
            await asyncio.wait_for(producer.start(), PATIENCE_S)
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError, match="UnsupportedVersionError"):
        asyncio.run(started())
