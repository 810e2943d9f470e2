"""SyncGroup: the leader sends the assignment, and every member gets its own part.

In CompletingRebalance members wait for the leader's request. Its record, with the assignments of
all members, makes the group Stable; then all waiting syncs are answered. In Stable a late or
repeated request is answered at once.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState, member_error
from odradek.coordinator.group.heartbeat import reset_session
from odradek.coordinator.group.member import member_metadata
from odradek.coordinator.group.rebalance import remove_pending_sync, sync_error, sync_response
from odradek.coordinator.operation import OperationResult, Reply
from odradek.model.errors import ErrorCode
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse

SyncReply = Reply[SyncGroupResponse]


def sync(
    groups: Groups, result: OperationResult, request: SyncGroupRequest, reply: SyncReply
) -> None:
    """The operation of a SyncGroup."""
    group = groups.get(request.group_id)
    if group is None or group.state is GroupState.EMPTY:
        result.answer(reply, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    error = validate_sync(group, request)
    if error is not ErrorCode.NONE:
        result.answer(reply, sync_error(error))
        return
    member = group.members[request.member_id]
    if group.state is GroupState.STABLE:
        remove_pending_sync(result, group, member.id)
        result.answer(reply, sync_response(group, member))
    elif group.leader == member.id:
        write_assignment(result, group, request, reply)
    else:
        remove_pending_sync(result, group, member.id)
        member.await_sync(reply)


def validate_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if differs(request.protocol_type, group.protocol_type) or differs(
        request.protocol_name, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def differs(requested: str | None, known: str | None) -> bool:
    """True if the request names another protocol type or name. Requests below version 5 name
    none."""
    return requested is not None and known is not None and requested != known


def write_assignment(
    result: OperationResult, group: ClassicGroup, request: SyncGroupRequest, reply: SyncReply
) -> None:
    """Write the generation with its assignments. It is empty for a member the leader left out."""
    assert group.protocol is not None
    assignments = {each.member_id: each.assignment for each in request.assignments}
    leader = group.members[request.member_id]
    result.write(
        group.generation_record(
            [
                member_metadata(member, group.protocol, assignments.get(member.id, b""))
                for member in group.members.values()
            ],
            group.leader,
        )
    )

    def assigned() -> None:
        group.note_transition(result.now_ms, f"leader {leader.id} assigned the partitions")
        remove_pending_sync(result, group, leader.id)
        leader.await_sync(reply)
        for member in group.members.values():
            if member.sync is not None:
                result.answer(member.sync, sync_response(group, member))
                member.sync = None
                reset_session(result, group, member)

    result.after_append(assigned, reply)
