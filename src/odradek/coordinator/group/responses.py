"""The responses that several steps of the protocol give."""

from __future__ import annotations

from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.member import Member
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.api.sync_group import SyncGroupResponse

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


def generation_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
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


def assignment_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """What the member has been assigned."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )
