"""A rebalance: from its cause to the responses that begin the next generation.

    prepare_rebalance ──► an empty group waits group.initial.rebalance.delay.ms, and again while
       │                  members join, at most the rebalance timeout
       └────────────────► any other completes when all have joined again, or after the rebalance
                          timeout

    complete_join         removes dynamic members that did not join and keeps static ones; makes a
                          member that joined the leader; answers all joins; then members have the
                          rebalance timeout to sync

Timers by key: `join` while preparing, `sync` while some member has yet to fetch its assignment.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import (
    ClassicGroup,
    Groups,
    GroupState,
    InitialRebalanceDelay,
)
from odradek.coordinator.group.heartbeat import cancel_session, reset_session
from odradek.coordinator.group.member import Member
from odradek.coordinator.group.transitions import LONGEST_NAME, shortened
from odradek.coordinator.operation import OperationResult, TimerKey
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.api.sync_group import SyncGroupResponse

RETRY_MS = 1_000
"""Delay of the next attempt when the record of an empty generation was refused (disk full)."""

JOIN, SYNC = "join", "sync"


def join_key(group: ClassicGroup) -> TimerKey:
    return (JOIN, group.id)


def sync_key(group: ClassicGroup) -> TimerKey:
    return (SYNC, group.id)


def with_client_reason(reason: str, client_reason: str | None) -> str:
    """Return a reason with the one that the client gave for its request (KIP-800), if any."""
    if not client_reason:
        return reason
    return f"{reason}; its client says: {shortened(client_reason, LONGEST_NAME)}"


# -- preparing -------------------------------------------------------------------------------------


def prepare_or_complete_join(
    groups: Groups, result: OperationResult, group: ClassicGroup, reason: str
) -> None:
    """Begin a rebalance for `reason`; if one is being prepared, complete it if all have joined."""
    if group.can_rebalance:
        prepare_rebalance(groups, result, group, reason)
    else:
        maybe_complete_join(result, group)


def prepare_rebalance(
    groups: Groups, result: OperationResult, group: ClassicGroup, reason: str
) -> None:
    """Begin a rebalance: all members have to join again, and waiting syncs fail."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if member.sync is not None:
                result.answer(member.sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
                member.sync = None
                reset_session(result, group, member)
    if group.pending_syncs:
        group.pending_syncs.clear()
        result.cancel(sync_key(group))
    is_initial = group.state is GroupState.EMPTY
    group.transition_to(GroupState.PREPARING_REBALANCE, result.now_ms)
    group.note_transition(result.now_ms, reason)
    if is_initial:
        start_initial_delay(groups, result, group, group.rebalance_timeout_ms)
    elif group.all_joined:
        complete_join(result, group, ALL_JOINED)
    else:
        start_rebalance_timeout(result, group)


def start_initial_delay(
    groups: Groups, result: OperationResult, group: ClassicGroup, timeout_ms: int
) -> None:
    """Delay the first generation, so that members that start together are all in it."""
    delay_ms = groups.config.group_initial_rebalance_delay_ms
    group.initial_delay = InitialRebalanceDelay(delay_ms, max(timeout_ms - delay_ms, 0))
    result.schedule(join_key(group), delay_ms)


def start_rebalance_timeout(result: OperationResult, group: ClassicGroup) -> None:
    """Wait until the last member has joined, at most for the rebalance timeout."""
    result.schedule(join_key(group), group.rebalance_timeout_ms)


def join_timed_out(groups: Groups, result: OperationResult, group: ClassicGroup) -> None:
    """Complete without the members that did not join, or extend the initial delay."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    wait = group.initial_delay
    if wait is not None and wait.member_added and wait.remaining_ms > 0:
        again_ms = min(groups.config.group_initial_rebalance_delay_ms, wait.remaining_ms)
        group.initial_delay = InitialRebalanceDelay(
            again_ms, max(wait.remaining_ms - wait.delay_ms, 0)
        )
        result.schedule(join_key(group), again_ms)
    elif wait is not None:
        complete_join(result, group, "the initial rebalance delay is over")
    else:
        complete_join(result, group, "the rebalance timeout is over")


# -- completing ------------------------------------------------------------------------------------


def maybe_complete_join(result: OperationResult, group: ClassicGroup) -> None:
    """Complete the rebalance if all have joined and no initial delay is running."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.initial_delay is None
        and group.all_joined
    ):
        complete_join(result, group, ALL_JOINED)


