"""What an application wants to read, what it has, and how far each partition is: every transition
by itself.
"""

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
    """A state that counts how often it says that something changed."""

    def __init__(self, reset: AutoOffsetResetStrategy = EARLIEST) -> None:
        self.state = SubscriptionState(reset)
        self.changes = 0
        self.state.on_change = self._changed

    def _changed(self) -> None:
        self.changes += 1

    def changed(self, action: Callable[[], object]) -> bool:
        """Whether the action says that something changed."""
        before = self.changes
        action()
        return self.changes > before


def assigned(
    *partitions: TopicPartition, reset: AutoOffsetResetStrategy = EARLIEST
) -> SubscriptionState:
    """With these partitions, given by the user."""
    state = SubscriptionState(reset)
    state.assign_from_user(partitions)
    return state


def reading(offset: int = 5, epoch: int = 2) -> SubscriptionState:
    """With one partition that is read from there on, of whose leader it is known that it agrees."""
    state = assigned(ORDERS)
    state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
    state.seek(ORDERS, FetchPosition(offset, epoch))
    state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
    state.state(ORDERS).validated()
    assert state.state(ORDERS).state is FetchState.FETCHING
    return state


class TestWanting:
    def test_nothing_at_first(self) -> None:
        state = SubscriptionState(EARLIEST)
        assert state.type is SubscriptionType.NONE
        assert state.assigned_partitions == []
        assert not state.is_auto_assigned
        assert state.metadata_topics == frozenset()

    def test_topics(self) -> None:
        state = SubscriptionState(EARLIEST)
        assert state.subscribe(["orders", "bills", "orders"])
        assert state.type is SubscriptionType.AUTO_TOPICS
        assert state.subscription == state.metadata_topics == {"orders", "bills"}
        assert state.is_auto_assigned
        assert not state.subscribe(["bills", "orders"]), "that is no other subscription"
        assert state.subscribe(["bills"])

    def test_a_pattern_which_means_whole_names(self) -> None:
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

    def test_partitions(self) -> None:
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
    def test_ways_do_not_mix_before_the_application_unsubscribes(
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

    def test_a_groups_leader_has_to_know_the_topics_of_all_members(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe(["orders"])
        assert state.group_subscribe(["bills"])
        assert state.metadata_topics == {"orders", "bills"}
        assert not state.group_subscribe(["bills"])
        assert state.subscription == {"orders"}
        state.reset_group_subscription()
        assert state.metadata_topics == {"orders"}


class TestHaving:
    def test_what_a_group_assigns_needs_a_subscription(self) -> None:
        state = assigned(ORDERS)
        with pytest.raises(IllegalState):
            state.assign_from_subscribed([ORDERS])

    def test_what_stays_keeps_its_state_and_what_goes_is_void(self) -> None:
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

    def test_every_change_of_the_assignment_has_a_number(self) -> None:
        state = SubscriptionState(EARLIEST)
        numbers = [state.assignment_id]
        for partitions in ([ORDERS], [ORDERS, OTHER], []):
            state.assign_from_user(partitions)
            numbers.append(state.assignment_id)
        state.unsubscribe()
        numbers.append(state.assignment_id)
        assert len(set(numbers)) == len(numbers)

    def test_what_is_not_assigned_has_no_state(self) -> None:
        state = assigned(ORDERS)
        with pytest.raises(IllegalState, match=r"orders-1 is not assigned.*assign\(\) it first"):
            state.state(OTHER)
        for refused in (
            lambda: state.seek(OTHER, FetchPosition(1)),
            lambda: state.pause(OTHER),
            lambda: state.resume(OTHER),
            lambda: state.request_reset(OTHER),
        ):
            with pytest.raises(IllegalState):
                refused()

    def test_whether_an_assignment_fits_what_is_subscribed_to_now(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe(["orders"])
        assert state.matches_subscription([ORDERS, OTHER])
        assert not state.matches_subscription([ORDERS, BILLS])
        by_pattern = SubscriptionState(EARLIEST)
        by_pattern.subscribe_pattern(re.compile("b.*"))
        assert by_pattern.matches_subscription([BILLS])
        assert not by_pattern.matches_subscription([ORDERS])

    def test_who_was_served_goes_to_the_end(self) -> None:
        state = assigned(ORDERS, OTHER, BILLS)
        state.move_to_end(ORDERS)
        assert state.assigned_partitions == [OTHER, BILLS, ORDERS]
        state.move_to_end(TopicPartition("gone", 0))
        assert [each.topic_partition for each in state.states] == [OTHER, BILLS, ORDERS]

    def test_what_is_about_to_be_taken_away_is_neither_fetched_nor_handed_out(self) -> None:
        state = reading()
        state.mark_pending_revocation([ORDERS, BILLS])
        assert not state.state(ORDERS).is_fetchable
        assert state.state(ORDERS).position.withheld
        assert state.paused_partitions == [], "but the application did not pause it"

    def test_what_is_about_to_be_taken_away_is_so_whatever_the_application_resumes(self) -> None:
        state = reading()
        state.pause(ORDERS)
        state.mark_pending_revocation([ORDERS])
        assert state.paused_partitions == [ORDERS]
        state.resume(ORDERS)
        assert state.paused_partitions == []
        assert state.state(ORDERS).position.withheld
        assert not state.state(ORDERS).is_fetchable

    def test_what_was_about_to_be_taken_away_and_stays_is_read_on(self) -> None:
        state = SubscriptionState(EARLIEST)
        state.subscribe(["orders"])
        state.assign_from_subscribed([ORDERS, OTHER])
        state.pause(OTHER)
        state.mark_pending_revocation([ORDERS, OTHER])
        state.assign_from_subscribed([ORDERS, OTHER])
        assert not state.state(ORDERS).position.withheld
        assert state.state(OTHER).position.withheld, "the application's pause stands"


class TestMoving:
    def test_a_partition_begins_without_a_position(self) -> None:
        state = assigned(ORDERS)
        one = state.state(ORDERS)
        assert one.state is FetchState.INITIALIZING
        assert state.initializing == [ORDERS]
        assert not one.is_fetchable

    def test_a_seek_voids_what_was_fetched(self) -> None:
        state = reading()
        one = state.state(ORDERS)
        before = one.position.generation
        one.deferred = True
        state.seek(ORDERS, FetchPosition(9))
        assert one.position.generation == before + 1
        assert (one.position.offset, one.position.consumed, one.fetch.offset) == (9, 9, 9)
        assert one.state is FetchState.FETCHING and not one.deferred

    def test_a_seek_with_an_epoch_is_made_sure_of_at_the_leader(self) -> None:
        state = assigned(ORDERS)
        state.seek(ORDERS, FetchPosition(9, 3))
        state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
        assert state.state(ORDERS).state is FetchState.AWAIT_VALIDATION
        assert not state.state(ORDERS).is_fetchable
        state.state(ORDERS).validated()
        assert state.state(ORDERS).state is FetchState.FETCHING
        assert state.state(ORDERS).is_fetchable

    def test_committed_offsets_are_where_to_begin(self) -> None:
        state = assigned(ORDERS, OTHER)
        missing = state.initialize({ORDERS: FetchPosition(4), OTHER: None})
        assert missing == []
        assert state.state(ORDERS).position.offset == 4
        assert state.state(OTHER).state is FetchState.AWAIT_RESET
        assert state.state(OTHER).reset == EARLIEST

    def test_without_one_and_without_a_reset_there_is_no_position(self) -> None:
        state = assigned(ORDERS, OTHER, reset=NONE)
        assert state.initialize({ORDERS: None, OTHER: FetchPosition(1)}) == [ORDERS]
        assert state.state(ORDERS).state is FetchState.INITIALIZING
        assert state.initializing == [], "it is not asked for again"
        with pytest.raises(IllegalState, match="none"):
            state.request_reset(ORDERS)
        state.seek(ORDERS, FetchPosition(3))
        assert state.state(ORDERS).state is FetchState.FETCHING

    def test_a_committed_offset_that_comes_late_counts_no_more(self) -> None:
        state = assigned(ORDERS)
        state.seek(ORDERS, FetchPosition(9))
        state.initialize({ORDERS: FetchPosition(4), BILLS: FetchPosition(1)})
        assert state.state(ORDERS).position.offset == 9

    def test_a_reset_looks_the_position_up_anew(self) -> None:
        state = reading()
        state.request_reset(ORDERS, LATEST)
        one = state.state(ORDERS)
        assert one.state is FetchState.AWAIT_RESET
        assert one.reset == LATEST
        assert one.position.offset == -1
        assert ORDERS not in state.consumed, "nowhere is nothing to commit"
        one.seek(FetchPosition(100))
        assert one.state is FetchState.FETCHING and one.position.offset == 100

    @pytest.mark.parametrize("leader", [LeaderAndEpoch(2, 8), LeaderAndEpoch(1, 8)])
    def test_another_leader_has_to_agree_with_what_was_read(self, leader: LeaderAndEpoch) -> None:
        state = reading(epoch=2)
        state.update_leaders(lambda _: leader)
        one = state.state(ORDERS)
        assert one.state is FetchState.AWAIT_VALIDATION
        assert one.position.offset >= 0, "it is only not certain"

    def test_the_same_leader_again_is_no_news(self) -> None:
        state = reading(epoch=2)
        state.update_leaders(lambda _: LeaderAndEpoch(1, 7))
        assert state.state(ORDERS).state is FetchState.FETCHING

    def test_a_leader_that_is_away_for_a_moment_is_no_news(self) -> None:
        state = reading(epoch=2)
        state.update_leaders(lambda _: LeaderAndEpoch(-1, -1))
        assert state.state(ORDERS).leader == LeaderAndEpoch(1, 7)

    def test_where_epochs_are_not_known_nothing_can_be_made_sure_of(self) -> None:
        state = reading(epoch=-1)
        state.update_leaders(lambda _: LeaderAndEpoch(2, 8))
        assert state.state(ORDERS).state is FetchState.FETCHING
        assert state.state(ORDERS).leader == LeaderAndEpoch(2, 8)

    def test_a_partition_is_read_up_to_its_end(self) -> None:
        state = reading(offset=5)
        state.set_end(ORDERS, 6)
        assert state.state(ORDERS).is_fetchable
        state.state(ORDERS).fetched(6, 2, 100)
        assert not state.state(ORDERS).is_fetchable
        state.set_end(ORDERS, None)
        assert state.state(ORDERS).is_fetchable


class TestPausing:
    def test_pauses_fetching_and_keeps_what_is_there(self) -> None:
        state = reading()
        one = state.state(ORDERS)
        generation = one.position.generation
        state.pause(ORDERS)
        assert state.paused_partitions == [ORDERS]
        assert not one.is_fetchable
        state.resume(ORDERS)
        assert state.paused_partitions == []
        assert one.is_fetchable
        assert one.position.generation == generation

    def test_outlasts_a_seek(self) -> None:
        state = reading()
        state.pause(ORDERS)
        state.seek(ORDERS, FetchPosition(0))
        assert state.paused_partitions == [ORDERS]

    def test_does_not_outlast_the_loss_of_the_partition(self) -> None:
        state = assigned(ORDERS)
        state.pause(ORDERS)
        state.assign_from_user([OTHER])
        state.assign_from_user([ORDERS])
        assert state.paused_partitions == []


class TestTelling:
    def test_whatever_may_be_a_reason_to_ask_for_something_is_told(self) -> None:
        watched = Watched()
        state = watched.state
        assert watched.changed(lambda: state.assign_from_user([ORDERS]))
        assert watched.changed(lambda: state.initialize({ORDERS: FetchPosition(1)}))
        assert watched.changed(lambda: state.seek(ORDERS, FetchPosition(2)))
        assert watched.changed(lambda: state.request_reset(ORDERS))
        assert watched.changed(lambda: state.set_end(ORDERS, 9))
        assert watched.changed(lambda: state.resume(ORDERS))
        assert watched.changed(state.unsubscribe)

    def test_what_is_none_is_not(self) -> None:
        watched = Watched()
        state = watched.state
        state.assign_from_user([ORDERS])
        assert not watched.changed(lambda: state.assign_from_user([ORDERS]))
        assert not watched.changed(lambda: state.pause(ORDERS))
        assert not watched.changed(lambda: state.move_to_end(ORDERS))


class TestCommitting:
    def test_what_the_application_is_done_with_of_what_it_had_any_of(self) -> None:
        state = assigned(ORDERS, OTHER, BILLS)
        state.seek(ORDERS, FetchPosition(5, 1))
        state.seek(OTHER, FetchPosition(8))
        position = state.state(ORDERS).position
        position.offset, position.leader_epoch = 7, 2
        assert state.consumed == {ORDERS: (5, 1), OTHER: (8, -1)}
        position.mark_consumed()
        assert state.consumed == {ORDERS: (7, 2), OTHER: (8, -1)}
