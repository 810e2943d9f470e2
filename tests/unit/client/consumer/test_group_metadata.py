"""With which generation a transaction commits the offsets of a group."""

from __future__ import annotations

import pytest

from odradek.client.consumer.application.calls import ConsumerCalls
from odradek.client.consumer.group.member import Generation, GroupMember, MemberState
from odradek.client.consumer.group.runner import GroupRunner
from odradek.client.errors import RebalanceInProgress
from odradek.client.waiter import spawn
from unit.client.consumer.application import Application, one_topic


class Member:
    """A consumer of group `g` that has been in generation 3."""

    def __init__(self, state: MemberState) -> None:
        cluster, _ = one_topic()
        application = Application(cluster, group_id="g")
        group = application.consumer.group
        assert isinstance(group, GroupRunner)
        calls = ConsumerCalls(application.consumer)
        application.side.do(lambda: spawn(calls.subscribe(["orders"])))
        self.group: GroupRunner = group
        self.member: GroupMember = group.coordinator.member
        self.member.state = state
        self.member.generation = Generation(3, "member")


@pytest.mark.parametrize("state", [MemberState.STABLE, MemberState.PREPARING_REBALANCE])
def test_a_member_that_waits_for_the_others_to_join_is_still_in_its_generation(
    state: MemberState,
) -> None:
    found = Member(state).group.group_metadata()
    assert (found.generation_id, found.member_id) == (3, "member")


def test_a_member_that_joins_anew_has_no_generation_to_commit_with() -> None:
    made = Member(MemberState.PREPARING_REBALANCE)
    made.member.generation = Generation(member_id="member")
    with pytest.raises(RebalanceInProgress):
        made.group.group_metadata()


def test_a_member_without_its_new_assignment_commits_nothing() -> None:
    with pytest.raises(RebalanceInProgress):
        Member(MemberState.COMPLETING_REBALANCE).group.group_metadata()
