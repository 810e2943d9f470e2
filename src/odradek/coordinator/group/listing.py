"""DescribeGroups and ListGroups: the groups of one shard as clients see them."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState
from odradek.coordinator.group.member import Member
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_groups import DescribedGroup, DescribedGroupMember
from odradek.protocol.api.list_groups import ListedGroup

FIRST_VERSION_WITH_NOT_FOUND = 6
CLASSIC = "classic"


def describe_group(groups: Groups, group_id: str, version: int) -> DescribedGroup:
    """Describe one group. To older clients a group that does not exist is Dead (KIP-1043)."""
    group = groups.get(group_id)
    if group is None:
        if version < FIRST_VERSION_WITH_NOT_FOUND:
            return describe_without_members(group_id, GroupState.DEAD)
        return describe_error(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
        )
    found = describe_without_members(group_id, group.state)
    found.protocol_type = group.protocol_type or ""
    if group.state is GroupState.STABLE:
        found.protocol_data = group.protocol or ""
    found.members = [describe_member(group, member) for member in group.members.values()]
    return found


def describe_without_members(group_id: str, state: GroupState) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=state.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def describe_error(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    """The description of a group in error. Only version 6 can carry a message."""
    found = describe_without_members(group_id, GroupState.DEAD)
    found.error_code = error
    found.error_message = message
    if message is None:
        found.group_state = ""
    return found


def describe_member(group: ClassicGroup, member: Member) -> DescribedGroupMember:
    stable = group.state is GroupState.STABLE and group.protocol is not None
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol or "") if stable else b"",
        member_assignment=member.assignment,
    )


class GroupFilter:
    """Selects groups by state and type, without regard to case; an empty list selects all.

    It is made once for all shards, because a request may name very many states.
    """

    def __init__(self, states: Iterable[str], types: Iterable[str]) -> None:
        kinds = {kind.lower() for kind in types}
        self.states = {state.lower() for state in states}
        self.classic = not kinds or CLASSIC in kinds

    def select(self, groups: Groups) -> list[ListedGroup]:
        """The groups of a shard that match."""
        if not self.classic:
            return []
        return [
            ListedGroup(
                group_id=group.id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
            for group in groups
            if not self.states or group.state.value.lower() in self.states
        ]
