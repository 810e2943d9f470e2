"""Our consumers in groups at our broker: rebalances lose and repeat no record."""

from __future__ import annotations

import threading

import pytest

from clients.group_readers import COOPERATIVE, EAGER, PATIENCE_S, NewTopic, Reader, consumer, until
from odradek import Producer
from odradek.client.errors import CommitFailed, FencedInstance
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker

STREAM_MAX = 120_000
"""Records of a stream: enough to last over every rebalance on a slow machine."""


class Stream(threading.Thread):
    """Writes records to all partitions continuously until it is stopped."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.ending = threading.Event()
        self.sent = 0
        self._brokers, self._topic, self._partitions = broker.bootstrap, topic, partitions

    def run(self) -> None:
        with Producer(brokers=self._brokers) as producer:
            while not self.ending.is_set() and self.sent < STREAM_MAX:
                for partition in range(self._partitions):
                    producer.send(self._topic, b"%d" % self.sent, partition=partition)
                    self.sent += 1
                if self.sent % 120 == 0:
                    producer.flush(PATIENCE_S)

    def end(self) -> int:
        """Stop, and return the number of records."""
        self.ending.set()
        self.join(PATIENCE_S)
        return self.sent


@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE])
def test_a_rebalance_loses_and_repeats_no_record(
    broker: Broker, new_topic: NewTopic, strategy: str
) -> None:
    topic, partitions = new_topic(6), 6
    settings = {"partition.assignment.strategy": strategy, "auto.commit.interval.ms": 60_000}
    stream = Stream(broker, topic, partitions)
    stream.start()
    first = Reader(consumer(broker, topic, **settings), topic)
    first.start()
    until(lambda: len(first.values) > 500, "the first member reads")
    second = Reader(consumer(broker, topic, **settings), topic)
    second.start()
    until(lambda: len(first.owned) == len(second.owned) == 3, "the two share the partitions")
    first.end()
    until(lambda: len(second.owned) == partitions, "the second member has all")
    count = stream.end()
    until(lambda: len(first.values) + len(second.values) >= count, "all is read")
    second.end()
    found = sorted(map(int, first.values + second.values))
    assert found == list(range(count))


def test_leaving_a_group_rebalances_it_at_once(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    stays = Reader(consumer(broker, topic, **{"session.timeout.ms": 120_000}), topic)
    with consumer(broker, topic, **{"session.timeout.ms": 120_000}) as goes:
        goes.subscribe([topic])
        until(lambda: goes.poll(0.05) is None and len(goes.assignment()) == 2, "it has all")
        stays.start()
        until(lambda: goes.poll(0.05) is None and len(goes.assignment()) == 1, "it has one")
        until(lambda: len(stays.owned) == 1, "and so has the other")
        goes.unsubscribe()
        assert goes.assignment() == []
        until(lambda: len(stays.owned) == 2, "the other one has all")
    stays.end()


def test_a_member_that_exceeds_the_poll_interval_loses_its_partitions(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    settings = {"max.poll.interval.ms": 1000, "enable.auto.commit": False}
    with consumer(broker, topic, **settings) as slow:
        lost: list[list[TopicPartition]] = []
        slow.subscribe([topic], on_lost=lambda _, partitions: lost.append(partitions))
        until(lambda: slow.poll(0.05) is None and len(slow.assignment()) == 2, "it has all")
        other = Reader(
            consumer(broker, topic, **{**settings, "max.poll.interval.ms": 60_000}), topic
        )
        other.start()
        until(lambda: len(other.owned) == 2, "the other one gets all of them")
        with pytest.raises(CommitFailed):
            slow.commit({TopicPartition(topic, 0): 5}, timeout=PATIENCE_S)
        until(lambda: slow.poll(0.05) is None and bool(lost), "it is told")
        assert sorted(lost[0]) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        other.end()


def test_a_second_member_of_the_same_instance_id_fences_the_first(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    with consumer(broker, topic, group_instance_id="only") as first:
        first.subscribe([topic])
        until(lambda: first.poll(0.05) is None and bool(first.assignment()), "it has joined")
        second = Reader(consumer(broker, topic, group_instance_id="only"), topic)
        second.start()
        until(lambda: bool(second.owned), "the second one has its place")

        def fenced() -> bool:
            try:
                first.poll(0.05)
            except FencedInstance:
                return True
            return False

        until(fenced, "the first one is told")
        second.end()
