"""Addresses of brokers as text."""

from __future__ import annotations

import pytest

from odradek.config.addresses import (
    address_text,
    default_brokers,
    parse_address,
    parse_addresses,
)
from odradek.config.setting import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        (" broker-1.example.com:19092 ", ("broker-1.example.com", 19092)),
        ("[::1]:9092", ("::1", 9092)),
        ("PLAINTEXT://localhost:9092", ("localhost", 9092)),
    ],
)
def test_an_address_is_parsed_into_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


def test_brokers_by_default_are_those_of_the_environment_or_of_this_machine() -> None:
    kafka, own = {"KAFKA_BOOTSTRAP_SERVERS": "k:1"}, {"ODRADEK_BROKERS": "o:2"}
    assert default_brokers({}) == default_brokers({"ODRADEK_BROKERS": ""}) == "localhost:9092"
    assert default_brokers(kafka) == "k:1"
    assert default_brokers({**kafka, **own}) == "o:2"


@pytest.mark.parametrize("text", ["localhost:9092", "[::1]:9092", "192.0.2.1:1"])
def test_a_parsed_address_has_the_same_text(text: str) -> None:
    assert address_text(*parse_address(text)) == text


@pytest.mark.parametrize("text", ["localhost", ":9092", "host:", "host:port", "host:0", "h:70000"])
def test_an_invalid_address_raises_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match="Write host:port"):
        parse_address(text)


def test_addresses_are_distinct_and_not_empty() -> None:
    assert parse_addresses(["a:1", "b:2", "a:1", ""]) == [("a", 1), ("b", 2)]
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is empty"):
        parse_addresses([])
