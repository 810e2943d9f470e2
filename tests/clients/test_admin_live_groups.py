"""Admin operations on groups with members: descriptions, lag, and refused changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from odradek import Admin, Consumer, TopicPartition
from odradek.client.admin import groups
from odradek.client.admin.results import Group, Lag
from odradek.client.errors import GroupNotEmpty, GroupNotFound, UnknownMember
from odradek.protocol.api.describe_groups import DescribedGroup
from odradek.testing.broker import Broker

LONG_S = 60.0
COUNT = 5
PARTITIONS = 2


@pytest.fixture
def topic(broker: Broker, new_topic: Callable[..., str]) -> str:
    """A topic with records in all partitions."""
    name = new_topic(PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(COUNT * PARTITIONS):
        producer.produce(name, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(LONG_S) == 0
    return name


@pytest.fixture
def member(broker: Broker, topic: str) -> Iterator[Consumer[bytes, bytes]]:
    """The only member of group `topic`: it read everything and committed partition 0."""
    with Consumer(
        topic,
        brokers=broker.bootstrap,
        group=topic,
        client_id="a client",
        group_instance_id="seat",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for _ in range(COUNT * PARTITIONS):
            assert consumer.poll(LONG_S) is not None
        consumer.commit({TopicPartition(topic, 0): COUNT - 2})
        yield consumer


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(brokers=broker.bootstrap) as running:
        yield running


@pytest.fixture
def new_topic(admin: Admin, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Return `new_topic(partitions)`, which creates a topic named after the test."""

    def make(partitions: int) -> str:
        name: str = request.node.name
        admin.create_topic(name, partitions=partitions)
        return name

    return make


def test_a_member_is_described_with_its_assignment(
    admin: Admin, member: Consumer[bytes, bytes], topic: str
) -> None:
    group = admin.group(topic)
    assert (group.group_id, group.state, group.protocol_type) == (topic, "Stable", "consumer")
    assert group.assignor == "range"
    [one] = group.members
    assert one.instance_id == "seat"
    assert one.member_id.startswith("seat-")
    assert one.client_id == "a client"
    assert one.host == "/127.0.0.1"
    assert list(one.assignment) == member.assignment()
    assert Group(topic, "Stable", "classic", "consumer") in admin.groups(states=["Stable"])


def test_lag_includes_partitions_without_a_commit(
    admin: Admin, member: Consumer[bytes, bytes], topic: str
) -> None:
    lags = admin.lag(topic)
    assert lags == {
        TopicPartition(topic, 0): Lag(COUNT - 2, 0, COUNT),
        TopicPartition(topic, 1): Lag(None, 0, COUNT),
    }
    assert [lag.lag for lag in lags.values()] == [2, COUNT]


def test_offsets_of_partitions_with_members_are_not_changed(
    admin: Admin, member: Consumer[bytes, bytes], topic: str
) -> None:
    first = TopicPartition(topic, 0)
    before = admin.group_offsets(topic)
    with pytest.raises(GroupNotEmpty, match="stop the members"):
        admin.delete_group(topic)
    with pytest.raises(GroupNotEmpty, match="1 member,"):
        admin.seek_group(topic, "start")
    with pytest.raises(GroupNotEmpty, match=f"{topic}-0.*stop the members"):
        admin.delete_group_offsets(topic, [first])
    with pytest.raises(UnknownMember):
        admin.alter_group_offsets(topic, {first: 1})
    assert admin.group_offsets(topic) == before
    plan = admin.seek_group(topic, "start", dry_run=True)
    assert plan[first] == (COUNT - 2, 0)
    assert admin.group(topic).state == "Stable"


def test_offsets_of_a_group_of_another_protocol_with_members_are_not_changed(
    admin: Admin, member: Consumer[bytes, bytes], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_classic(described: DescribedGroup) -> None:
        raise GroupNotFound(f"Group {described.group_id} is not a classic group.")

    monkeypatch.setattr(groups, "description_of", not_classic)
    with pytest.raises(GroupNotEmpty, match="is Stable, so it has members"):
        admin.seek_group(topic, {})
    assert admin.seek_group("nobody yet", {}) == {}
