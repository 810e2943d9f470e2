"""Clients can connect to the addresses that a broker advertises."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest

import odradek
from odradek.testing.broker import Broker

PATIENCE_S = 60


def has_ipv6_loopback() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def by_confluent_kafka(bootstrap: str) -> int:
    offsets: list[int] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce("t", b"x", on_delivery=lambda _, message: offsets.append(message.offset()))  # type: ignore[arg-type]
    assert producer.flush(PATIENCE_S) == 0
    return offsets[0]


def by_kafka_python(bootstrap: str) -> int:
    with kafka.KafkaProducer(bootstrap_servers=bootstrap) as producer:
        return int(producer.send("t", b"x").get(PATIENCE_S).offset)


def by_aiokafka(bootstrap: str) -> int:
    async def send() -> int:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            return int((await producer.send_and_wait("t", b"x")).offset)

    return asyncio.run(asyncio.wait_for(send(), PATIENCE_S))


def by_our_own(bootstrap: str) -> int:
    with odradek.Producer({"bootstrap.servers": bootstrap}) as producer:
        return int(producer.send("t", b"x").result(PATIENCE_S).offset)


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no IPv6 loopback interface")
@pytest.mark.parametrize("send", [by_confluent_kafka, by_kafka_python, by_aiokafka, by_our_own])
def test_clients_are_served_over_ipv6(send: Callable[[str], int]) -> None:
    with Broker(settings={"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        assert broker.bootstrap == f"[::1]:{broker.port}"
        assert send(broker.bootstrap) == 0
