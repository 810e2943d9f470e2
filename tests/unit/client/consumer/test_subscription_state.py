"""Every transition of the subscription, the assignment and a partition's fetch state."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from odradek.client.consumer.position.subscription_state import (
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    SubscriptionState,
    SubscriptionType,
)
from odradek.client.errors import IllegalState
from odradek.config.offset_reset import EARLIEST, LATEST, NONE, AutoOffsetResetStrategy
from odradek.model.topics import TopicPartition

ORDERS, OTHER, BILLS = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("bills", 0),
)


class Watched:
    """A state that counts the calls of `on_change`."""

    def __init__(self, reset: AutoOffsetResetStrategy = EARLIEST) -> None:
        self.state = SubscriptionState(reset)
        self.changes = 0
        self.state.on_change = self._changed

    def _changed(self) -> None:
        self.changes += 1

    def changed(self, action: Callable[[], object]) -> bool:
        """True if the action calls `on_change`."""
        before = self.changes
        action()
        return self.changes > before


def assigned(
    *partitions: TopicPartition, reset: AutoOffsetResetStrategy = EARLIEST
) -> SubscriptionState:
    """A state with these partitions, assigned by the user."""
    state = SubscriptionState(reset)
    state.assign_from_user(partitions)
    return state


def reading(offset: int = 5, epoch: int = 2) -> SubscriptionState:
    """A state with one partition that is read from `offset` on and whose leader is known."""
    state = assigned(ORDERS)
    state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
    state.seek(ORDERS, FetchPosition(offset, epoch))
    state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
    state.state(ORDERS).validated()
    assert state.state(ORDERS).state is FetchState.FETCHING
    return state


class TestSubscription:
    def test_a_new_state_has_no_subscription(self) -> None:
        state = SubscriptionState(EARLIEST)
        assert state.type is SubscriptionType.NONE
        assert state.assigned_partitions == []
        assert not state.is_auto_assigned
        assert state.metadata_topics == frozenset()

    def test_subscribing_by_name_sets_the_topics(self) -> None:
        state = SubscriptionState(EARLIEST)
        assert state.subscribe(["orders", "bills", "orders"])
        assert state.type is SubscriptionType.AUTO_TOPICS
        assert state.subscription == state.metadata_topics == {"orders", "bills"}
        assert state.is_auto_assigned
        assert not state.subscribe(["bills", "orders"]), "that is no other subscription"
        assert state.subscribe(["bills"])

    def test_a_pattern_matches_whole_topic_names(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe_pattern(re.compile("or.*s"))
        assert state.type is SubscriptionType.AUTO_PATTERN
        assert [state.matches(n) for n in ("orders", "my-orders", "orders2")] == [
            True,
            False,
            False,
        ]
        assert state.subscription == frozenset(), "nobody knows yet which these are"
        assert state.subscribe_from_pattern(["orders"])
        assert not state.subscribe_from_pattern(["orders"])
        assert state.subscription == {"orders"}

    def test_assigning_sets_the_partitions(self) -> None:
        state = SubscriptionState(EARLIEST)
        assert state.assign_from_user([OTHER, ORDERS, OTHER])
        assert state.type is SubscriptionType.USER_ASSIGNED
        assert state.assigned_partitions == [OTHER, ORDERS]
        assert state.metadata_topics == {"orders"}
        assert not state.assign_from_user([ORDERS, OTHER]), "that is no other assignment"
        assert not state.is_auto_assigned

    WAYS: tuple[Callable[[SubscriptionState], object], ...] = (
        lambda state: state.subscribe(["orders"]),
        lambda state: state.subscribe_pattern(re.compile("o.*")),
        lambda state: state.assign_from_user([ORDERS]),
    )

    @pytest.mark.parametrize("first", range(3))
    @pytest.mark.parametrize("then", range(3))
    def test_another_subscription_type_raises_until_unsubscribe(
        self, first: int, then: int
    ) -> None:
        state = SubscriptionState(EARLIEST)
        self.WAYS[first](state)
        if first != then:
            with pytest.raises(IllegalState, match=r"unsubscribe\(\) first"):
                self.WAYS[then](state)
        state.unsubscribe()
        assert state.type is SubscriptionType.NONE
        assert state.subscription == state.metadata_topics == frozenset()
        assert not state.matches("orders")
        self.WAYS[then](state)

    def test_group_subscribe_adds_the_topics_of_all_members(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe(["orders"])
        assert state.group_subscribe(["bills"])
        assert state.metadata_topics == {"orders", "bills"}
        assert not state.group_subscribe(["bills"])
        assert state.subscription == {"orders"}
        state.reset_group_subscription()
        assert state.metadata_topics == {"orders"}


class TestAssignment:
    def test_a_group_assignment_without_a_subscription_raises(self) -> None:
        state = assigned(ORDERS)
        with pytest.raises(IllegalState):
            state.assign_from_subscribed([ORDERS])

    def test_a_new_assignment_keeps_states_that_stay_and_voids_the_others(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe(["orders", "bills"])
        state.assign_from_subscribed([ORDERS, BILLS])
        kept, gone = state.state(ORDERS), state.state(BILLS)
        state.seek(ORDERS, FetchPosition(5))
        before = (kept.position.generation, gone.position.generation)
        state.assign_from_subscribed([OTHER, ORDERS])
        assert state.assigned_partitions == [OTHER, ORDERS]
        assert state.state(ORDERS) is kept and kept.fetch.offset == 5
        assert kept.position.generation == before[0]
        assert gone.position.generation == before[1] + 1, "what was fetched for it is void"
        assert state.get(BILLS) is None
        state.assign_from_subscribed([BILLS])
        assert state.state(BILLS) is not gone, "it begins anew"

    def test_every_change_of_the_assignment_increments_its_id(self) -> None:
        state = SubscriptionState(EARLIEST)
        numbers = [state.assignment_id]
        for partitions in ([ORDERS], [ORDERS, OTHER], []):
            state.assign_from_user(partitions)
            numbers.append(state.assignment_id)
        state.unsubscribe()
        numbers.append(state.assignment_id)
        assert len(set(numbers)) == len(numbers)

    def test_an_unassigned_partition_has_no_state(self) -> None:
        state = assigned(ORDERS)
        with pytest.raises(IllegalState, match=r"orders-1 is not assigned.*assign\(\) it first"):
            state.state(OTHER)
        calls: list[Callable[[], None]] = [
            lambda: state.seek(OTHER, FetchPosition(1)),
            lambda: state.pause(OTHER),
            lambda: state.resume(OTHER),
            lambda: state.request_reset(OTHER),
        ]
        for refused in calls:
            with pytest.raises(IllegalState):
                refused()

    def test_matches_subscription_checks_the_present_topics(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe(["orders"])
        assert state.matches_subscription([ORDERS, OTHER])
        assert not state.matches_subscription([ORDERS, BILLS])
        by_pattern = SubscriptionState(EARLIEST)
        by_pattern.subscribe_pattern(re.compile("b.*"))
        assert by_pattern.matches_subscription([BILLS])
        assert not by_pattern.matches_subscription([ORDERS])

    def test_a_served_partition_moves_to_the_end(self) -> None:
        state = assigned(ORDERS, OTHER, BILLS)
        state.move_to_end(ORDERS)
        assert state.assigned_partitions == [OTHER, BILLS, ORDERS]
        state.move_to_end(TopicPartition("gone", 0))
        assert [each.topic_partition for each in state.states] == [OTHER, BILLS, ORDERS]

    def test_a_partition_pending_revocation_is_withheld(self) -> None:
        state = reading()
        state.mark_pending_revocation([ORDERS, BILLS])
        assert not state.state(ORDERS).is_fetchable
        assert state.state(ORDERS).position.withheld
        assert state.paused_partitions == [], "but the application did not pause it"

    def test_resume_does_not_end_a_pending_revocation(self) -> None:
        state = reading()
        state.pause(ORDERS)
        state.mark_pending_revocation([ORDERS])
        assert state.paused_partitions == [ORDERS]
        state.resume(ORDERS)
        assert state.paused_partitions == []
        assert state.state(ORDERS).position.withheld
        assert not state.state(ORDERS).is_fetchable

    def test_a_new_assignment_ends_a_pending_revocation(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe(["orders"])
        state.assign_from_subscribed([ORDERS, OTHER])
        state.pause(OTHER)
        state.mark_pending_revocation([ORDERS, OTHER])
        state.assign_from_subscribed([ORDERS, OTHER])
        assert not state.state(ORDERS).position.withheld
        assert state.state(OTHER).position.withheld, "the application's pause stands"


class TestPositions:
    def test_a_new_partition_has_no_position(self) -> None:
        state = assigned(ORDERS)
        one = state.state(ORDERS)
        assert one.state is FetchState.INITIALIZING
        assert state.initializing == [ORDERS]
        assert not one.is_fetchable

    def test_a_seek_increments_the_generation(self) -> None:
        state = reading()
        one = state.state(ORDERS)
        before = one.position.generation
        one.deferred = True
        state.seek(ORDERS, FetchPosition(9))
        assert one.position.generation == before + 1
        assert (one.position.offset, one.position.consumed, one.fetch.offset) == (9, 9, 9)
        assert one.state is FetchState.FETCHING and not one.deferred

    def test_a_seek_with_an_epoch_is_validated(self) -> None:
        state = assigned(ORDERS)
        state.seek(ORDERS, FetchPosition(9, 3))
        state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
        assert state.state(ORDERS).state is FetchState.AWAIT_VALIDATION
        assert not state.state(ORDERS).is_fetchable
        state.state(ORDERS).validated()
        assert state.state(ORDERS).state is FetchState.FETCHING
        assert state.state(ORDERS).is_fetchable

    def test_initialize_sets_committed_offsets(self) -> None:
        state = assigned(ORDERS, OTHER)
        missing = state.initialize({ORDERS: FetchPosition(4), OTHER: None})
        assert missing == []
        assert state.state(ORDERS).position.offset == 4
        assert state.state(OTHER).state is FetchState.AWAIT_RESET
        assert state.state(OTHER).reset == EARLIEST

    def test_initialize_returns_partitions_without_an_offset_and_a_reset_strategy(self) -> None:
        state = assigned(ORDERS, OTHER, reset=NONE)
        assert state.initialize({ORDERS: None, OTHER: FetchPosition(1)}) == [ORDERS]
        assert state.state(ORDERS).state is FetchState.INITIALIZING
        assert state.initializing == [], "it is not asked for again"
        with pytest.raises(IllegalState, match="none"):
            state.request_reset(ORDERS)
        state.seek(ORDERS, FetchPosition(3))
        assert state.state(ORDERS).state is FetchState.FETCHING

    def test_initialize_ignores_a_partition_that_has_a_position(self) -> None:
        state = assigned(ORDERS)
        state.seek(ORDERS, FetchPosition(9))
        state.initialize({ORDERS: FetchPosition(4), BILLS: FetchPosition(1)})
        assert state.state(ORDERS).position.offset == 9

    def test_a_reset_awaits_a_new_position(self) -> None:
        state = reading()
        state.request_reset(ORDERS, LATEST)
        one = state.state(ORDERS)
        states = [one.state]
        assert one.reset == LATEST
        assert one.position.offset == -1
        assert ORDERS not in state.consumed, "nowhere is nothing to commit"
        one.seek(FetchPosition(100))
        states.append(one.state)
        assert states == [FetchState.AWAIT_RESET, FetchState.FETCHING]
        assert one.position.offset == 100

    @pytest.mark.parametrize("leader", [LeaderAndEpoch(2, 8), LeaderAndEpoch(1, 8)])
    def test_a_new_leader_or_epoch_requires_validation(self, leader: LeaderAndEpoch) -> None:
        state = reading(epoch=2)
        state.update_leaders(lambda _: leader)
        one = state.state(ORDERS)
        assert one.state is FetchState.AWAIT_VALIDATION
        assert one.position.offset >= 0, "it is only not certain"

    def test_the_same_leader_requires_no_validation(self) -> None:
        state = reading(epoch=2)
        state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
        assert state.state(ORDERS).state is FetchState.FETCHING

    def test_an_unknown_leader_keeps_the_last_one(self) -> None:
        state = reading(epoch=2)
        state.update_leaders(lambda _: LeaderAndEpoch(-1, -1))
        assert state.state(ORDERS).leader == LeaderAndEpoch(1, 7)

    def test_validation_is_skipped_without_epochs(self) -> None:
        state = reading(epoch=-1)
        state.update_leaders(lambda _: LeaderAndEpoch(2, 8))
        assert state.state(ORDERS).state is FetchState.FETCHING
        assert state.state(ORDERS).leader == LeaderAndEpoch(2, 8)

    def test_a_partition_is_not_fetchable_from_its_end_on(self) -> None:
        state = reading(offset=5)
        state.set_end(ORDERS, 6)
        assert state.state(ORDERS).is_fetchable
        state.state(ORDERS).fetched(6, 2, 100)
        assert not state.state(ORDERS).is_fetchable
        state.set_end(ORDERS, None)
        assert state.state(ORDERS).is_fetchable


class TestPausing:
    def test_pause_stops_fetching_and_keeps_buffered_records(self) -> None:
        state = reading()
        one = state.state(ORDERS)
        generation = one.position.generation
        state.pause(ORDERS)
        assert state.paused_partitions == [ORDERS]
        fetchable = [one.is_fetchable]
        state.resume(ORDERS)
        assert state.paused_partitions == []
        fetchable.append(one.is_fetchable)
        assert fetchable == [False, True]
        assert one.position.generation == generation

    def test_a_pause_survives_a_seek(self) -> None:
        state = reading()
        state.pause(ORDERS)
        state.seek(ORDERS, FetchPosition(0))
        assert state.paused_partitions == [ORDERS]

    def test_a_pause_ends_with_the_loss_of_the_partition(self) -> None:
        state = assigned(ORDERS)
        state.pause(ORDERS)
        state.assign_from_user([OTHER])
        state.assign_from_user([ORDERS])
        assert state.paused_partitions == []


class TestOnChange:
    def test_on_change_is_called_when_a_request_may_be_missing(self) -> None:
        watched = Watched()
        state = watched.state
        assert watched.changed(lambda: state.assign_from_user([ORDERS]))
        assert watched.changed(lambda: state.initialize({ORDERS: FetchPosition(1)}))
        assert watched.changed(lambda: state.seek(ORDERS, FetchPosition(2)))
        assert watched.changed(lambda: state.request_reset(ORDERS))
        assert watched.changed(lambda: state.set_end(ORDERS, 9))
        assert watched.changed(lambda: state.resume(ORDERS))
        assert watched.changed(state.unsubscribe)

    def test_on_change_is_not_called_otherwise(self) -> None:
        watched = Watched()
        state = watched.state
        state.assign_from_user([ORDERS])
        assert not watched.changed(lambda: state.assign_from_user([ORDERS]))
        assert not watched.changed(lambda: state.pause(ORDERS))
        assert not watched.changed(lambda: state.move_to_end(ORDERS))


class TestConsumed:
    def test_consumed_has_the_partitions_with_a_position(self) -> None:
        state = assigned(ORDERS, OTHER, BILLS)
        state.seek(ORDERS, FetchPosition(5, 1))
        state.seek(OTHER, FetchPosition(8))
        position = state.state(ORDERS).position
        position.offset, position.leader_epoch = 7, 2
        assert state.consumed == {ORDERS: (5, 1), OTHER: (8, -1)}
        position.mark_consumed()
        assert state.consumed == {ORDERS: (7, 2), OTHER: (8, -1)}
