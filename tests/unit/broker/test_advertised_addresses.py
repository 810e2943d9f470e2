"""The address that a broker advertises, by its listeners and advertised listeners."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from unit.broker.memory_broker import MemoryBroker


def advertised(**settings: Any) -> tuple[str, int]:
    """The advertised host and port. The network here always binds port 9092."""
    serving = MemoryBroker(**settings)
    (broker,) = serving.call(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
    return broker.host, broker.port


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_the_listener_is_advertised_by_default(host: str):
    assert advertised(listeners=f"PLAINTEXT://{host}:9092") == (host.strip("[]"), 9092)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_a_listener_on_every_interface_advertises_the_machines_address(host: str):
    """`0.0.0.0` is no address to connect to."""
    assert advertised(listeners=f"PLAINTEXT://{host}:9092") == ("own.example", 9092)


def test_an_advertised_listener_replaces_the_listener():
    assert advertised(
        listeners="PLAINTEXT://0.0.0.0:9092",
        advertised_listeners="PLAINTEXT://broker.example:19092",
    ) == ("broker.example", 19092)


def test_an_advertised_port_0_is_the_bound_port():
    assert advertised(
        listeners="PLAINTEXT://0.0.0.0:0", advertised_listeners="PLAINTEXT://broker.example:0"
    ) == ("broker.example", 9092)
