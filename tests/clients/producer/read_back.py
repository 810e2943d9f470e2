"""Reads produced records with another client."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from odradek.testing import Broker

LONG_S = 60.0
PARTITIONS = 3


def read(broker: Broker, topic: str, count: int) -> list:
    """Return `count` messages read by another client, in order within each partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reading"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=LONG_S)
        assert messages
        found += [message for message in messages if message.error() is None]
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def values(messages: list) -> list[bytes]:
    return [message.value() for message in messages]
