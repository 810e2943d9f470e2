"""What constructors take beside settings: arguments by each of their names, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.consumer.arguments import ConsumerArguments, consumer_arguments
from odradek.client.errors import ConfigError
from odradek.client.producer.arguments import ProducerArguments, producer_arguments

BROKERS = {"bootstrap.servers": "localhost:1"}


def producer(config: dict[str, Any], key: Any = None, value: Any = None) -> ProducerArguments:
    return producer_arguments(BROKERS | config, None, key, value, "block", {})


def consumer(config: dict[str, Any], key: Any = None, value: Any = None) -> ConsumerArguments:
    return consumer_arguments([BROKERS | config], key, value, {})


@pytest.mark.parametrize("field", ["key", "value"])
def test_serializers_by_the_names_of_kafka_python(field: str) -> None:
    for made in (producer({f"{field}_serializer": "json"}), producer({}, **{field: "json"})):
        assert getattr(made, field).to_bytes("t", [], {"a": 1}) == b'{"a":1}'


@pytest.mark.parametrize("field", ["key", "value"])
def test_deserializers_by_the_names_of_kafka_python(field: str) -> None:
    for made in (consumer({f"{field}_deserializer": "str"}), consumer({}, **{field: "str"})):
        assert getattr(made.deserializers, field).name == "str"


@pytest.mark.parametrize("field", ["key", "value"])
def test_one_argument_by_two_names_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} and {field}_serializer are the same"):
        producer({f"{field}_serializer": "str"}, **{field: "json"})
    with pytest.raises(ConfigError, match=f"{field} and {field}_deserializer are the same"):
        consumer({f"{field}_deserializer": "str"}, **{field: "json"})


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "ä"])
def test_dead_letters_go_to_what_can_be_a_topic(name: str) -> None:
    with pytest.raises(ConfigError, match=r"on_decode_error is 'dlq:.*Topic name is invalid"):
        consumer({"on_decode_error": f"dlq:{name}"})
    assert consumer({"on_decode_error": "dlq:orders.bad"}).dead_letter_topic == "orders.bad"
