"""JoinGroup (key 11, versions 0 to 9): become a member of a group's next generation.

- 1: a rebalance timeout apart from the session timeout. 2: throttle time.
- 4: a new member gets MEMBER_ID_REQUIRED and the id to join with (KIP-394).
- 5: static members by `group_instance_id` (KIP-345). 6: flexible.
- 7: the protocol type in the response, a null protocol name (KIP-559). 8: `reason` (KIP-800).
- 9: `skip_assignment`: the leader must not assign again (KIP-814).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class JoinGroupRequestProtocol:
    """One protocol (for a consumer: an assignor) that the member supports."""

    name: str
    metadata: bytes


@message(api=11, versions=(0, 9), flexible=6)
class JoinGroupRequest:
    """Join a group, or rejoin it."""

    group_id: str
    session_timeout_ms: i32
    rebalance_timeout_ms: i32 = field(
        default=-1, since=1, ignorable=True, doc="-1: the session timeout."
    )
    member_id: str = field(doc="Empty for a member that has none yet.")
    group_instance_id: str | None = field(default=None, since=5)
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol] = field(doc="In the member's order of preference.")
    reason: str | None = field(default=None, since=8, ignorable=True)


@struct
class JoinGroupResponseMember:
    """One member and its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None = field(default=None, since=5, ignorable=True)
    metadata: bytes


@message(api=11, versions=(0, 9), flexible=6)
class JoinGroupResponse:
    """The generation; for its leader, also its members."""

    throttle_time_ms: i32 = field(default=0, since=2, ignorable=True)
    error_code: i16
    generation_id: i32 = -1
    protocol_type: str | None = field(default=None, since=7, ignorable=True)
    protocol_name: str | None = field(nullable_since=7)
    leader: str
    skip_assignment: bool = field(default=False, since=9)
    member_id: str
    members: list[JoinGroupResponseMember]
