"""Mistakes of users of our consumer, and the errors they get."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clients.consumer.written import LONG_S, NewTopic, Produce
from odradek.client.blocking.consumer import Consumer
from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.errors import (
    ClientClosed,
    ConfigError,
    DecodeError,
    Disconnected,
    IllegalState,
    InvalidGroupId,
    KafkaTimeout,
    NoOffsetForPartition,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker


class TestBadInput:
    def test_invalid_settings_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"did you mean auto\.offset\.reset"):
            Consumer("t", brokers="localhost:9092", auto_ofset_reset="earliest")  # type: ignore[call-overload]
        with pytest.raises(ConfigError, match=r"bootstrap\.servers is empty"):
            Consumer("t")
        with pytest.raises(ConfigError, match="no deserializer"):
            Consumer("t", brokers="localhost:9092", value="avro")  # type: ignore[call-overload]
        with pytest.raises(ConfigError, match="names of topics, or one mapping"):
            Consumer({"group.id": "a"}, {"group.id": "b"})

    def test_an_unknown_topic_is_raised_by_the_poll(self, broker: Broker) -> None:
        with Consumer(
            "returns",
            brokers=broker.bootstrap,
            default_api_timeout_ms=300,
            allow_auto_create_topics=False,
        ) as consumer:
            with pytest.raises(UnknownTopicOrPartition, match=r"returns.*create the topic"):
                consumer.poll(LONG_S)
            with pytest.raises(UnknownTopicOrPartition):
                consumer.end_offsets(("nowhere", 0), timeout=0.3)

    def test_an_unreachable_broker_is_raised_by_the_poll(self) -> None:
        with Consumer("t", brokers="127.0.0.1:1", default_api_timeout_ms=300) as consumer:
            with pytest.raises(Disconnected, match="refused"):
                consumer.poll(LONG_S)
            with pytest.raises(KafkaTimeout):
                consumer.end_offsets(("t", 0), timeout=0.2)

    def test_a_closed_consumer_refuses_every_call(self, broker: Broker) -> None:
        consumer = Consumer("t", brokers=broker.bootstrap)
        consumer.close()
        consumer.close()
        for use in (consumer.poll, consumer.assignment, lambda: next(consumer)):
            with pytest.raises(ClientClosed):
                use()

    def test_a_record_that_cannot_be_decoded_is_raised_and_can_be_passed(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, b"1", b"one", b"2")
        with Consumer(brokers=broker.bootstrap, value=int) as consumer:
            consumer.assign({(topic, 0): 0})
            assert next(consumer).value == 1
            with pytest.raises(DecodeError, match=r"offset 1.*seek") as failed:
                next(consumer)
            assert failed.value.record is not None
            assert failed.value.record.value == b"one"
            consumer.seek((topic, 0), 2)
            assert next(consumer).value == 2
        with Consumer(brokers=broker.bootstrap, value=int, on_decode_error="skip") as consumer:
            consumer.assign({(topic, 0): (0, 3)})
            assert [record.value for record in consumer] == [1, 2]

    def test_a_missing_offset_without_a_reset_policy_is_raised(
        self, broker: Broker, new_topic: NewTopic
    ) -> None:
        topic = new_topic()
        with Consumer(brokers=broker.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([(topic, 0)])
            with pytest.raises(NoOffsetForPartition, match=f"{topic}-0"):
                consumer.poll(LONG_S)
            consumer.seek((topic, 0), 77)
            with pytest.raises(OffsetOutOfRange, match="offset 77"):
                consumer.poll(LONG_S)

    def test_an_invalid_time_is_refused(self, broker: Broker, new_topic: NewTopic) -> None:
        first = (new_topic(), 0)
        given: list[Any] = [1.5e12, "1h", True, None]
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign([first])
            for moment in given:
                with pytest.raises(TypeError, match=r"no time.*What to do: .*datetime.*int"):
                    consumer.offsets_for_times({first: moment})
            for before_all in (-1, datetime(1960, 1, 1, tzinfo=UTC)):
                with pytest.raises(ValueError, match=r"begin with 1970.*What to do"):
                    consumer.offsets_for_times({first: before_all})
            with pytest.raises(ValueError, match=r"begin with 1970.*What to do"):
                consumer.seek(first, datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))

    def test_invalid_calls_are_refused(self, broker: Broker, new_topic: NewTopic) -> None:
        topic = new_topic()
        with Consumer(brokers=broker.bootstrap) as consumer:
            consumer.assign([(topic, 0)])
            with pytest.raises(IllegalState, match="unsubscribe"):
                consumer.subscribe([topic])
            with pytest.raises(IllegalState, match="not assigned"):
                consumer.seek((topic, 9), 0)
            with pytest.raises(TypeError, match="is no partition"):
                consumer.position("orders")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"^'cb' is no partition"):
                consumer.assign("cb")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"^7 is no partition"):
                consumer.assign(7)  # type: ignore[arg-type]
            for number in (-1, 2**31):
                for one in ((topic, number), TopicPartition(topic, number)):
                    with pytest.raises(TypeError, match=f"{number}.* is no partition"):
                        consumer.assign([one])
            with pytest.raises(TypeError, match="does not say what to commit"):
                consumer.commit(object())  # type: ignore[arg-type]
            for offset in (-1, OffsetAndMetadata(-1)):
                with pytest.raises(ValueError, match=r"offsets begin with 0; -1 is none.*\"end\""):
                    consumer.commit({(topic, 0): offset})
            with pytest.raises(InvalidGroupId, match=r"group\.id"):
                consumer.commit({(topic, 0): 1})
