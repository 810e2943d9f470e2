"""Heartbeat: the member is alive, and learns whether it has to join again."""

from __future__ import annotations

from typing import Final

from odradek.coordinator.group.groups import Groups
from odradek.coordinator.group.sessions import watch
from odradek.coordinator.group.states import GroupState
from odradek.coordinator.group.static_members import member_error
from odradek.coordinator.turn import Reply, Turn
from odradek.model.errors import ErrorCode
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse

# Found once: up to Python 3.11 an enumeration looks its members up in some hundred steps.
NONE: Final = ErrorCode.NONE
UNKNOWN_MEMBER_ID: Final = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL_GENERATION: Final = ErrorCode.ILLEGAL_GENERATION
REBALANCE_IN_PROGRESS: Final = ErrorCode.REBALANCE_IN_PROGRESS
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE


def heartbeat(
    groups: Groups, turn: Turn, request: HeartbeatRequest, reply: Reply[HeartbeatResponse]
) -> None:
    """The operation of a Heartbeat."""
    turn.answer(reply, HeartbeatResponse(error_code=heard_of(groups, turn, request)))


def heard_of(groups: Groups, turn: Turn, request: HeartbeatRequest) -> ErrorCode:
    """Set the session anew, if it is one of the generation there is; what the member is told."""
    group = groups.get(request.group_id)
    if group is None:
        return UNKNOWN_MEMBER_ID
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not NONE:
        return error
    if request.generation_id != group.generation:
        return ILLEGAL_GENERATION
    watch(turn, group, group.members[request.member_id])
    if group.state is PREPARING_REBALANCE:
        return REBALANCE_IN_PROGRESS
    return NONE
