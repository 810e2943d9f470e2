"""The decisions of `process` about records and transactions, without brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.record import BatchInfo, Record, TimestampType
from odradek.client.errors import (
    CommitFailed,
    ConfigError,
    Disconnected,
    IllegalGeneration,
    ProducerFenced,
    TransactionFailed,
)
from odradek.client.processing import (
    Plan,
    TransactionLimit,
    arrow_columns,
    may_go_on,
    offsets_after,
    outputs_of,
    plan_of,
)
from odradek.client.producer.intercepted_send import ProducerRecord
from odradek.client.producer.send_path import SerializedRecord
from odradek.model.topics import TopicPartition

RAW = Record(BatchInfo("in", 0, -1, TimestampType.CREATE_TIME), 5, 1_000, b"k", b'{"a": 1}')


def plan(**given: Any) -> Plan:
    arguments: dict[str, Any] = {
        "to": "out",
        "group": "g",
        "brokers": None,
        "default_brokers": "localhost:9092",
        "key": None,
        "value": "json",
        "on_error": "raise",
        "transactional_id": "id",
        "consumer": None,
        "producer": None,
    }
    return plan_of(**{**arguments, **given})


def written(function: Callable[[Any], Any], **given: Any) -> list[tuple[str, Any, Any]]:
    found = outputs_of(function, RAW, plan(**given))
    assert isinstance(found, list)
    return [(each.topic, each.key, each.value) for each in found]


@pytest.mark.parametrize("name", ["transaction.timeout.ms", "transaction_timeout_ms"])
def test_a_setting_by_any_of_its_names_takes_the_place_of_the_default(name):
    timeout = {each: 700 for each in plan(producer={name: 700}).producer if "timeout" in each}
    assert timeout == {name: 700}
    assert plan().consumer["auto.offset.reset"] == "earliest"
    assert "auto.offset.reset" not in plan(consumer={"auto_offset_reset": "latest"}).consumer


def test_brokers_are_those_given_by_any_name_or_else_the_default():
    assert plan().consumer["brokers"] == plan().producer["brokers"] == "localhost:9092"
    assert plan(brokers="b:2").producer["brokers"] == "b:2"
    assert "brokers" not in plan(consumer={"bootstrap_servers": "b:2"}).producer


def test_a_value_goes_to_the_topic_with_the_key_of_the_record():
    assert written(lambda record: {**record.value, "b": 2}) == [("out", b"k", {"a": 1, "b": 2})]


def test_a_function_that_returns_none_writes_nothing():
    assert written(lambda record: None) == []


@pytest.mark.parametrize("make", [list, iter])
def test_a_list_or_a_generator_writes_several(make):
    other = ProducerRecord("other", "x", key="y")
    assert written(lambda record: make([1, None, other])) == [
        ("out", b"k", 1),
        ("other", "y", "x"),
    ]


def test_a_value_without_a_topic_is_an_error_in_all_cases():
    with pytest.raises(ConfigError, match="give `to`"):
        written(lambda record: 1, to=None, on_error="dlq:dead")


def test_an_exception_is_raised_unless_there_is_a_topic_for_dead_letters():
    with pytest.raises(ZeroDivisionError) as raised:
        written(lambda record: 1 / 0)
    (note,) = raised.value.__notes__
    assert note.startswith("The record: in-0, offset 5. ")


@pytest.mark.parametrize(
    ("function", "settings", "stage"),
    [
        (lambda record: 1 / 0, {}, b"TRANSFORMATION"),
        (lambda record: (1 / 0 for _ in "x"), {}, b"TRANSFORMATION"),
        (lambda record: 1, {"value": int}, b"VALUE_CONVERTER"),
        (lambda record: 1, {"key": "json"}, b"KEY_CONVERTER"),
    ],
)
def test_a_dead_letter_is_the_unchanged_record_with_the_stage_that_failed(
    function, settings, stage
):
    letter = outputs_of(function, RAW, plan(on_error="dlq:dead", **settings))
    assert isinstance(letter, SerializedRecord)
    assert (letter.topic, letter.key, letter.value) == ("dead", b"k", b'{"a": 1}')
    assert letter.timestamp_ms == 1_000
    assert stage in letter.headers and b"__connect.errors.offset" in letter.headers


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["key", "value", "offset"], {"key": "key", "value": "value"}),
        (["key", "headers", "value"], {"key": "key", "headers": "headers", "value": "value"}),
        (["amount", "city"], {"value": "json"}),
    ],
)
def test_the_columns_of_a_table_say_what_is_written(names, columns):
    assert arrow_columns(names) == columns


@pytest.mark.parametrize(
    "setting", ["enable_auto_commit", "isolation.level", "on_decode_error", "value"]
)
def test_settings_that_processing_decides_itself_are_refused(setting):
    with pytest.raises(ConfigError, match="cannot have"):
        plan(consumer={setting: "x"})


def test_its_clients_commit_in_transactions_and_read_committed_records():
    made = plan(brokers="b:1", consumer={"client_id": "c"}, producer={"linger_ms": 1})
    assert made.consumer == {
        "auto.offset.reset": "earliest",
        "brokers": "b:1",
        "client_id": "c",
        "group": "g",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    }
    assert made.producer == {
        "transaction.timeout.ms": 10_000,
        "brokers": "b:1",
        "value": "json",
        "linger_ms": 1,
        "transactional_id": "id",
    }


@pytest.mark.parametrize("on_error", ["skip", "dlq:", 5])
def test_a_wrong_on_error_is_refused(on_error):
    with pytest.raises(ConfigError, match=r"on_error|on_decode_error"):
        plan(on_error=on_error)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (TransactionFailed("a record failed"), True),
        (IllegalGeneration("the member was replaced"), True),
        (CommitFailed("it is no member"), True),
        (ProducerFenced("another producer"), False),
        (Disconnected("no broker"), False),
    ],
)
def test_records_are_read_again_after_errors_that_may_pass(error, again):
    assert may_go_on(error) is again


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def paced() -> tuple[TransactionLimit, Clock]:
    """100 records in a transaction at most, which may be open for 10 s."""
    clock = Clock()
    pace = TransactionLimit(100, 10_000, clock)
    pace.begin()
    return pace, clock


def test_a_transaction_gets_records_for_half_of_its_timeout():
    pace, clock = paced()
    clock.now_s = 4.9
    assert not pace.is_over
    clock.now_s = 5.0
    assert pace.is_over
    pace.begin()
    assert not pace.is_over


def test_fewer_records_are_read_after_a_slow_transaction_and_more_after_a_fast_one():
    pace, clock = paced()
    limits = []
    for took_s in (10.0, 4.0, 1.0, 1.0, 1000.0):
        pace.begin()
        clock.now_s += took_s
        pace.ended(pace.limit)
        limits.append(pace.limit)
    assert limits == [50, 50, 100, 100, 1]


def test_a_fatal_error_of_a_transaction_that_took_too_long_says_so():
    pace, clock = paced()
    fenced = ProducerFenced("the coordinator refused it")
    fenced.fatal = True
    assert pace.too_slow(fenced) is None
    clock.now_s = 12.0
    assert "smaller max_records" in str(pace.too_slow(fenced))
    assert pace.too_slow(TransactionFailed("a record failed")) is None


def test_a_transaction_ends_long_before_the_group_goes_on_without_its_member():
    clock = Clock()
    pace = TransactionLimit(100, 10_000, clock, max_poll_interval_ms=4_000)
    pace.begin()
    clock.now_s = 1.9
    assert not pace.is_over
    clock.now_s = 2.0
    assert pace.is_over
    clock.now_s = 4.0
    pace.ended(100)
    assert pace.limit == 50
    replaced = CommitFailed("it is no member")
    assert "max.poll.interval.ms=4000" in str(pace.too_slow(replaced))
    assert pace.too_slow(ProducerFenced("another producer")) is None


def test_the_offsets_after_records_are_those_of_the_next_ones():
    other: Record[bytes, bytes] = Record(
        BatchInfo("in", 1, 4, TimestampType.CREATE_TIME), 9, 0, None, None
    )
    assert offsets_after([RAW, other, RAW.replace(value=b"")]) == {
        TopicPartition("in", 0): OffsetAndMetadata(6),
        TopicPartition("in", 1): OffsetAndMetadata(10, "", 4),
    }
