"""Records to read, written by another client."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from clients.consumer.written import LONG_S, T0
from odradek.testing.broker import Broker


@pytest.fixture
def produce(broker: Broker) -> Callable[..., None]:
    """Return `produce(topic, *values, partition=0)`, which writes one record a value, a second
    apart.
    """
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})

    def send(topic: str, *values: bytes | None, partition: int = 0) -> None:
        for index, value in enumerate(values):
            producer.produce(
                topic,
                value,
                key=b"k%d" % index,
                partition=partition,
                timestamp=T0 + 1000 * index,
                headers=[("n", b"%d" % index)],
            )
        assert producer.flush(LONG_S) == 0

    return send
