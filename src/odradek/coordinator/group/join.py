"""JoinGroup: a client becomes a member of the next generation.

    no member id     a dynamic member gets an id: old clients (below version 4) join with it at
                     once, others get MEMBER_ID_REQUIRED and come back with it (KIP-394); the id is
                     pending meanwhile
                     a static member is known by its instance id: see `static_members`
    pending id       becomes a member
    member id        joins a rebalance that is being prepared; or begins one, if its protocols
                     changed or it leads a stable group; else it gets the current generation

The checks have Kafka's order: the group, its size, the protocols, the member.
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
    with_client_reason,
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
    """The operation of a JoinGroup with a valid group id and session timeout."""
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
    """Create the group with a record, then join it. The group stays even if the join fails."""
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
            # A static member never has a pending id.
            result.answer(reply, join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
    else:
        join_known_member(groups, result, group, request, reply)


def has_room_for(groups: Groups, group: ClassicGroup, member_id: str) -> bool:
    """True if the group has room for a member. While a rebalance is prepared only members that have
    joined count, so that the last ones stay out if the group has to shrink."""
    max_size = groups.config.group_max_size
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.join is not None) or group.awaiting_join < max_size
    return member is not None or len(group.members) < max_size


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
    """Add a new member, and begin or complete a rebalance."""
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
    reason = with_client_reason(f"member {member_id} joins", request.reason)
    prepare_or_complete_join(groups, result, group, reason)


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
        leads = group.leader == member_id and member.has_same_protocols(request.protocols)
        what = "joins again as the leader" if leads else "changes its protocols or subscription"
        group.update(member, request)
        group.await_join(member, reply)
        reason = with_client_reason(f"member {member_id} {what}", request.reason)
        prepare_or_complete_join(groups, result, group, reason)
    else:
        result.answer(reply, join_response(group, member))


def needs_rebalance(group: ClassicGroup, member: Member, request: JoinGroupRequest) -> bool:
    """True if this join needs a new generation.

    The leader of a stable group joins again when something changed that only it sees, like the
    partitions of a topic. A join of another member without a change repeats a request whose
    response was lost.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return True
    leads_stable = group.state is GroupState.STABLE and group.leader == member.id
    return leads_stable or not member.has_same_protocols(request.protocols)
