"""Arguments of constructors beside settings: their names, and refused values."""

from __future__ import annotations

from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.serialization import StringDeserializer, StringSerializer

from odradek.client.consumer.arguments import (
    ConsumerArguments,
    assignment_of,
    consumer_arguments,
    offsets_of,
)
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.record import BatchInfo, Record, TimestampType
from odradek.client.errors import ConfigError
from odradek.client.list_offsets import lookup_timestamp_ms
from odradek.client.producer.arguments import ProducerArguments, producer_arguments
from odradek.model.topics import TopicPartition

BROKERS = {"bootstrap.servers": "localhost:1"}
FIRST = TopicPartition("t", 0)


def producer(config: dict[str, Any], key: Any = None, value: Any = None) -> ProducerArguments:
    return producer_arguments(BROKERS | config, None, key, value, "block", {})


def consumer(config: dict[str, Any], key: Any = None, value: Any = None) -> ConsumerArguments:
    return consumer_arguments([BROKERS | config], key, value, {})


@pytest.mark.parametrize("field", ["key", "value"])
def test_serializers_may_have_the_argument_names_of_kafka_python(field: str) -> None:
    for made in (producer({f"{field}_serializer": "json"}), producer({}, **{field: "json"})):
        assert getattr(made, field).to_bytes("t", [], {"a": 1}) == b'{"a":1}'


@pytest.mark.parametrize("field", ["key", "value"])
def test_deserializers_may_have_the_argument_names_of_kafka_python(field: str) -> None:
    for made in (consumer({f"{field}_deserializer": "str"}), consumer({}, **{field: "str"})):
        assert getattr(made.deserializers, field).name == "str"


@pytest.mark.parametrize("field", ["key", "value"])
def test_an_argument_given_by_two_names_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} and {field}_serializer are the same"):
        producer({f"{field}_serializer": "str"}, **{field: "json"})
    with pytest.raises(ConfigError, match=f"{field} and {field}_deserializer are the same"):
        consumer({f"{field}_deserializer": "str"}, **{field: "json"})


@pytest.mark.parametrize("name", ["value.serializer", "VALUE_SERIALIZER", "Value", "value"])
def test_arguments_may_be_in_the_mapping_of_settings(name: str) -> None:
    assert producer({name: "json"}).value.to_bytes("t", [], [1]) == b"[1]"
    reading = name.replace("serial", "deserial").replace("SERIAL", "DESERIAL")
    assert consumer({reading: "str"}).deserializers.value.name == "str"


@pytest.mark.parametrize("name", ["on_full", "on.full", "ON_FULL"])
def test_on_full_may_be_in_the_mapping_of_settings(name: str) -> None:
    assert producer({}).blocks and producer({name: "block"}).blocks
    assert not producer({name: "raise"}).blocks
    with pytest.raises(ConfigError, match="on_full is 'often'"):
        producer({name: "often"})


@pytest.mark.parametrize("name", ["partitioner", "Partitioner"])
def test_a_partitioner_function_may_be_in_the_mapping_of_settings(name: str) -> None:
    def first(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        return 0

    assert producer({name: first}).settings.partitioner is first
    assert producer({name: "murmur2_random"}).settings.partitioner is None


@pytest.mark.parametrize("name", ["group", "Group", "group.id", "GROUP_ID"])
def test_the_group_may_be_in_the_mapping_of_settings(name: str) -> None:
    assert consumer({name: "g"}).config.group_id == "g"


def test_assignors_and_on_decode_error_may_be_in_the_mapping_of_settings() -> None:
    made = consumer({"Assignors": ["sticky"], "on.decode.error": "dlq:bad"})
    assert made.assignors is not None and [each.name for each in made.assignors] == ["sticky"]
    assert made.dead_letter_topic == "bad"


def test_an_argument_given_in_two_spellings_is_refused() -> None:
    assert producer({"value": "json", "VALUE": "json"}).value.name == "json"
    with pytest.raises(
        ConfigError, match="value and VALUE are the same argument with different values"
    ):
        producer({"value": "json", "VALUE": "str"})
    with pytest.raises(ConfigError, match="value and value_serializer are the same"):
        producer({"value.serializer": "json"}, value="str")
    with pytest.raises(
        ConfigError, match=r"group\.id and group both mean group\.id and have different values"
    ):
        consumer({"group.id": "g", "group": "h"})


def test_the_awaited_producer_refuses_on_full() -> None:
    with pytest.raises(ConfigError, match="on_full is a setting of the blocking producer"):
        producer_arguments(BROKERS, None, None, None, None, {"on_full": "raise"})
    with pytest.raises(ConfigError, match=r"no client has a setting on_ful$"):
        producer_arguments(BROKERS, None, None, None, None, {"on_ful": "raise"})
    with pytest.raises(ConfigError, match=r"on_ful; did you mean on_full\?"):
        producer({"on_ful": "raise"})


def test_serializers_of_confluent_kafka_are_called_without_a_context() -> None:
    writing = {"value.serializer": StringSerializer("utf_16_le")}
    assert producer(writing).value.to_bytes("t", [], "a") == b"a\0"
    reading = consumer({"value.deserializer": StringDeserializer("utf_16_le")})
    assert "StringDeserializer" in reading.deserializers.value.name


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "ä"])
def test_an_invalid_dead_letter_topic_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"on_decode_error is 'dlq:.*Topic name is invalid"):
        consumer({"on_decode_error": f"dlq:{name}"})
    assert consumer({"on_decode_error": "dlq:orders.bad"}).dead_letter_topic == "orders.bad"


