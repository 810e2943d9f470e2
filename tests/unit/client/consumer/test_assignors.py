"""The assignors by example; `tests/golden` compares them with Kafka's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from odradek.client.consumer.assignor.hash_order import hash_ordered, partition_hash, utf16_order
from odradek.client.consumer.assignor.partition_assignor import (
    ConsumerGroupMetadata,
    PartitionAssignor,
    RebalanceProtocol,
)
from odradek.client.consumer.assignor.range_roundrobin import RangeAssignor, RoundRobinAssignor
from odradek.client.consumer.assignor.registry import assignors, rebalance_protocol
from odradek.client.consumer.assignor.sticky import CooperativeStickyAssignor, StickyAssignor
from odradek.model.java_hash import string_hash
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import Assignment, Subscription


def partitions(text: str) -> list[TopicPartition]:
    """`a-0 a-1` as partitions."""
    made = (each.rpartition("-") for each in text.split())
    return [TopicPartition(topic, int(partition)) for topic, _, partition in made]


def members(topics: str, **owned: str) -> dict[str, Subscription]:
    """Members of generation 5 that want the same topics and own the given partitions."""
    return {
        name: Subscription(topics.split(), None, partitions(had), 5) for name, had in owned.items()
    }


def shares(assigned: Mapping[str, Assignment]) -> dict[str, str]:
    return {member: " ".join(map(str, got.partitions)) for member, got in assigned.items()}


def test_range_assigns_each_member_one_range_of_every_topic() -> None:
    assigned = RangeAssignor().assign({"a": 3, "b": 3}, members("a b", c0="", c1=""))
    assert shares(assigned) == {"c0": "a-0 a-1 b-0 b-1", "c1": "a-2 b-2"}


def test_range_keeps_a_static_members_place_when_its_member_id_changes() -> None:
    def group(static_id: str) -> dict[str, Subscription]:
        return {
            "member-a": Subscription(["a"]),
            static_id: Subscription(["a"], group_instance_id="i"),
        }

    first = RangeAssignor().assign({"a": 3}, group("member-z"))
    second = RangeAssignor().assign({"a": 3}, group("member-0"))
    assert shares(first)["member-z"] == shares(second)["member-0"] == "a-0 a-1"


def test_roundrobin_deals_partitions_one_by_one() -> None:
    assigned = RoundRobinAssignor().assign({"a": 3, "b": 3}, members("a b", c0="", c1=""))
    assert shares(assigned) == {"c0": "a-0 a-2 b-1", "c1": "a-1 b-0 b-2"}


def test_roundrobin_skips_members_without_the_topic() -> None:
    group = {"c0": Subscription(["a"]), "c1": Subscription(["a", "b"])}
    assigned = RoundRobinAssignor().assign({"a": 2, "b": 2}, group)
    assert shares(assigned) == {"c0": "a-0", "c1": "a-1 b-0 b-1"}


def sticky_group(topics: str, **owned: str) -> dict[str, Subscription]:
    """Subscriptions as the eager sticky assignor sends them, with the owned partitions in the user
    data.
    """
    group = {}
    for member, had in owned.items():
        assignor = StickyAssignor()
        assignor.on_assignment(Assignment(partitions(had)), ConsumerGroupMetadata("g", 5, member))
        group[member] = Subscription(topics.split(), assignor.subscription_user_data(()))
    return group


def test_sticky_moves_only_partitions_that_balance_requires() -> None:
    group = sticky_group("a", c0="a-0 a-2 a-4", c1="a-1 a-3 a-5", c2="")
    assigned = StickyAssignor().assign({"a": 6}, group)
    assert shares(assigned) == {"c0": "a-0 a-2", "c1": "a-1 a-3", "c2": "a-4 a-5"}


def test_cooperative_sticky_withholds_a_moving_partition_until_its_owner_revoked_it() -> None:
    assignor = CooperativeStickyAssignor()
    before = members("a", c0="a-0 a-2 a-4", c1="a-1 a-3 a-5", c2="")
    first = shares(assignor.assign({"a": 6}, before))
    assert first == {"c0": "a-0 a-2", "c1": "a-1 a-3", "c2": ""}
    second = shares(assignor.assign({"a": 6}, members("a", **first)))
    assert second == {"c0": "a-0 a-2", "c1": "a-1 a-3", "c2": "a-4 a-5"}


def test_sticky_balances_members_with_different_topics() -> None:
    group = {
        "c0": Subscription(["a", "b"], None, partitions("a-0 a-1 b-0 b-1"), 5),
        "c1": Subscription(["a"], None, (), 5),
        "c2": Subscription(["c"], None, partitions("c-0"), 5),
    }
    assigned = CooperativeStickyAssignor().assign({"a": 2, "b": 2, "c": 1}, group)
    assert shares(assigned) == {"c0": "b-0 b-1", "c1": "", "c2": "c-0"}
    group["c0"] = Subscription(["a", "b"], None, partitions("b-0 b-1"), 6)
    assigned = CooperativeStickyAssignor().assign({"a": 2, "b": 2, "c": 1}, group)
    assert shares(assigned) == {"c0": "b-0 b-1", "c1": "a-0 a-1", "c2": "c-0"}


def test_a_partition_claimed_twice_in_one_generation_has_no_owner() -> None:
    group = members("a", c0="a-0 a-1", c1="a-0 a-2")
    assigned = CooperativeStickyAssignor().assign({"a": 4}, group)
    held = {each for share in assigned.values() for each in share.partitions}
    assert held == set(partitions("a-1 a-2 a-3"))


def test_claims_of_partitions_that_no_longer_exist_are_ignored() -> None:
    group = members("a b", c0="a-0 a-7 b-0 gone-1", c1="a-1 b-1")
    assigned = CooperativeStickyAssignor().assign({"a": 2, "b": 2}, group)
    assert shares(assigned) == {"c0": "a-0 b-0", "c1": "a-1 b-1"}


def test_a_member_without_topics_gets_no_partitions() -> None:
    group = {"c0": Subscription([]), "c1": Subscription(["a"])}
    for assignor in assignors(["range", "roundrobin", "sticky", "cooperative-sticky"]):
        assert shares(assignor.assign({"a": 2}, group)) == {"c0": "", "c1": "a-0 a-1"}


def test_hash_codes_equal_javas() -> None:
    assert string_hash("") == 0
    assert string_hash("hello") == 99162322
    assert string_hash("polygenelubricants") == 0x80000000
    assert string_hash("\U0001f600") == 1772899
    assert partition_hash(TopicPartition("hello", 3)) == (31 + 3) * 31 + 99162322


def test_keys_are_ordered_as_in_a_java_hash_map() -> None:
    twelve = [str(number) for number in range(12)]
    assert " ".join(hash_ordered(twelve)) == "0 11 1 2 3 4 5 6 7 8 9 10"
    more = [*twelve, "x12", "x13"]
    assert " ".join(hash_ordered(more)) == "11 0 1 2 3 4 5 6 7 8 x12 9 x13 10"
    assert hash_ordered(["Aa", "BB"]) == ["Aa", "BB"]
    assert hash_ordered(["BB", "Aa"]) == ["BB", "Aa"]


def test_strings_are_ordered_by_utf16_units() -> None:
    assert sorted(["\uffff", "\U0001f600"], key=utf16_order) == ["\U0001f600", "\uffff"]


class FirstTakesAll(PartitionAssignor):
    """A user's own assignor."""

    name = "first"
    supported_protocols: tuple[RebalanceProtocol, ...] = (
        RebalanceProtocol.COOPERATIVE,
        RebalanceProtocol.EAGER,
    )

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        everything = [
            TopicPartition(t, p) for t, n in partitions_per_topic.items() for p in range(n)
        ]
        first = min(subscriptions)
        return {each: Assignment(everything if each == first else []) for each in subscriptions}


def test_an_assignor_is_given_as_name_java_class_class_or_instance() -> None:
    instance = FirstTakesAll()
    named: Sequence[str | type[PartitionAssignor] | PartitionAssignor] = [
        "range",
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        StickyAssignor,
        instance,
    ]
    made = assignors(named)
    assert [each.name for each in made] == ["range", "cooperative-sticky", "sticky", "first"]
    assert made[3] is instance


@pytest.mark.parametrize("strategy", [[], ["rang"], ["range", RangeAssignor]])
def test_an_invalid_strategy_raises_config_error(
    strategy: list[str | type[PartitionAssignor]],
) -> None:
    with pytest.raises(ValueError, match=r"partition\.assignment\.strategy"):
        assignors(strategy)


def test_the_rebalance_protocol_is_the_highest_that_all_assignors_support() -> None:
    assert rebalance_protocol(assignors(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE
    both = assignors(["range", "cooperative-sticky"])
    assert rebalance_protocol(both) is RebalanceProtocol.EAGER
    only_cooperative = FirstTakesAll()
    only_cooperative.supported_protocols = (RebalanceProtocol.COOPERATIVE,)
    with pytest.raises(ValueError, match="in common"):
        rebalance_protocol([only_cooperative, RangeAssignor()])
