"""The producers of the sink: a topic that the brokers create is found, whichever broker is asked,
and the number of partitions bounds the size of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek import Admin
from odradek.client.admin.results import Topic
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.errors import ErrorCode
from odradek.spark import producers
from odradek.spark.connections import admin_of as connected_admin
from odradek.spark.options import ClientOptions, WriteOptions, write_options
from odradek.testing import Broker

UNKNOWN = UnknownTopicOrPartition("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class LateAdmin:
    """An admin client whose broker learns of a topic only after some questions."""

    def __init__(self, find: Callable[[str], Topic], unknown_answers: int) -> None:
        self.find = find
        self.left = unknown_answers

    def topic(self, name: str) -> Topic:
        if self.left:
            self.left -= 1
            raise UNKNOWN
        return self.find(name)


def ask_late(monkeypatch: pytest.MonkeyPatch, unknown_answers: int) -> None:
    """Let the brokers answer so many questions for topics with UNKNOWN_TOPIC_OR_PARTITION."""
    admins: dict[ClientOptions, Any] = {}

    def admin_of(options: ClientOptions) -> Any:
        if options not in admins:
            admins[options] = LateAdmin(
                lambda name: connected_admin(options).topic(name), unknown_answers
            )
        return admins[options]

    monkeypatch.setattr(producers, "admin_of", admin_of)


def test_a_topic_that_was_created_is_asked_for_until_the_broker_asked_knows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_late(monkeypatch, 3)
    with Broker() as broker:
        found = producers.existing_topic(ClientOptions(broker.bootstrap), "t")
    assert (found.name, len(found.partitions)) == ("t", 1)


def test_a_topic_that_no_broker_announces_is_an_error_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_late(monkeypatch, 10**6)
    with Broker() as broker, pytest.raises(UnknownTopicOrPartition, match="t"):
        producers.existing_topic(ClientOptions(broker.bootstrap, api_timeout_ms=100), "t")


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("partitions", "size"),
    [(1, 1_000_000), (16, 1_000_000), (17, 250_000), (100, 62_500), (1_000, 16_384)],
)
def test_batches_of_all_partitions_fit_half_of_the_buffer(partitions: int, size: int) -> None:
    assert producers.fitting_batch_size(partitions, 32 * MIB) == size
    assert size * partitions <= 16 * MIB


def test_a_batch_is_never_smaller_than_kafkas_default() -> None:
    assert producers.fitting_batch_size(100_000, 32 * MIB) == 16_384


def batch_size(broker: Broker, **given: str) -> int:
    options = write_options({"kafka.bootstrap.servers": broker.bootstrap, **given}, streaming=True)
    taken = producers.take_producer(options)
    taken.producer.close()
    size = taken.options.batch_size
    assert size is not None
    return size


def test_the_size_of_batches_follows_the_topics_partitions_unless_it_is_given() -> None:
    with Broker() as broker:
        with Admin(brokers=broker.bootstrap) as admin:
            admin.create_topic("one", partitions=1)
            admin.create_topic("many", partitions=40)
        assert batch_size(broker, topic="one") == 1_000_000
        assert batch_size(broker, topic="many") == 250_000
        assert batch_size(broker, topic="one", **{"kafka.buffer.memory": "1000000"}) == 250_000
        assert batch_size(broker, topic="one", **{"kafka.batch.size": "777"}) == 777
        assert batch_size(broker) == 250_000


def test_rows_without_keys_and_partitions_fill_large_batches_whatever_the_topic() -> None:
    options = WriteOptions(ClientOptions("127.0.0.1:1"), topic="many")
    keyless = options.for_columns(["value", "headers"])
    unknown = producers.KnownTopics(options.client)
    assert producers.batch_size_for(keyless, unknown) == 1_000_000
    for column in ("key", "partition"):
        assert options.for_columns(["value", column]) == options
    assert keyless.of_clients() == options.of_clients()
