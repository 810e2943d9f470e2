"""Plans of replicas: as many as asked for, on as few new brokers as possible, leaders spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.replica_plan import Placement, Plan, PlanError, Planner, Replicas
from odradek.model.topics import TopicPartition


def partition(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def placed(*replicas: Replicas) -> dict[TopicPartition, Placement]:
    """Partitions 0, 1, ... with these replicas, led by the first, all in sync."""
    return {partition(n): Placement(each, each[0], each) for n, each in enumerate(replicas)}


def brokers(*ids: int, **racks: str) -> dict[int, str | None]:
    return {each: racks.get(f"b{each}") for each in ids}


def replicas_of(plan: Plan) -> list[Replicas]:
    return list(plan.values())


def test_growing_adds_replicas_on_the_brokers_with_the_fewest() -> None:
    plan = Planner(brokers(1, 2, 3), placed((1,), (1,), (1,))).grow(2)
    assert sorted(Counter(each for r in plan.values() for each in r).items()) == [
        (1, 3),
        (2, 2),
        (3, 1),
    ]
    assert all(1 in replicas and len(replicas) == 2 for replicas in plan.values())


def test_growing_spreads_the_leaders() -> None:
    plan = Planner(brokers(1, 2, 3), placed(*[(1,)] * 6)).grow(3)
    assert Counter(replicas[0] for replicas in plan.values()) == {1: 2, 2: 2, 3: 2}


def test_growing_spreads_the_leaders_of_each_topic() -> None:
    before = {
        TopicPartition(topic, number): Placement((1,), 1, (1,))
        for topic, count in (("a", 50), ("b", 6), ("c", 1), ("d", 1), ("e", 1))
        for number in range(count)
    }
    plan = Planner(brokers(1, 2, 3), before).grow(3)
    leaders = Counter((key.topic, replicas[0]) for key, replicas in plan.items())
    assert [leaders["b", broker] for broker in (1, 2, 3)] == [2, 2, 2]
    assert sorted(leaders["a", broker] for broker in (1, 2, 3)) == [16, 17, 17]
    assert max(Counter(replicas[0] for replicas in plan.values()).values()) <= 20


def test_growing_beyond_the_number_of_brokers_gives_each_one_replica() -> None:
    plan = Planner(brokers(1, 2), placed((1,))).grow(3)
    assert plan == {partition(0): (1, 2)}


def test_growing_changes_nothing_where_nothing_is_missing() -> None:
    assert Planner(brokers(1, 2, 3), placed((1, 2), (2, 3), (3, 1))).grow(2) == {}


def test_a_new_replica_goes_to_a_rack_that_has_none() -> None:
    racks = brokers(1, 2, 3, b1="a", b2="a", b3="b")
    assert Planner(racks, placed((1,), (3,), (3, 1))).grow(2)[partition(0)] == (1, 3)


def test_draining_puts_another_broker_in_the_same_place() -> None:
    plan = Planner(brokers(1, 2, 3), placed((1, 2), (2, 1), (2, 3))).drain(1)
    assert plan == {partition(0): (3, 2), partition(1): (2, 3)}


def test_draining_is_refused_where_no_broker_is_left_for_a_replica() -> None:
    with pytest.raises(PlanError, match=r"orders-0 has 2 replicas.*--replicas 1\)"):
        Planner(brokers(1, 2), placed((1, 2))).drain(1)
    with pytest.raises(PlanError, match="no other broker"):
        Planner(brokers(1), placed((1,))).drain(1)


def moving(
    replicas: Replicas, *, adding: Replicas = (), removing: Replicas = ()
) -> dict[TopicPartition, Placement]:
    """Partition 0, which is being moved to these replicas."""
    return {partition(0): Placement(replicas, replicas[0], (), adding, removing)}


def test_a_move_under_way_is_planned_again_only_where_its_broker_is_gone() -> None:
    at = moving((1, 4, 3), adding=(4,), removing=(2,))
    assert Planner(brokers(1, 2, 3, 4), at).drain(2) == {}
    assert Planner(brokers(1, 2, 3, 5), at).drain(2) == {partition(0): (1, 5, 3)}
    assert Planner(brokers(1, 2, 3), at).drain(2) == {}  # There is no other: it goes on waiting.

    at = moving((1, 3), adding=(3,))
    assert Planner(brokers(1, 2, 3), at).grow(2) == {}
    assert Planner(brokers(1, 2), at).grow(2) == {partition(0): (1, 2)}
    assert Planner(brokers(1), at).grow(2) == {}
    assert Planner(brokers(1, 2, 4), at).grow(3) == {partition(0): (1, 2, 4)}
    assert Planner(brokers(1, 2), at).resize([partition(0)], 2) == {partition(0): (1, 2)}


def test_a_broker_that_was_stopped_keeps_the_replicas_that_it_has() -> None:
    at = {partition(0): Placement((1, 2, 3), 1, (1, 2))}
    assert Planner(brokers(1, 2, 4), at).grow(3) == {}


def test_draining_a_broker_that_only_copies_gives_up_what_no_other_can_have() -> None:
    assert Planner(brokers(1, 2, 3), moving((1, 2, 3), adding=(2, 3))).drain(3) == {
        partition(0): (1, 2)
    }
    assert Planner(brokers(1, 3), moving((1, 3), adding=(3,), removing=(2,))).drain(3) == {
        partition(0): (1, 2)
    }
    assert Planner(brokers(1, 3, 4), moving((1, 3), adding=(3,))).drain(3) == {partition(0): (1, 4)}


def test_draining_takes_back_what_has_the_records_rather_than_wait_for_a_stopped_broker() -> None:
    to_others = Placement((3, 4), 1, (1, 2), adding=(3, 4), removing=(1, 2))
    assert Planner(brokers(1, 3), {partition(0): to_others}).drain(3) == {partition(0): (1, 2)}
    more = Placement((1, 3, 4), 1, (1, 2), adding=(3, 4), removing=(2,))
    assert Planner(brokers(1, 3), {partition(0): more}).drain(3) == {partition(0): (1, 2)}
    away = Placement((1, 4), 1, (1, 3), adding=(4,), removing=(2, 3))
    assert Planner(brokers(1), {partition(0): away}, cordoned=[2, 3]).drain(3) == {
        partition(0): (1, 2)
    }
    # A cordoned broker that runs goes on copying.
    assert Planner(brokers(1), {partition(0): away}, cordoned=[2, 3, 4]).drain(3) == {}


def test_a_copy_to_the_only_open_broker_is_given_up_where_its_source_is_cordoned() -> None:
    at = {partition(0): Placement((3,), 1, (1,), adding=(3,), removing=(1,))}
    assert Planner(brokers(3), at, cordoned=[1]).drain(3) == {partition(0): (1,)}


def test_a_refused_plan_names_the_cordoned_brokers_that_could_take_the_replicas() -> None:
    none_open = "no other broker that is not cordoned .*: odradek cluster uncordon 2, or start"
    with pytest.raises(PlanError, match=none_open):
        Planner(brokers(1), placed((1,)), cordoned=[2]).drain(1)
    with pytest.raises(PlanError, match=r"uncordon BROKER \(one of 2, 3\), or start"):
        Planner(brokers(1), placed((1,)), cordoned=[2, 3]).drain(1)
    with pytest.raises(PlanError, match="What to do: odradek cluster uncordon 4, or start another"):
        Planner(brokers(1, 2), placed((1, 2, 3)), cordoned=[3, 4]).drain(1)
    with pytest.raises(PlanError, match="What to do: start another one first"):
        Planner(brokers(1, 2), placed((1, 2, 3)), cordoned=[3]).drain(1)
    with pytest.raises(PlanError, match="What to do: odradek cluster uncordon 2, or start more"):
        Planner(brokers(1), placed((1,)), cordoned=[2]).resize([partition(0)], 2)
    with pytest.raises(PlanError, match="What to do: start more"):
        Planner(brokers(1), placed((1,))).resize([partition(0)], 2)


def test_fewer_replicas_leave_one_out_of_sync_before_one_on_a_cordoned_broker() -> None:
    at = {partition(0): Placement((1, 2, 3), 1, in_sync=(1, 2))}
    assert Planner(brokers(1, 3), at, cordoned=[2]).resize([partition(0)], 2) == {
        partition(0): (1, 2)
    }
    in_sync = placed((1, 2, 3))
    assert Planner(brokers(1, 3), in_sync, cordoned=[2]).resize([partition(0)], 2) == {
        partition(0): (1, 3)
    }


def test_fewer_replicas_keep_the_leader_and_those_in_sync() -> None:
    at = {partition(0): Placement((1, 2, 3), leader=3, in_sync=(1, 3))}
    assert Planner(brokers(1, 2, 3), at).resize([partition(0)], 2) == {partition(0): (1, 3)}
    assert Planner(brokers(1, 2, 3), at).resize([partition(0)], 1) == {partition(0): (3,)}


def test_fewer_replicas_leave_a_broker_that_is_down_first() -> None:
    plan = Planner(brokers(1, 2), placed((1, 2, 3))).resize([partition(0)], 2)
    assert plan == {partition(0): (1, 2)}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(PlanError, match="5 replicas need 5 brokers, and 2 are running"):
        Planner(brokers(1, 2), placed((1,))).resize([partition(0)], 5)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[int, str | None], dict[TopicPartition, Placement]]:
    """Up to six brokers in up to three racks, and partitions on some of them."""
    ids = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6, unique=True))
    racks = {each: draw(st.sampled_from([None, "a", "b", "c"])) for each in ids}
    some = st.lists(st.sampled_from(ids), min_size=1, max_size=len(ids), unique=True)
    return racks, placed(*[tuple(each) for each in draw(st.lists(some, max_size=12))])


def applied(
    placements: Mapping[TopicPartition, Placement], plan: Plan
) -> dict[TopicPartition, Placement]:
    return {
        key: Placement(plan[key], plan[key][0], plan[key]) if key in plan else placement
        for key, placement in placements.items()
    }


@given(clusters(), st.integers(1, 6))
def test_a_plan_that_was_carried_out_is_followed_by_none(
    cluster: tuple[dict[int, str | None], dict[TopicPartition, Placement]], count: int
) -> None:
    """So a command that was interrupted ends when it is called again."""
    racks, placements = cluster
    grown = applied(placements, Planner(racks, placements).grow(count))
    for key, placement in grown.items():
        before = set(placements[key].replicas)
        assert before <= set(placement.replicas) <= set(racks)
        assert len(placement.replicas) == max(len(before), min(count, len(racks)))
    changes = Planner(racks, grown).grow(count)
    assert all(set(changes[key]) == set(grown[key].replicas) for key in changes)
    resized = applied(grown, Planner(racks, grown).resize(grown, min(count, len(racks))))
    assert all(len(each.replicas) == min(count, len(racks)) for each in resized.values())
    assert Planner(racks, resized).resize(resized, min(count, len(racks))) == {}


@given(clusters(), st.data())
def test_a_drained_broker_has_nothing_and_no_partition_has_fewer_replicas(
    cluster: tuple[dict[int, str | None], dict[TopicPartition, Placement]], data: st.DataObject
) -> None:
    racks, placements = cluster
    broker = data.draw(st.sampled_from(sorted(racks)))
    try:
        after = applied(placements, Planner(racks, placements).drain(broker))
    except PlanError:
        on_all = any(set(p.replicas) == set(racks) for p in placements.values())
        assert on_all
        return
    for key, placement in after.items():
        assert broker not in placement.replicas
        assert len(set(placement.replicas)) == len(placements[key].replicas)
        moved = set(placement.replicas) - set(placements[key].replicas)
        assert len(moved) == (broker in placements[key].replicas)
