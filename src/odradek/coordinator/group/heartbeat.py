"""Sessions of members (Kafka's DelayedHeartbeat), and the Heartbeat request.

Each member has one session timer, and so has each member id that was given out and is not used yet.
Every sign of life restarts it. `leave.session_expired` handles its expiry.
"""

from __future__ import annotations

from typing import Final

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState, member_error
from odradek.coordinator.group.member import Member
from odradek.coordinator.operation import OperationResult, Reply
from odradek.model.errors import ErrorCode
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = "heartbeat"
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A new member cannot send heartbeats before its first join is answered. If its client is gone and
joins again under another id, the old member must not stay for ever."""


def reset_session(result: OperationResult, group: ClassicGroup, member: Member) -> None:
    """Restart the session of a member."""
    result.schedule((HEARTBEAT, group.id, member.id), member.session_timeout_ms)


def start_join_session(result: OperationResult, group: ClassicGroup, member: Member) -> None:
    """Start the session of a member that joins for the first time."""
    result.schedule((HEARTBEAT, group.id, member.id), NEW_MEMBER_JOIN_TIMEOUT_MS)


def start_pending_session(
    result: OperationResult, group: ClassicGroup, member_id: str, timeout_ms: int
) -> None:
    """Start the session of a member id that was given out: the time to join with it."""
    result.schedule((HEARTBEAT, group.id, member_id), timeout_ms)


def cancel_session(result: OperationResult, group: ClassicGroup, member_id: str) -> None:
    """End the session of a removed member."""
    result.cancel((HEARTBEAT, group.id, member_id))


# Constants, because up to Python 3.11 access to an enumeration member is slow.
NONE: Final = ErrorCode.NONE
UNKNOWN_MEMBER_ID: Final = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL_GENERATION: Final = ErrorCode.ILLEGAL_GENERATION
REBALANCE_IN_PROGRESS: Final = ErrorCode.REBALANCE_IN_PROGRESS
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE


def heartbeat(
    groups: Groups,
    result: OperationResult,
    request: HeartbeatRequest,
    reply: Reply[HeartbeatResponse],
) -> None:
    """The operation of a Heartbeat."""
    result.answer(reply, HeartbeatResponse(error_code=check_heartbeat(groups, result, request)))


def check_heartbeat(
    groups: Groups, result: OperationResult, request: HeartbeatRequest
) -> ErrorCode:
    """Restart the session of a member of this generation. Return the error of the response."""
    group = groups.get(request.group_id)
    if group is None:
        return UNKNOWN_MEMBER_ID
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not NONE:
        return error
    if request.generation_id != group.generation:
        return ILLEGAL_GENERATION
    reset_session(result, group, group.members[request.member_id])
    if group.state is PREPARING_REBALANCE:
        return REBALANCE_IN_PROGRESS
    return NONE
