"""Reads a whole topic at the end of a chaos run, what is committed of it."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from chaos.cluster import PATIENCE_S, ChaosFailure

Values = Counter[tuple[int, str]]
"""How often each value was read, with its partition."""


def read_to_end(bootstrap: str, topic: str) -> list[Message]:
    """Read a whole topic, each partition in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "final-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    unfinished = set(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in unfinished])
    found: list[Message] = []
    while unfinished:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition() or 0)
            else:
                raise ChaosFailure(f"the final reader got {error}")
    consumer.close()
    return found


def values_of(bootstrap: str, topic: str) -> Values:
    """Count the values of a whole topic."""
    return Counter(
        (message.partition() or 0, (message.value() or b"").decode())
        for message in read_to_end(bootstrap, topic)
    )
