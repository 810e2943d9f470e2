"""From a reason to rebalance to the answers that begin the next generation.

    prepare ──► Empty before: wait group.initial.rebalance.delay.ms, and again while members come,
       │        at most the rebalance timeout
       └──────► else: complete as soon as all have joined again, or after the rebalance timeout

    complete    dynamic members that did not join are out, static ones stay; the leader is one who
                joined; everybody is answered, and has the rebalance timeout to sync

Timers by key: `join` while preparing, `sync` while some member has yet to fetch its assignment.

The responses that several steps of the protocol give.
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
from odradek.coordinator.operation import OperationResult, TimerKey
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.api.sync_group import SyncGroupResponse

RETRY_MS = 1_000
"""When the record of an empty generation was refused: the disk was full, say."""


JOIN, SYNC = "join", "sync"


def join_key(group: ClassicGroup) -> TimerKey:
    return (JOIN, group.id)


def sync_key(group: ClassicGroup) -> TimerKey:
    return (SYNC, group.id)


# -- preparing -------------------------------------------------------------------------------------


def prepare_or_complete_join(groups: Groups, result: OperationResult, group: ClassicGroup) -> None:
    """Begin a rebalance; if one is being prepared, see whether it is complete now."""
    if group.can_rebalance:
        prepare_rebalance(groups, result, group)
    else:
        maybe_complete_join(result, group)


def prepare_rebalance(groups: Groups, result: OperationResult, group: ClassicGroup) -> None:
    """Have all members join again. Whoever waits for an assignment waits in vain."""
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
    if is_initial:
        start_initial_delay(groups, result, group, group.rebalance_timeout_ms)
    elif group.all_joined:
        complete_join(result, group)
    else:
        start_rebalance_timeout(result, group)


def start_initial_delay(
    groups: Groups, result: OperationResult, group: ClassicGroup, most_ms: int
) -> None:
    """A group that was empty: members that start together should be in one generation."""
    delay_ms = groups.config.group_initial_rebalance_delay_ms
    group.initial_delay = InitialRebalanceDelay(delay_ms, max(most_ms - delay_ms, 0))
    result.schedule(join_key(group), delay_ms)


def start_rebalance_timeout(result: OperationResult, group: ClassicGroup) -> None:
    """Until the last member has joined, at most the rebalance timeout."""
    result.schedule(join_key(group), group.rebalance_timeout_ms)


def join_timed_out(groups: Groups, result: OperationResult, group: ClassicGroup) -> None:
    """Go on without those who did not come, unless there is initial delay left for new ones."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    wait = group.initial_delay
    if wait is not None and wait.member_added and wait.remaining_ms > 0:
        again_ms = min(groups.config.group_initial_rebalance_delay_ms, wait.remaining_ms)
        group.initial_delay = InitialRebalanceDelay(
            again_ms, max(wait.remaining_ms - wait.delay_ms, 0)
        )
        result.schedule(join_key(group), again_ms)
    else:
        complete_join(result, group)


# -- completing ------------------------------------------------------------------------------------


def maybe_complete_join(result: OperationResult, group: ClassicGroup) -> None:
    """The moment the last one has come, but in the initial rebalance, which has its time."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.initial_delay is None
        and group.all_joined
    ):
        complete_join(result, group)


def complete_join(result: OperationResult, group: ClassicGroup) -> None:
    """Begin the next generation with those who are there; wait again if nobody could lead it."""
    group.initial_delay = None
    for member in [*group.members.values()]:
        if member.join is None and not member.is_static:
            group.remove(member.id)
            cancel_session(result, group, member.id)
    if not group.members:
        write_empty_generation(result, group)
    elif not group.elect_joined_leader():
        start_rebalance_timeout(result, group)
    else:
        result.cancel(join_key(group))
        group.init_next_generation(result.now_ms)
        answer_joins(result, group)
        result.schedule(sync_key(group), group.rebalance_timeout_ms)


def write_empty_generation(result: OperationResult, group: ClassicGroup) -> None:
    """The group has no members: that is a generation too, and kept."""
    group.state_timestamp_ms = result.now_ms
    result.write(group.empty_generation_record())
    result.schedule(join_key(group), RETRY_MS)
    result.after_append(lambda: result.cancel(join_key(group)))


def answer_joins(result: OperationResult, group: ClassicGroup) -> None:
    """Tell every member the generation, and its leader the members."""
    for member in group.members.values():
        reply = group.pop_join(member)
        if reply is not None:
            result.answer(reply, join_response(group, member))
        reset_session(result, group, member)
        member.is_new = False


def remove_pending_sync(result: OperationResult, group: ClassicGroup, member_id: str) -> None:
    """The member has come for its assignment, or is gone; without others nobody is waited for."""
    if member_id in group.pending_syncs:
        del group.pending_syncs[member_id]
        if not group.pending_syncs:
            result.cancel(sync_key(group))


def sync_timed_out(groups: Groups, result: OperationResult, group: ClassicGroup) -> None:
    """Expel the members that did not fetch their assignment in time, and begin anew."""
    if not group.pending_syncs:
        return
    for member_id in [*group.pending_syncs]:
        group.remove(member_id)
        cancel_session(result, group, member_id)
    prepare_rebalance(groups, result, group)


# -- the end ---------------------------------------------------------------------------------------


def fail_all_waiting(group: ClassicGroup, error: ErrorCode) -> None:
    """The group is no longer served here: whoever waits is told."""
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
    """A join that did not lead to a generation; `member_id` is what the client shall use next."""
    return JoinGroupResponse(
        error_code=error,
        protocol_name=None,
        leader=NO_LEADER,
        member_id=member_id,
        members=[],
    )


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The generation as one member is told of it: its leader gets all the members."""
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
    """What the leader has to know in order to assign."""
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
    """No assignment."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """What the member has been assigned."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )
