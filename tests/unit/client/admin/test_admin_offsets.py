"""Offsets by the admin client: those of logs, and those of groups."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from odradek.client.admin.admin import AdminCalls
from odradek.client.admin.results import Lag
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.consumer import Consumer
from odradek.client.blocking.producer import Producer
from odradek.client.errors import GroupNotFound, OffsetOutOfRange, UnknownTopicOrPartition
from odradek.config.keywords import ConsumerKeywords
from odradek.model.topics import TopicPartition
from odradek.testing import Broker

STAYING: ConsumerKeywords = {
    "group_instance_id": "closed, and expected back",
    "session_timeout_ms": 600_000,
    "enable_auto_commit": False,
}
"""Settings of a consumer that its group waits for."""


def produce(broker: Broker, partition: TopicPartition, count: int) -> None:
    """So many records, each with its offset for a timestamp."""
    with Producer(brokers=broker.bootstrap) as producer:
        sent = [
            producer.send(
                partition.topic, b"value", partition=partition.partition, timestamp=number
            )
            for number in range(count)
        ]
    assert [record.result().offset for record in sent] == list(range(count))


# Of records.


def test_offsets_of_logs_are_listed_and_old_records_deleted(admin: Admin, broker: Broker) -> None:
    admin.create_topic("log", partitions=2)
    first, second = admin.partitions_of(["log"])
    produce(broker, first, 10)
    assert admin.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert admin.end_offsets([first, second]) == {first: 10, second: 0}
    assert admin.delete_records({first: 4}) == {first: 4}
    assert admin.beginning_offsets([first]) == {first: 4}
    assert admin.delete_records({first: -1}) == {first: 10}
    with pytest.raises(OffsetOutOfRange, match="log-0 before offset 99"):
        admin.delete_records({first: 99})
    with pytest.raises(UnknownTopicOrPartition, match="has partitions 0 to 1"):
        admin.delete_records({TopicPartition("log", 7): 1})


def test_offsets_are_looked_up_by_time(admin: Admin, broker: Broker) -> None:
    admin.create_topic("timed")
    partition = TopicPartition("timed", 0)
    produce(broker, partition, 5)
    assert admin.list_offsets({partition: 3})[partition].offset == 3
    assert admin.list_offsets({partition: 10**15})[partition].offset == -1


def test_times_are_datetimes_or_milliseconds_and_all_else_is_refused(
    admin: Admin, broker: Broker
) -> None:
    admin.create_topic("dated")
    partition = TopicPartition("dated", 0)
    produce(broker, partition, 5)
    third = datetime.fromtimestamp(0.003, UTC)
    assert admin.list_offsets({partition: third})[partition].offset == 3
    given: list[Any] = [1.5e12, "1h", True, None]
    for moment in given:
        with pytest.raises(TypeError, match=r"no time.*What to do: .*datetime.*int"):
            admin.list_offsets({partition: moment})
    last_second = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    for before_all in (last_second, datetime(1960, 1, 1, tzinfo=UTC)):
        with pytest.raises(ValueError, match=r"begin with 1970.*What to do"):
            admin.list_offsets({partition: before_all})
        with pytest.raises(ValueError, match=r"begin with 1970.*What to do"):
            admin.seek_group("dates", before_all, topics="dated")


def test_partitions_may_be_pairs_and_topics_names(admin: Admin, broker: Broker) -> None:
    assert admin.create_topics_many(["pairs"]) == {"pairs": None}
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_many("pairs", ["v"] * 3, partition=0)
    pair, partition = ("pairs", 0), TopicPartition("pairs", 0)
    assert admin.list_offsets({pair: 1})[partition].offset == 0
    assert admin.end_offsets([pair]) == {partition: 3}
    assert admin.delete_records({pair: 2}) == {partition: 2}
    assert admin.beginning_offsets([pair]) == {partition: 2}
    admin.alter_group_offsets("pairs", {pair: 2})
    assert admin.group_offsets("pairs")[partition].offset == 2
    admin.delete_group_offsets("pairs", [pair])
    assert admin.group_offsets("pairs") == {}
    with pytest.raises(TypeError, match=r"'pairs' is no partition.*\('orders', 0\)"):
        admin.end_offsets(["pairs"])  # type: ignore[list-item]
    for ask in (admin.end_offsets, admin.beginning_offsets):
        with pytest.raises(TypeError, match=r"'pairs' is no partition"):
            ask("pairs")  # type: ignore[arg-type]


# Of groups.


def test_groups_and_their_offsets_are_listed_altered_and_deleted(
    admin: Admin, broker: Broker
) -> None:
    admin.create_topic("read", partitions=2)
    first, second = admin.partitions_of(["read"])
    produce(broker, first, 10)
    admin.alter_group_offsets("readers", {first: 4, second: 0})
    assert {p: each.offset for p, each in admin.group_offsets("readers").items()} == {
        first: 4,
        second: 0,
    }
    assert "readers" in [group.group_id for group in admin.groups()]
    assert admin.group("readers").state == "Empty"
    assert admin.lag("readers")[first].lag == 6
    plan = admin.seek_group("readers", "end", dry_run=True)
    assert (plan.group_id, plan.dry_run) == ("readers", True)
    assert plan == {first: (4, 10), second: (0, 0)}
    assert admin.group_offsets("readers")[first].offset == 4
    assert not admin.seek_group("readers", 4).dry_run
    admin.seek_group("readers", datetime.fromtimestamp(0.007, UTC))
    assert admin.group_offsets("readers")[first].offset == 7
    admin.delete_group_offsets("readers", [second])
    assert list(admin.group_offsets("readers")) == [first]
    assert admin.delete_groups_many(["readers"]) == {"readers": None}
    with pytest.raises(GroupNotFound, match="readers"):
        admin.group("readers")
    with pytest.raises(GroupNotFound):
        admin.delete_group("readers")
    assert not admin.delete_group("readers", missing_ok=True)


def test_one_group_name_is_not_read_as_a_list_of_letters(admin: Admin, broker: Broker) -> None:
    """Also in calls for several groups."""
    admin.create_topic("letters")
    (first,) = admin.partitions_of("letters")
    for group_id in ("gh", "g", "h"):
        admin.alter_group_offsets(group_id, {first: 0})
    assert {group.group_id for group in admin.groups(states="Empty")} >= {"gh", "g", "h"}
    assert {group.group_id for group in admin.groups(types="classic")} >= {"gh", "g", "h"}
    assert list(admin.describe_groups("gh")) == ["gh"]
    assert admin.delete_groups_many("gh") == {"gh": None}
    assert admin.group_offsets("g") and admin.group_offsets("h")
    assert list(admin.seek_group("g", "end", topics="letters")) == [first]


@pytest.mark.parametrize("to", [-1, 1.5, True, "middle", None])
def test_an_invalid_target_of_a_move_is_refused(admin: Admin, to: Any) -> None:
    """-1 means the end to `list_offsets`, and once meant the start to this call."""
    admin.create_topic("places", exist_ok=True)
    (first,) = admin.partitions_of("places")
    admin.alter_group_offsets("placed", {first: 5})
    with pytest.raises((TypeError, ValueError), match=r'What to do: .*"start", "end"'):
        admin.seek_group("placed", to)
    with pytest.raises((TypeError, ValueError), match=r"offset.*What to do"):
        admin.seek_group("placed", {first: to})
    with pytest.raises((TypeError, ValueError), match=r"offset.*What to do"):
        admin.alter_group_offsets("placed", {first: to})
    assert admin.group_offsets("placed")[first].offset == 5


def test_a_move_to_exact_offsets_may_name_partitions_by_pairs(admin: Admin) -> None:
    admin.create_topic("exact")
    assert admin.seek_group("exactly", {("exact", 0): 2}, dry_run=True) == {
        TopicPartition("exact", 0): (None, 2)
    }
    assert [each.topic for each in admin.seek_group("exactly", {("exact", 0): 1})] == ["exact"]
    assert admin.group_offsets("exactly")[TopicPartition("exact", 0)].offset == 1


def test_moving_an_unknown_group_raises_group_not_found(admin: Admin) -> None:
    for dry_run in (False, True):
        with pytest.raises(GroupNotFound, match="typo"):
            admin.seek_group("typo", "end", dry_run=dry_run)
    admin.create_topic("first-read")
    plan = admin.seek_group("typo", "end", topics=["first-read"])
    assert plan == {TopicPartition("first-read", 0): (None, 0)}, "which makes the group"


def test_lag_and_moves_work_for_groups_of_another_protocol(
    admin: Admin, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DescribeGroups does not know it (KIP-848), but its committed offsets can be read."""

    async def not_classic(self: AdminCalls, group_id: str) -> None:
        raise GroupNotFound(f"group {group_id} is not a classic group")

    admin.create_topic("read-by-others")
    (first,) = admin.partitions_of(["read-by-others"])
    produce(broker, first, 5)
    admin.alter_group_offsets("others", {first: 3})
    monkeypatch.setattr(AdminCalls, "group", not_classic)
    assert admin.lag("others")[first].lag == 2
    admin.seek_group("others", "start")
    assert admin.lag("others")[first].lag == 5
    with Consumer("read-by-others", brokers=broker.bootstrap, group="new", **STAYING) as member:
        while not member.assignment():
            member.poll(0.1)
    assert admin.lag("new") == {}
    with pytest.raises(GroupNotFound):
        admin.lag("nobody")


def test_lag_is_known_although_a_member_still_has_a_deleted_topic(
    admin: Admin, broker: Broker
) -> None:
    for topic in ("kept", "deleted"):
        admin.create_topic(topic)
    kept, deleted = TopicPartition("kept", 0), TopicPartition("deleted", 0)
    produce(broker, kept, 3)
    with Consumer(
        "kept",
        "deleted",
        brokers=broker.bootstrap,
        group="slow-to-notice",
        **STAYING,
    ) as member:
        while len(member.assignment()) < 2:
            member.poll(0.1)
    admin.delete_topic("deleted")
    [still] = admin.group("slow-to-notice").members
    assert still.assignment == (deleted, kept)
    lags = admin.lag("slow-to-notice")
    assert lags[deleted] == Lag(None, None, None)
    assert lags[deleted].lag is None
    assert (lags[kept].start, lags[kept].end) == (0, 3)
