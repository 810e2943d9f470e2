"""Members leave: by LeaveGroup, by an administrator that names their instance ids, or by the end of
their session.

A member is removed at once, also while the others wait for a generation with it, which may be
complete then. In a stable group, or one that waits for its assignment, a rebalance follows.

A join that a removed member waits for gets UNKNOWN_MEMBER_ID. A sync gets no response, as in Kafka:
the client's request ends with its timeout or its connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState, member_error
from odradek.coordinator.group.heartbeat import cancel_session
from odradek.coordinator.group.rebalance import (
    NO_MEMBER_ID,
    complete_join,
    join_error,
    maybe_complete_join,
    prepare_or_complete_join,
    remove_pending_sync,
    with_client_reason,
)
from odradek.coordinator.operation import OperationResult, Reply
from odradek.model.errors import ErrorCode
from odradek.protocol.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def leave(
    groups: Groups,
    result: OperationResult,
    request: LeaveGroupRequest,
    reply: Reply[LeaveGroupResponse],
) -> None:
    """The operation of a LeaveGroup; each member has a result of its own."""
    group = groups.get(request.group_id)
    members = [
        MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=(
                ErrorCode.UNKNOWN_MEMBER_ID if group is None else remove_named(result, group, each)
            ),
        )
        for each in request.members
    ]
    if group is not None and any(each.error_code == ErrorCode.NONE for each in members):
        rebalance_after_leave(groups, result, group, leave_reason(request, members))
    result.answer(reply, LeaveGroupResponse(error_code=ErrorCode.NONE, members=members))


def remove_named(
    result: OperationResult, group: ClassicGroup, identity: MemberIdentity
) -> ErrorCode:
    """Remove the member that a request names, by its member id or by its instance id only."""
    member_id = identity.member_id
    if member_id == NO_MEMBER_ID:
        known = group.static_members.get(identity.group_instance_id or "")
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id not in group.pending_joins:
        error = member_error(group, member_id, identity.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    cancel_session(result, group, member_id)
    remove_member(result, group, member_id)
    return ErrorCode.NONE


def remove_member(result: OperationResult, group: ClassicGroup, member_id: str) -> None:
    """Remove a member or a pending id, and answer its waiting join."""
    member = group.members.get(member_id)
    join = None if member is None else group.pop_join(member)
    if join is not None:
        result.answer(join, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
    remove_pending_sync(result, group, member_id)
    group.remove(member_id)


def leave_reason(request: LeaveGroupRequest, members: Sequence[MemberResponse]) -> str:
    """Describe who left; several members have the client's reason of the first."""
    left = [index for index, each in enumerate(members) if each.error_code == ErrorCode.NONE]
    first = request.members[left[0]]
    who = f"member {first.member_id or first.group_instance_id}"
    others = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return with_client_reason(f"{who}{others} left", first.reason)


def rebalance_after_leave(
    groups: Groups, result: OperationResult, group: ClassicGroup, reason: str
) -> None:
    """Rebalance, or complete the rebalance that is being prepared, after a member has left."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_or_complete_join(groups, result, group, reason)
    else:
        maybe_complete_join(result, group)


def session_expired(
    groups: Groups, result: OperationResult, group: ClassicGroup, member_id: str
) -> None:
    """A session expired: remove the member, or the id that was given out and not used."""
    member = group.members.get(member_id)
    if member is not None and member.is_alive_without_heartbeat:
        return
    remove_member(result, group, member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        if group.all_joined:
            complete_join(result, group, f"the session of member {member_id} expired")
    elif member is not None:
        reason = f"the session of member {member_id} expired"
        prepare_or_complete_join(groups, result, group, reason)
