"""JoinGroup: becoming a member of the next generation.

    no member id     a dynamic member gets an id: with it, if the client is old (below version 4);
                     else it is told to come back with it (KIP-394), and the id is pending meanwhile
                     a static member is known by its instance id: see `static_members`
    pending id       becomes a member
    member's id      it joins again: into a rebalance that is being prepared; or it begins one, if
                     it says something new, or is the leader of a stable group; else it is told the
                     generation there is

Order of the checks as in Kafka: the group, its size, the protocols, who asks.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState, member_error
from odradek.coordinator.group.heartbeat import (
    cancel_session,
    start_join_session,
    start_pending_session,
)
from odradek.coordinator.group.member import Caller, Member
from odradek.coordinator.group.rebalance import (
    NO_MEMBER_ID,
    join_error,
    join_response,
    maybe_complete_join,
    prepare_or_complete_join,
)
from odradek.coordinator.group.static_members import replace_static_member
from odradek.coordinator.operation import OperationResult, Reply
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4
JoinReply = Reply[JoinGroupResponse]


def join(
    groups: Groups,
    result: OperationResult,
    request: JoinGroupRequest,
    caller: Caller,
    reply: JoinReply,
) -> None:
    """The operation of a JoinGroup whose group id and session timeout were found good."""
    group = groups.get(request.group_id)
    if group is not None:
        join_group(groups, result, group, request, caller, reply)
    elif request.member_id != NO_MEMBER_ID:
        result.answer(reply, join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    else:
        create_and_join(groups, result, request, caller, reply)


def create_and_join(
    groups: Groups,
    result: OperationResult,
    request: JoinGroupRequest,
    caller: Caller,
    reply: JoinReply,
) -> None:
    """The group is there once its record is; it stays, whatever becomes of the join."""
    result.write(ClassicGroup(request.group_id, result.now_ms).new_group_record())

    def created() -> None:
        group = groups.get(request.group_id)
        assert group is not None
        join_group(groups, result, group, request, caller, reply)

    result.after_append(created, reply)


def join_group(
    groups: Groups,
    result: OperationResult,
    group: ClassicGroup,
    request: JoinGroupRequest,
    caller: Caller,
    reply: JoinReply,
) -> None:
    member_id = request.member_id
    if not has_room_for(groups, group, member_id):
        if member_id != NO_MEMBER_ID:
            group.remove(member_id)
            cancel_session(result, group, member_id)
        result.answer(reply, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        maybe_complete_join(result, group)
    elif not group.supports(request.protocol_type, request.protocols):
        result.answer(reply, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif member_id == NO_MEMBER_ID:
        join_new_member(groups, result, group, request, caller, reply)
    elif member_id in group.pending_joins:
        if request.group_instance_id is None:
            add_member(groups, result, group, member_id, request, caller, reply)
        else:
            # A static member never had a pending id: the client is confused.
            result.answer(reply, join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
    else:
        join_known_member(groups, result, group, request, reply)


def has_room_for(groups: Groups, group: ClassicGroup, member_id: str) -> bool:
    """Whether there is room. While a rebalance is prepared, those count who have joined so far: so
    the last to come are left out if the group has to shrink."""
    most = groups.config.group_max_size
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.join is not None) or group.awaiting_join < most
    return member is not None or len(group.members) < most


# -- new members -----------------------------------------------------------------------------------


def join_new_member(
    groups: Groups,
    result: OperationResult,
    group: ClassicGroup,
    request: JoinGroupRequest,
    caller: Caller,
    reply: JoinReply,
) -> None:
    instance_id = request.group_instance_id
    if instance_id is not None:
        new_id = groups.new_member_id(instance_id)
        known = group.static_members.get(instance_id)
        if known is None:
            add_member(groups, result, group, new_id, request, caller, reply)
        else:
            old = group.members[known]
            replace_static_member(groups, result, group, old, new_id, request, caller, reply)
        return
    new_id = groups.new_member_id(caller.client_id)
    if caller.version < FIRST_VERSION_WITH_MEMBER_ID_REQUIRED:
        add_member(groups, result, group, new_id, request, caller, reply)
        return
    group.pending_joins.add(new_id)
    start_pending_session(result, group, new_id, request.session_timeout_ms)
    result.answer(reply, join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))


def add_member(
    groups: Groups,
    result: OperationResult,
    group: ClassicGroup,
    member_id: str,
    request: JoinGroupRequest,
    caller: Caller,
    reply: JoinReply,
) -> None:
    """It is in, and waits for the others."""
    member = Member(
        member_id,
        request.group_instance_id,
        caller.client_id,
        caller.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
    )
    member.is_new = True
    if group.initial_delay is not None:
        group.initial_delay.member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    group.await_join(member, reply)
    start_join_session(result, group, member)
    prepare_or_complete_join(groups, result, group)


# -- members that are known ------------------------------------------------------------------------


def join_known_member(
    groups: Groups,
    result: OperationResult,
    group: ClassicGroup,
    request: JoinGroupRequest,
    reply: JoinReply,
) -> None:
    member_id = request.member_id
    error = member_error(group, member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        result.answer(reply, join_error(error, member_id))
        return
    member = group.members[member_id]
    if needs_rebalance(group, member, request):
        group.update(member, request)
        group.await_join(member, reply)
        prepare_or_complete_join(groups, result, group)
    else:
        result.answer(reply, join_response(group, member))


def needs_rebalance(group: ClassicGroup, member: Member, request: JoinGroupRequest) -> bool:
    """Whether this join asks for a generation to come, not for the one there is.

    The leader of a stable group asks for one when something changed that only it has seen, like the
    partitions of a topic. A join that says nothing new is one whose answer was lost.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return True
    leads_stable = group.state is GroupState.STABLE and group.leader == member.id
    return leads_stable or not member.has_same_protocols(request.protocols)