# Offsets that stand in what was given.


def test_committing_a_record_commits_the_offset_after_it() -> None:
    record = Record(BatchInfo("t", 0, 3, TimestampType.CREATE_TIME), 5, 0, b"k", b"v")
    assert offsets_of(record) == {FIRST: OffsetAndMetadata(6, "", 3)}


def test_a_record_of_another_client_can_be_committed() -> None:
    class Fetched(NamedTuple):
        topic: str
        partition: int
        offset: int
        timestamp: int
        value: bytes

    assert offsets_of(Fetched("t", 0, 5, 0, b"v")) == {FIRST: OffsetAndMetadata(6)}


def test_an_object_with_the_fields_of_a_record_can_be_committed() -> None:
    class RecordFields(NamedTuple):
        topic: str
        partition: int
        offset: int

    assert offsets_of(RecordFields("t", 0, 5)) == {FIRST: OffsetAndMetadata(6)}
    assert assignment_of([RecordFields("t", 0, 5)]) == ([FIRST], {}, {})


def test_integers_of_other_libraries_are_accepted() -> None:
    class Five:
        def __index__(self) -> int:
            return 5

    five: Any = Five()
    for given in ({FIRST: five}, {FIRST: OffsetAndMetadata(five, "note")}):
        [found] = offsets_of(given).values()
        assert (found.offset, type(found.offset)) == (5, int)
    assert lookup_timestamp_ms(five) == 5


def test_a_partition_with_an_offset_is_committed_at_that_offset() -> None:
    """confluent-kafka's partitions hold the offset of the next record, where records hold their
    own."""
    assert offsets_of(confluent_kafka.TopicPartition("t", 0, 5)) == {FIRST: OffsetAndMetadata(5)}
    noted = confluent_kafka.TopicPartition("t", 0, 5, "note", 7)
    assert offsets_of(noted) == {FIRST: OffsetAndMetadata(5, "note", 7)}


@pytest.mark.parametrize("special", [-1, -2, -1000, -1001])
def test_an_invalid_offset_is_not_committed(special: int) -> None:
    with pytest.raises(ValueError, match=f"offsets begin with 0; {special} is none"):
        offsets_of(confluent_kafka.TopicPartition("t", 0, special))


def test_an_assigned_partition_starts_at_its_offset() -> None:
    given = [confluent_kafka.TopicPartition("t", 0, 7), confluent_kafka.TopicPartition("t", 1)]
    second = TopicPartition("t", 1)
    assert assignment_of(given) == ([FIRST, second], {FIRST: 7}, {})
    stored = confluent_kafka.TopicPartition("t", 1, confluent_kafka.OFFSET_STORED)
    assert assignment_of([stored]) == ([second], {}, {})


@pytest.mark.parametrize("special", [confluent_kafka.OFFSET_BEGINNING, confluent_kafka.OFFSET_END])
def test_invalid_limits_of_an_assigned_partition_are_refused(special: int) -> None:
    with pytest.raises(ValueError, match=r"\('t', 0\).*assign it without, and seek\(\) to"):
        assignment_of([confluent_kafka.TopicPartition("t", 0, special)])


def test_a_mapping_overrides_the_offsets_of_its_keys() -> None:
    given = {confluent_kafka.TopicPartition("t", 0, 7): 5}
    assert assignment_of(given) == ([FIRST], {FIRST: 5}, {})