ALL_JOINED = "all members have joined"


def complete_join(result: OperationResult, group: ClassicGroup, reason: str) -> None:
    """Begin the next generation with the members that joined; wait again if none could lead it."""
    group.initial_delay = None
    before = len(group.members)
    for member in [*group.members.values()]:
        if member.join is None and not member.is_static:
            group.remove(member.id)
            cancel_session(result, group, member.id)
    if len(group.members) < before:
        reason += f"; {before - len(group.members)} of {before} members did not join again"
    if not group.members:
        write_empty_generation(result, group, reason if before else "no member is left")
    elif not group.elect_joined_leader():
        start_rebalance_timeout(result, group)
    else:
        result.cancel(join_key(group))
        group.init_next_generation(result.now_ms)
        group.note_transition(result.now_ms, reason)
        answer_joins(result, group)
        result.schedule(sync_key(group), group.rebalance_timeout_ms)


def write_empty_generation(result: OperationResult, group: ClassicGroup, reason: str) -> None:
    """Write the generation of a group that has lost its last member."""

    def written() -> None:
        result.cancel(join_key(group))
        group.note_transition(result.now_ms, reason)

    group.state_timestamp_ms = result.now_ms
    result.write(group.empty_generation_record())
    result.schedule(join_key(group), RETRY_MS)
    result.after_append(written)


def answer_joins(result: OperationResult, group: ClassicGroup) -> None:
    """Answer the waiting joins and restart the sessions."""
    for member in group.members.values():
        reply = group.pop_join(member)
        if reply is not None:
            result.answer(reply, join_response(group, member))
        reset_session(result, group, member)
        member.is_new = False


def remove_pending_sync(result: OperationResult, group: ClassicGroup, member_id: str) -> None:
    """Remove a member that fetched its assignment or left. After the last one the timer ends."""
    if member_id in group.pending_syncs:
        del group.pending_syncs[member_id]
        if not group.pending_syncs:
            result.cancel(sync_key(group))


def sync_timed_out(groups: Groups, result: OperationResult, group: ClassicGroup) -> None:
    """Remove the members that did not fetch their assignment in time, and rebalance again."""
    if not group.pending_syncs:
        return
    late = [*group.pending_syncs]
    for member_id in late:
        group.remove(member_id)
        cancel_session(result, group, member_id)
    reason = f"{len(late)} members did not fetch their assignment in time, {late[0]} first"
    prepare_rebalance(groups, result, group, reason)


# -- the end ---------------------------------------------------------------------------------------


def fail_all_waiting(group: ClassicGroup, error: ErrorCode) -> None:
    """Answer all waiting requests with `error`: the group is no longer served here."""
    for member in group.members.values():
        reply = group.pop_join(member)
        if reply is not None:
            reply.send(join_error(error, member.id))
        if member.sync is not None:
            member.sync.send(sync_error(error))
            member.sync = None


NO_MEMBER_ID = ""
NO_LEADER = ""


def join_error(error: ErrorCode, member_id: str = NO_MEMBER_ID) -> JoinGroupResponse:
    """The response to a join that failed; `member_id` is the one to use in the next join."""
    return JoinGroupResponse(
        error_code=error,
        protocol_name=None,
        leader=NO_LEADER,
        member_id=member_id,
        members=[],
    )


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The response to a member's join; the leader's lists all members."""
    leads = group.leader == member.id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or NO_LEADER,
        member_id=member.id,
        members=joined_members(group) if leads else [],
    )


def joined_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """All members with their metadata, from which the leader computes the assignment."""
    assert group.protocol is not None
    return [
        JoinGroupResponseMember(
            member_id=member.id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """The response to a sync that failed."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """The response to a sync: the member's assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )
