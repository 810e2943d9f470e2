"""LeaveGroup (key 13, versions 0 to 5): members leave before their session times out.

- 1: throttle time. 3: several members at once, each by id or by instance id (KIP-345).
- 4: flexible. 5: `reason` (KIP-800).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class MemberIdentity:
    """One member. An instance id suffices; its member id may then be empty."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = field(default=None, since=5, ignorable=True)


@message(api=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    """Remove members from a group."""

    group_id: str
    member_id: str = field(default="", until=2)
    members: list[MemberIdentity] = field(factory=list, since=3)


@struct
class MemberResponse:
    """The error of removing one member, or none."""

    member_id: str
    group_instance_id: str | None
    error_code: i16


@message(api=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse:
    """The error of the whole group and, from version 3, of each member."""

    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    error_code: i16
    members: list[MemberResponse] = field(factory=list, since=3)
