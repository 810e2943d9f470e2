"""Sessions: how long a member may be silent (Kafka's DelayedHeartbeat).

Each member, and each id that was given out and not used yet, has one timer. Whatever shows that the
member is alive sets it anew. What its end means stands in `departures`.

Heartbeat: the member is alive, and learns whether it has to join again.
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
comes again under another id, the old one must not wait for ever."""


def reset_session(result: OperationResult, group: ClassicGroup, member: Member) -> None:
    """The member was heard of: its session begins anew."""
    result.schedule((HEARTBEAT, group.id, member.id), member.session_timeout_ms)


def start_join_session(result: OperationResult, group: ClassicGroup, member: Member) -> None:
    """The member joins for the first time."""
    result.schedule((HEARTBEAT, group.id, member.id), NEW_MEMBER_JOIN_TIMEOUT_MS)


def start_pending_session(
    result: OperationResult, group: ClassicGroup, member_id: str, timeout_ms: int
) -> None:
    """An id was given out; its owner has a session's time to join with it."""
    result.schedule((HEARTBEAT, group.id, member_id), timeout_ms)


def cancel_session(result: OperationResult, group: ClassicGroup, member_id: str) -> None:
    """The member is gone."""
    result.cancel((HEARTBEAT, group.id, member_id))


# Found once: up to Python 3.11 an enumeration looks its members up in some hundred steps.
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
    """Set the session anew, if it is one of the generation there is; what the member is told."""
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
