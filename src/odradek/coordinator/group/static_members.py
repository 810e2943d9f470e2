"""Static members: a place in the group that outlives its process (KIP-345, KIP-814).

A client that names a `group.instance.id` comes back without a member id after a restart, takes the
place of its predecessor under a new id, and keeps the assignment: in a stable group without a
rebalance, unless the protocol would become another. The predecessor, should it still live, is
fenced. A static member that is silent leaves only when its session has run out.

A leader that came back is told to skip the assignment (version 9). An older client is told that its
former id leads, which makes it a follower: the assignment there is goes on being true.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import ClassicGroup, Groups, GroupState, selected
from odradek.coordinator.group.heartbeat import forget, watch
from odradek.coordinator.group.member import Caller, Member, metadata_of, stored_member
from odradek.coordinator.group.rebalance import (
    NO_LEADER,
    complete_if_all_joined,
    generation_response,
    join_error,
    no_longer_pending,
    prepare,
    prepare_or_complete,
    sync_error,
)
from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.records import MemberMetadata
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
    """The next incarnation joins in the place of `old`."""
    if group.state is GroupState.STABLE and keeps_protocol(group, old, request):
        keep_generation(result, group, old, new_id, request, caller, reply)
        return
    member = take_place(result, group, old, new_id, request)
    group.await_join(member, reply)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning to the former id just now.
        prepare(groups, result, group)
    elif group.state is GroupState.STABLE:
        prepare_or_complete(groups, result, group)
    else:
        complete_if_all_joined(result, group)


def keeps_protocol(group: ClassicGroup, old: Member, request: JoinGroupRequest) -> bool:
    """Whether the group would choose the protocol that it has."""
    spoken = [
        request.protocols if member is old else member.protocols
        for member in group.members.values()
    ]
    return selected(spoken) == group.protocol


def take_place(
    result: OperationResult,
    group: ClassicGroup,
    old: Member,
    new_id: str,
    request: JoinGroupRequest,
) -> Member:
    """Fence the predecessor: whatever it waits for, it is another's now."""
    fenced = ErrorCode.FENCED_INSTANCE_ID
    waiting = group.take_join(old)
    if waiting is not None:
        result.answer(waiting, join_error(fenced, old.id))
    if old.sync is not None:
        result.answer(old.sync, sync_error(fenced))
    no_longer_pending(result, group, old.id)
    forget(result, group, old.id)
    member = group.replace(old, new_id)
    group.update(member, request)
    watch(result, group, member)
    return member


def keep_generation(
    result: OperationResult,
    group: ClassicGroup,
    old: Member,
    new_id: str,
    request: JoinGroupRequest,
    caller: Caller,
    reply: Reply[JoinGroupResponse],
) -> None:
    """Write the generation with the new id in the place of the old one; nobody else notices."""
    former_leader = group.leader
    leader = new_id if former_leader == old.id else former_leader
    result.write(group.generation_record(stored_with(group, old, new_id, request), leader))

    def replaced() -> None:
        member = group.members[new_id]
        group.update(member, request)
        forget(result, group, old.id)
        watch(result, group, member)
        if old.id in group.pending_syncs:
            del group.pending_syncs[old.id]
            group.pending_syncs[new_id] = None
        response = generation_response(group, member)
        if caller.version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
            response.skip_assignment = group.leader == new_id
        else:
            response.leader = former_leader or NO_LEADER
            response.members = []
        result.answer(reply, response)

    result.after_append(replaced, reply)


def stored_with(
    group: ClassicGroup, old: Member, new_id: str, request: JoinGroupRequest
) -> list[MemberMetadata]:
    """The members as they are, but for the one that came back."""
    assert group.protocol is not None
    stored = []
    for member in group.members.values():
        kept = stored_member(member, group.protocol, member.assignment)
        if member is old:
            kept.member_id = new_id
            kept.session_timeout = request.session_timeout_ms
            kept.rebalance_timeout = request.rebalance_timeout_ms
            kept.subscription = metadata_of(request.protocols, group.protocol)
        stored.append(kept)
    return stored
