"""What a broker tells clients to connect to, by where it listens and what is advertised."""

from __future__ import annotations

import pytest
from serving import Serving

from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse


def told(**settings: str) -> tuple[str, int]:
    """Host and port that clients find in the metadata. Port 9092 is bound whatever was asked."""
    serving = Serving(**settings)
    (broker,) = serving.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
    return broker.host, broker.port


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_the_address_it_listens_on(host: str):
    assert told(listeners=f"PLAINTEXT://{host}:9092") == (host.strip("[]"), 9092)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_of_every_interface_the_machines_own_address(host: str):
    """`0.0.0.0` is no address to connect to."""
    assert told(listeners=f"PLAINTEXT://{host}:9092") == ("own.example", 9092)


def test_what_is_advertised_wherever_it_listens():
    assert told(
        listeners="PLAINTEXT://0.0.0.0:9092",
        advertised_listeners="PLAINTEXT://broker.example:19092",
    ) == ("broker.example", 19092)


def test_port_0_is_the_one_that_was_bound():
    assert told(
        listeners="PLAINTEXT://0.0.0.0:0", advertised_listeners="PLAINTEXT://broker.example:0"
    ) == ("broker.example", 9092)
