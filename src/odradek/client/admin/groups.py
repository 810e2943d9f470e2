"""Groups: list, describe, delete."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.client.admin.calls import Calls, check
from odradek.client.admin.results import Group, GroupDescription, Member
from odradek.client.api_versions import RequestBuilder
from odradek.client.errors.answers import GroupNotFound, error_for
from odradek.client.errors.base import KafkaError
from odradek.client.topic_names import texts_of
from odradek.client.waiter import gather, spawn
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment

DEAD = "Dead"
STATES_VERSION, TYPES_VERSION = 4, 5


class GroupCalls(Calls):
    """The calls about groups and their members."""

    async def groups(
        self, *, states: str | Collection[str] = (), types: str | Collection[str] = ()
    ) -> list[Group]:
        """All groups of all brokers, sorted; only those in one of `states` (`Stable`, `Empty` …)
        and of one of `types` (`classic`, `consumer` …), if any are given.
        """
        wanted_states, wanted_types = texts_of("state", states), texts_of("type", types)
        lowest = TYPES_VERSION if wanted_types else STATES_VERSION if wanted_states else 0
        request = RequestBuilder(
            ListGroupsRequest,
            lambda version: ListGroupsRequest(
                states_filter=wanted_states if version >= STATES_VERSION else [],
                types_filter=wanted_types if version >= TYPES_VERSION else [],
            ),
            min_version=lowest,
        )

        async def attempt() -> list[Group]:
            image = await self.engine.fresh_image()
            answers = await self.ask_each(dict.fromkeys(image.nodes, request), ListGroupsResponse)
            for node_id, answer in answers:
                check(answer.error_code, f"listing the groups of broker {node_id}")
            return sorted(
                {
                    Group(each.group_id, each.group_state, each.group_type, each.protocol_type)
                    for _, answer in answers
                    for each in answer.groups
                },
                key=lambda group: group.group_id,
            )

        return await self.retried(attempt)

    async def group(self, group_id: str) -> GroupDescription:
        """One group with its members. `GroupNotFound` if there is none of that name."""

        async def attempt() -> GroupDescription:
            request = DescribeGroupsRequest(groups=[group_id])
            answer = await self.ask_coordinator(group_id, request, DescribeGroupsResponse)
            group = answer.groups[0]
            check(group.error_code, f"group {group_id}", group.error_message)
            if group.group_state == DEAD:  # What brokers said before DescribeGroups 6.
                raise error_for(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}")
            return description_of(group)

        return await self.retried(attempt)

    async def describe_groups(self, group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Several groups, all at once. Raises for the first that is not there."""
        names = dict.fromkeys(texts_of("group", group_ids))
        waiters = {each: spawn(self.group(each)) for each in names}
        await gather(list(waiters.values()))
        return {group_id: waiter.result() for group_id, waiter in waiters.items()}

    async def delete_group(self, group_id: str, *, missing_ok: bool = False) -> bool:
        """Delete a group without members, with its offsets. Whether there was one;
        `GroupNotFound` if not, unless `missing_ok`. `GroupNotEmpty` if it has members.
        """

        async def attempt() -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            answer = await self.ask_coordinator(group_id, request, DeleteGroupsResponse)
            for each in answer.results:
                check(each.error_code, f"deleting group {group_id}", each.error_message)

        try:
            await self.retried(attempt)
        except GroupNotFound:
            if not missing_ok:
                raise
            return False
        return True

    async def delete_groups_many(
        self, group_ids: str | Iterable[str]
    ) -> dict[str, KafkaError | None]:
        """Delete several, all at once; None, or the error, for each."""
        names = dict.fromkeys(texts_of("group", group_ids))
        waiters = {each: spawn(self.delete_group(each)) for each in names}
        await gather(list(waiters.values()))
        failed: dict[str, KafkaError | None] = {}
        for group_id, waiter in waiters.items():
            if waiter.error is not None and not isinstance(waiter.error, KafkaError):
                raise waiter.error
            failed[group_id] = waiter.error
        return failed


def description_of(group: DescribedGroup) -> GroupDescription:
    """A group out of a DescribeGroups answer."""
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(
            Member(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                assigned(member) if is_consumer else (),
            )
            for member in group.members
        ),
    )


def assigned(member: DescribedGroupMember) -> tuple[TopicPartition, ...]:
    """What a member of a consumer group reads. A member that was never given anything has no
    assignment at all.
    """
    if not member.member_assignment:
        return ()
    return tuple(sorted(decode_assignment(bytes(member.member_assignment)).partitions))
