"""`send.buffer.bytes` and `receive.buffer.bytes`, as sockets of clients and broker have them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import odradek.aio
from odradek import Admin, ConfigError, Consumer, Producer
from odradek.testing import Broker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SEND, RECEIVE = 40_000, 24_000
GIVEN = {"send.buffer.bytes": SEND, "receive.buffer.bytes": RECEIVE}
DOUBLED = (2 * SEND, 2 * RECEIVE)
"""Linux reserves as much again for its own bookkeeping."""


def sockets_of(port: int) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The sizes of send and receive buffers of this process: of the sockets connected to a port,
    and of those that were accepted there."""
    connected: set[tuple[int, int]] = set()
    accepted: set[tuple[int, int]] = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as each:
                if each.family != socket.AF_INET:
                    continue
                sizes = (
                    each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
                    each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
                )
                if each.getpeername()[1] == port:
                    connected.add(sizes)
                elif each.getsockname()[1] == port:
                    accepted.add(sizes)
    return connected, accepted


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def use(kind: type[Any], settings: dict[str, Any], port: int) -> set[tuple[int, int]]:
    """The buffers of a client's connections, while it is open."""
    with kind(settings) as client:
        if kind is Admin:
            # A request to the controller: by then the bootstrap connection, which the first
            # metadata ends, is not the only one.
            client.create_topic("made")
        else:
            client.partitions_for("t")
        return sockets_of(port)[0]


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_a_client_connects_with_the_given_buffers(broker: Broker, kind: type[Any]) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, **GIVEN}
    assert use(kind, settings, broker.port) == {DOUBLED}


def test_a_client_for_asyncio_connects_with_the_given_buffers(broker: Broker) -> None:
    async def main() -> None:
        settings = {"bootstrap.servers": broker.bootstrap, **GIVEN}
        async with odradek.aio.Producer(settings) as producer:
            await producer.partitions_for("t")
            assert sockets_of(broker.port)[0] == {DOUBLED}

    asyncio.run(main())


@pytest.mark.parametrize(
    "settings", [{}, dict.fromkeys(GIVEN, -1), {"socket.send.buffer.bytes": 0}]
)
def test_by_default_the_system_chooses(broker: Broker, settings: dict[str, int]) -> None:
    given = {"bootstrap.servers": broker.bootstrap, **settings}
    with socket.create_connection(("127.0.0.1", broker.port)):
        of_the_system, _ = sockets_of(broker.port)
        assert use(Producer, given, broker.port) == of_the_system


def test_librdkafkas_names_have_the_same_effect(broker: Broker) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "socket.send.buffer.bytes": SEND,
        "socket.receive.buffer.bytes": RECEIVE,
    }
    assert use(Producer, settings, broker.port) == {DOUBLED}


def test_a_size_below_minus_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"send\.buffer\.bytes"):
        Producer({"bootstrap.servers": "localhost:1", "send.buffer.bytes": -2})


def test_a_broker_accepts_with_its_own_buffers() -> None:
    settings = {"socket.send.buffer.bytes": SEND, "socket.receive.buffer.bytes": RECEIVE}
    with Broker(settings=settings) as broker, Producer(brokers=broker.bootstrap) as producer:
        producer.partitions_for("t")
        assert sockets_of(broker.port)[1] == {DOUBLED}
        assert DOUBLED not in sockets_of(broker.port)[0]


def test_records_larger_than_the_buffers_arrive(broker: Broker) -> None:
    value = os.urandom(900_000)
    settings = {"bootstrap.servers": broker.bootstrap, **GIVEN}
    with Producer(settings) as producer:
        producer.send_many("large", [value] * 5).result(30)
    with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign({("large", 0): (0, 5)})
        assert [record.value for record in consumer] == [value] * 5
