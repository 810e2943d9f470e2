"""Transactions of every library: all or nothing, with offsets, fenced, ended by their timeout."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from clients.asking import until
from clients.libraries.raw_transactions import RawRequests
from clients.libraries.transactional import PATIENCE_S, TRANSACTIONAL, TransactionalProducer
from odradek.testing.broker import Broker

NewTopic = Callable[..., str]
numbers = itertools.count()


@pytest.fixture(params=(*TRANSACTIONAL, RawRequests), ids=lambda library: library.__name__)
def library(request: pytest.FixtureRequest) -> type[TransactionalProducer]:
    found: type[TransactionalProducer] = request.param
    return found


@pytest.fixture
def transactional_id() -> str:
    return f"id-{next(numbers)}"


@contextmanager
def producer(
    library: type[TransactionalProducer],
    broker: Broker,
    transactional_id: str,
    timeout_ms: int = 60_000,
) -> Iterator[TransactionalProducer]:
    made = library(broker.bootstrap, transactional_id, timeout_ms)
    try:
        made.init()
        yield made
    finally:
        made.close()


def read(broker: Broker, topic: str, *, committed: bool = True, partitions: int = 1) -> list[bytes]:
    """The values up to the end that a reader may see, in the order of the partitions."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"reader-{next(numbers)}",
            "isolation.level": level,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[tuple[int, int, bytes]] = []
    ended: set[int] = set()
    try:
        consumer.assign(
            [confluent_kafka.TopicPartition(topic, each, 0) for each in range(partitions)]
        )
        while len(ended) < partitions:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "nothing within a minute"
            error = message.error()
            if error is None:
                found.append((at(message), message.offset() or 0, message.value() or b""))
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                ended.add(at(message))
    finally:
        consumer.close()
    return [value for _, _, value in sorted(found)]


def at(message: confluent_kafka.Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition


def committed_offset(admin: AdminClient, group: str, topic: str) -> int:
    """The offset of partition 0 once no transaction holds it open; -1001 if none is committed.

    A transaction's end is answered before its markers. Until then the offset is unstable, which
    librdkafka's admin client reports and does not retry.
    """
    asked = ConsumerGroupTopicPartitions(group, [confluent_kafka.TopicPartition(topic, 0)])

    def ask() -> confluent_kafka.TopicPartition:
        found = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result()
        return found.topic_partitions[0]

    def is_stable() -> bool:
        error = ask().error
        return error is None or error.code() != confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT

    until(is_stable)
    partition = ask()
    assert partition.error is None, partition.error
    return int(partition.offset)


def test_committed_records_are_read_and_aborted_ones_are_not(
    broker: Broker, new_topic: NewTopic, library: type[TransactionalProducer], transactional_id: str
) -> None:
    topic = new_topic(partitions=2)
    with producer(library, broker, transactional_id) as sender:
        for name, ends in (("a", sender.commit), ("b", sender.abort), ("c", sender.commit)):
            sender.begin()
            sender.send(topic, f"{name}0".encode(), 0)
            sender.send(topic, f"{name}1".encode(), 1)
            ends()
        sender.begin()
        sender.send(topic, b"open", 0)
        assert read(broker, topic, partitions=2) == [b"a0", b"c0", b"a1", b"c1"]
        everything = read(broker, topic, committed=False, partitions=2)
        assert everything == [b"a0", b"b0", b"c0", b"open", b"a1", b"b1", b"c1"]
        sender.abort()


def test_transactions_follow_each_other_without_a_pause(
    broker: Broker, new_topic: NewTopic, library: type[TransactionalProducer], transactional_id: str
) -> None:
    """The next one begins while the markers of the one before are being written."""
    topic = new_topic()
    with producer(library, broker, transactional_id) as sender:
        for number in range(30):
            sender.begin()
            sender.send(topic, b"%d" % number)
            if number % 3:
                sender.commit()
            else:
                sender.abort()
    expected = [b"%d" % number for number in range(30) if number % 3]
    until(lambda: read(broker, topic) == expected)  # A commit is answered before its marker.
    assert read(broker, topic) == expected


def test_offsets_are_committed_with_the_records_or_not_at_all(
    broker: Broker,
    admin: AdminClient,
    new_topic: NewTopic,
    library: type[TransactionalProducer],
    transactional_id: str,
) -> None:
    topic, group = new_topic(), f"group-{next(numbers)}"
    with producer(library, broker, transactional_id) as sender:
        for offset, ends in ((5, sender.commit), (9, sender.abort)):
            sender.begin()
            sender.send(topic, b"%d" % offset)
            sender.commit_offsets(group, {(topic, 0): offset})
            ends()
            assert committed_offset(admin, group, topic) == 5
    assert read(broker, topic) == [b"5"]


def test_offsets_alone_make_a_transaction(
    broker: Broker,
    admin: AdminClient,
    new_topic: NewTopic,
    library: type[TransactionalProducer],
    transactional_id: str,
) -> None:
    topic, group = new_topic(), f"group-{next(numbers)}"
    with producer(library, broker, transactional_id) as sender:
        sender.begin()
        sender.commit_offsets(group, {(topic, 0): 7})
        sender.commit()
    assert committed_offset(admin, group, topic) == 7


def test_second_producer_of_an_id_shuts_out_the_first(
    broker: Broker, new_topic: NewTopic, library: type[TransactionalProducer], transactional_id: str
) -> None:
    """The zombie's open transaction is aborted, and nothing of it can be committed."""
    topic = new_topic()
    with producer(library, broker, transactional_id) as zombie:
        zombie.begin()
        zombie.send(topic, b"zombie")
        with producer(library, broker, transactional_id) as successor:
            successor.begin()
            successor.send(topic, b"successor")
            with pytest.raises(library.refused):
                send_and_commit(zombie, topic, b"late")
            successor.commit()
    until(lambda: read(broker, topic) == [b"successor"])
    assert read(broker, topic) == [b"successor"]


def send_and_commit(sender: TransactionalProducer, topic: str, value: bytes) -> None:
    sender.send(topic, value)
    sender.commit()


def test_transaction_that_outlives_its_timeout_is_aborted(
    broker: Broker, new_topic: NewTopic, library: type[TransactionalProducer], transactional_id: str
) -> None:
    topic = new_topic()
    with producer(library, broker, transactional_id, timeout_ms=1_000) as late:
        late.begin()
        late.send(topic, b"late")
        with producer(library, broker, f"{transactional_id}-other") as sender:
            sender.begin()
            sender.send(topic, b"in time")
            sender.commit()
        # The open transaction holds up readers until its timeout.
        until(lambda: read(broker, topic) == [b"in time"])
        with pytest.raises(library.refused):
            late.commit()
    assert read(broker, topic) == [b"in time"]
