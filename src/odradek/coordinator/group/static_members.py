"""Static members: a place in the group that outlives its process (KIP-345, KIP-814).

After a restart a client with a `group.instance.id` joins without a member id. It replaces its
predecessor under a new id and keeps the assignment: in a stable group without a rebalance, unless
the group would choose another protocol. The predecessor is fenced if it is still alive. A static
member that stops sending heartbeats is removed when its session expires.

A leader that came back is told to skip the assignment (version 9). An older client is told that its
former id leads, so it acts as a follower, and the present assignment stays.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import (
    ClassicGroup,
    Groups,
    GroupState,
    select_protocol,
)
from odradek.coordinator.group.group_records import MemberMetadata
from odradek.coordinator.group.heartbeat import cancel_session, reset_session
from odradek.coordinator.group.member import Caller, Member, member_metadata, protocol_metadata
from odradek.coordinator.group.rebalance import (
    NO_LEADER,
    join_error,
    join_response,
    maybe_complete_join,
    prepare_or_complete_join,
    prepare_rebalance,
    remove_pending_sync,
    sync_error,
    with_client_reason,
)
from odradek.coordinator.operation import OperationResult, Reply
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9


def replace_static_member(
    groups: Groups,
    result: OperationResult,
    group: ClassicGroup,
    old: Member,
    new_id: str,
    request: JoinGroupRequest,
    caller: Caller,
    reply: Reply[JoinGroupResponse],
) -> None:
    """The next incarnation of a static member joins in the place of `old`."""
    if group.state is GroupState.STABLE and keeps_protocol(group, old, request):
        replace_in_generation(result, group, old, new_id, request, caller, reply)
        return
    member = fence_and_replace(result, group, old, new_id, request)
    group.await_join(member, reply)
    what = f"static member {old.group_instance_id} came back as {new_id}"
    reason = with_client_reason(what, request.reason)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning partitions to the former id.
        prepare_rebalance(groups, result, group, reason)
    elif group.state is GroupState.STABLE:
        prepare_or_complete_join(groups, result, group, reason)
    else:
        maybe_complete_join(result, group)


def keeps_protocol(group: ClassicGroup, old: Member, request: JoinGroupRequest) -> bool:
    """True if the group would choose the protocol that it has."""
    spoken = [
        request.protocols if member is old else member.protocols
        for member in group.members.values()
    ]
    return select_protocol(spoken) == group.protocol


def fence_and_replace(
    result: OperationResult,
    group: ClassicGroup,
    old: Member,
    new_id: str,
    request: JoinGroupRequest,
) -> Member:
    """Replace the predecessor and answer its waiting requests with FENCED_INSTANCE_ID."""
    fenced = ErrorCode.FENCED_INSTANCE_ID
    waiting = group.pop_join(old)
    if waiting is not None:
        result.answer(waiting, join_error(fenced, old.id))
    if old.sync is not None:
        result.answer(old.sync, sync_error(fenced))
    remove_pending_sync(result, group, old.id)
    cancel_session(result, group, old.id)
    member = group.replace(old, new_id)
    group.update(member, request)
    reset_session(result, group, member)
    return member


def replace_in_generation(
    result: OperationResult,
    group: ClassicGroup,
    old: Member,
    new_id: str,
    request: JoinGroupRequest,
    caller: Caller,
    reply: Reply[JoinGroupResponse],
) -> None:
    """Write the generation with the new id in the place of the old one, without a rebalance."""
    former_leader = group.leader
    leader = new_id if former_leader == old.id else former_leader
    result.write(
        group.generation_record(members_with_replacement(group, old, new_id, request), leader)
    )

    def replaced() -> None:
        member = group.members[new_id]
        group.update(member, request)
        cancel_session(result, group, old.id)
        reset_session(result, group, member)
        if old.id in group.pending_syncs:
            del group.pending_syncs[old.id]
            group.pending_syncs[new_id] = None
        response = join_response(group, member)
        if caller.version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
            response.skip_assignment = group.leader == new_id
        else:
            response.leader = former_leader or NO_LEADER
            response.members = []
        result.answer(reply, response)

    result.after_append(replaced, reply)


def members_with_replacement(
    group: ClassicGroup, old: Member, new_id: str, request: JoinGroupRequest
) -> list[MemberMetadata]:
    """The members for the record, with the new id and request in the place of `old`."""
    assert group.protocol is not None
    members = []
    for member in group.members.values():
        metadata = member_metadata(member, group.protocol, member.assignment)
        if member is old:
            metadata.member_id = new_id
            metadata.session_timeout = request.session_timeout_ms
            metadata.rebalance_timeout = request.rebalance_timeout_ms
            metadata.subscription = protocol_metadata(request.protocols, group.protocol)
        members.append(metadata)
    return members
