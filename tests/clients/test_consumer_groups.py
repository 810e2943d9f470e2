"""Our consumers in groups at our broker, as a program uses them."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

import odradek.aio
from odradek import Admin, Consumer, Producer
from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
)
from odradek.client.errors import CommitFailed, ConfigError, FencedInstance
from odradek.model.ids import TopicPartition
from odradek.protocol.consumer_protocol import Assignment, Subscription
from odradek.testing.broker import Broker

pytestmark = pytest.mark.timeout(300)

NewTopic = Callable[..., str]
PATIENCE_S = 90
STREAM_MAX = 120_000
"""Records of a stream: enough to be under way at any rebalance, however slow the machine is."""
EAGER, COOPERATIVE = "range", "cooperative-sticky"


def consumer(broker: Broker, group: str, **settings: Any) -> Consumer[bytes, bytes]:
    """A member that hears of rebalances soon, and is given time on a busy machine."""
    given = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 60_000,
        "auto.offset.reset": "earliest",
    }
    return Consumer(given | {name.replace("_", "."): value for name, value in settings.items()})


def produce(broker: Broker, topic: str, partitions: int, count: int) -> set[bytes]:
    """Records in all partitions; their values."""
    values = [b"%d" % number for number in range(count)]
    with Producer(brokers=broker.bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % partitions)
    return set(values)


class Stream(threading.Thread):
    """Records in all partitions, without a pause, until it is told to end."""

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
        """How many records there are."""
        self.ending.set()
        self.join(PATIENCE_S)
        return self.sent


class Reader(threading.Thread):
    """An application on a thread of its own: it polls record by record, until it is told to end."""

    def __init__(self, member: Consumer[bytes, bytes], topic: str) -> None:
        super().__init__(daemon=True)
        self.member = member
        self.values: list[bytes] = []
        self.calls: list[tuple[str, list[int]]] = []
        self.owned: frozenset[int] = frozenset()
        self.ending = threading.Event()
        self.error: BaseException | None = None
        member.subscribe(
            [topic],
            on_assign=self._noting("assigned"),
            on_revoke=self._noting("revoked"),
            on_lost=self._noting("lost"),
        )

    def _noting(self, what: str) -> Callable[[Any, list[TopicPartition]], None]:
        def note(_: Any, partitions: list[TopicPartition]) -> None:
            numbers = [partition.partition for partition in partitions]
            self.calls.append((what, numbers))
            changed = self.owned | set(numbers) if what == "assigned" else self.owned - set(numbers)
            self.owned = frozenset(changed)

        return note

    def run(self) -> None:
        try:
            with self.member:
                while not self.ending.is_set():
                    record = self.member.poll(0.05)
                    if record is not None:
                        self.values.append(record.value)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.ending.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        assert self.error is None, self.error


def offsets(member: Consumer[bytes, bytes], count: int) -> list[int]:
    """Of the next records, one by one."""
    records = [member.poll(PATIENCE_S) for _ in range(count)]
    return [record.offset for record in records if record is not None]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        pause.wait(0.01)


@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE])
def test_members_hand_over_without_losing_or_repeating_a_record(
    broker: Broker, new_topic: NewTopic, strategy: str
) -> None:
    """What was handed out is committed before a partition is given up, and nothing more comes of
    it after that; so the next owner goes on exactly there."""
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


Calls = list[tuple[str, list[int]]]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (
            EAGER,
            [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0]), ("revoked", [0])],
        ),
        (
            COOPERATIVE,
            [
                ("assigned", [0, 1]),
                ("revoked", [1]),
                ("assigned", []),
                ("assigned", []),
                ("revoked", [0]),
            ],
        ),
    ],
)
def test_the_listener_is_called_as_in_java(
    broker: Broker, new_topic: NewTopic, strategy: str, expected: Calls
) -> None:
    """Eager: everything goes and comes. Cooperative: only what moves, and `assigned` even if that
    is nothing."""
    topic = new_topic(2)
    settings = {"partition.assignment.strategy": strategy}
    first = Reader(consumer(broker, topic, group_instance_id="a", **settings), topic)
    first.start()
    until(lambda: len(first.owned) == 2, "the first member has all")
    second = Reader(consumer(broker, topic, group_instance_id="b", **settings), topic)
    second.start()
    until(lambda: len(second.owned) == 1, "the second member has its share")
    until(lambda: first.calls == expected[:-1], f"calls up to the end: {expected}")
    first.end()
    second.end()
    assert first.calls == expected


def test_offsets_are_committed_in_the_listener_and_found_by_the_next_owner(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 1, 10)
    settings = {"enable.auto.commit": False}
    with consumer(broker, topic, **settings) as member:
        committed = []

        def commit(member: Any, partitions: list[TopicPartition]) -> None:
            committed.append(member.commit(timeout=PATIENCE_S))

        member.subscribe([topic], on_revoke=commit)
        assert offsets(member, 7) == list(range(7))
    assert [at.offset for kept in committed for at in kept.values()] == [7]
    with consumer(broker, topic, **settings) as member:
        member.subscribe([topic])
        assert offsets(member, 3) == [7, 8, 9]


def test_a_pattern_means_topics_that_come_later_too(broker: Broker, new_topic: NewTopic) -> None:
    stem = new_topic(1)
    with Admin(brokers=broker.bootstrap) as admin:
        admin.create_topic(f"{stem}-one", partitions=1)
        with consumer(broker, stem, metadata_max_age_ms=200) as member:
            member.subscribe(re.compile(f"{stem}-.*"))
            owned: set[str] = set()

            def has(*names: str) -> bool:
                member.poll(0.05)
                owned.clear()
                owned.update(partition.topic for partition in member.assignment())
                return owned == {f"{stem}-{name}" for name in names}

            until(lambda: has("one"), "the topic that matches")
            admin.create_topic(f"{stem}-two", partitions=2)
            until(lambda: has("one", "two"), "the topic that came later")


def test_a_pattern_is_assigned_as_soon_as_its_topics_are_known(
    broker: Broker, new_topic: NewTopic
) -> None:
    """Long before metadata.max.age.ms."""
    topic = new_topic(2)
    with consumer(broker, topic) as member:
        member.subscribe(re.compile(f"{topic}|no-such-topic"))
        until(lambda: member.poll(0.05) is None and len(member.assignment()) == 2, "it has all")


def test_who_stays_away_too_long_has_lost_its_partitions(
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


def test_what_a_listener_raises_the_poll_raises_and_the_consumer_goes_on(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 1, 3)

    def complain(_: Any, partitions: list[TopicPartition]) -> None:
        if partitions:
            raise LookupError("no table for this partition")

    with consumer(broker, topic) as member:
        member.subscribe([topic], on_assign=complain)
        with pytest.raises(LookupError, match="no table"):
            member.poll(PATIENCE_S)
        assert offsets(member, 3) == [0, 1, 2]


class CtrlC(BaseException):
    """Like a KeyboardInterrupt, which would end the run of the tests as well."""


def test_ctrl_c_in_a_listener_reaches_the_user_once_and_the_consumer_goes_on(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    produce(broker, topic, 1, 3)
    calls: list[list[TopicPartition]] = []

    def interrupted(_: Any, partitions: list[TopicPartition]) -> None:
        calls.append(partitions)
        raise CtrlC

    with consumer(broker, topic) as member:
        member.subscribe([topic], on_assign=interrupted)
        with pytest.raises(CtrlC):
            member.poll(PATIENCE_S)
        assert offsets(member, 3) == [0, 1, 2]
    assert calls == [[TopicPartition(topic, 0)]]


def test_leaving_is_heard_at_once(broker: Broker, new_topic: NewTopic) -> None:
    """Unsubscribing and closing leave the group: nobody waits for a session to run out."""
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


def test_awaited_listeners_commit_before_they_give_up(broker: Broker, new_topic: NewTopic) -> None:
    """The awaited face calls the same listeners, which may await."""
    topic = new_topic(1)
    produce(broker, topic, 1, 5)
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    told: list[str] = []

    async def assigned(_: Any, partitions: list[TopicPartition]) -> None:
        told.append("assigned")

    async def revoked(member: Any, partitions: list[TopicPartition]) -> None:
        await member.commit(timeout=PATIENCE_S)
        told.append("revoked")

    async def read(count: int) -> list[int]:
        async with odradek.aio.Consumer(settings) as member:
            await member.subscribe([topic], on_assign=assigned, on_revoke=revoked)
            records = [await member.poll(PATIENCE_S) for _ in range(count)]
            return [record.offset for record in records if record is not None]

    assert asyncio.run(read(3)) == [0, 1, 2]
    assert asyncio.run(read(2)) == [3, 4]
    assert told == ["assigned", "revoked"] * 2


class EverythingToTheLast(PartitionAssignor):
    """An assignor of the user's own, which tells its leader something about each member."""

    name = "everything-to-the-last"

    def __init__(self, wish: bytes) -> None:
        self.wish = wish
        self.told: list[bytes | None] = []

    def subscription_user_data(self, topics: Collection[str]) -> bytes:
        return self.wish

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        wishes = {member: each.user_data or b"" for member, each in subscriptions.items()}
        last = max(wishes, key=lambda member: wishes[member])
        everything = [
            TopicPartition(t, n) for t, c in partitions_per_topic.items() for n in range(c)
        ]
        return {
            member: Assignment(everything if member == last else [], b"of " + wishes[last])
            for member in subscriptions
        }

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self.told.append(assignment.user_data)


def test_users_bring_their_own_assignor(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    first, last = EverythingToTheLast(b"a"), EverythingToTheLast(b"z")
    with consumer(broker, topic, assignors=[first]) as member:
        member.subscribe([topic])
        until(lambda: member.poll(0.05) is None and len(member.assignment()) == 3, "it has all")
        other = Reader(consumer(broker, topic, assignors=[last]), topic)
        other.start()
        until(lambda: member.poll(0.05) is None and len(other.owned) == 3, "the last one has all")
        other.end()
    assert first.told[:2] == [b"of a", b"of z"]
    assert last.told == [b"of z"]


def test_an_assignor_that_cannot_be_is_refused_at_once(broker: Broker) -> None:
    for wrong in ([], ["rnage"], [3], [EverythingToTheLast(b"a"), EverythingToTheLast(b"b")]):
        with pytest.raises(ConfigError, match="assignor"):
            consumer(broker, "g", assignors=wrong)
    with pytest.raises(ConfigError, match="not both"):
        consumer(broker, "g", assignors=["range"], partition_assignment_strategy="range")
