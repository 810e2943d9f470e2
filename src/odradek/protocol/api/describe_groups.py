"""DescribeGroups (key 15, versions 0 to 6): the state of classic groups, with their members.

- 1: throttle time. 3: authorized operations. 4: instance ids (KIP-345). 5: flexible.
- 6: GROUP_ID_NOT_FOUND with a message for a group that does not exist; before, such a group is
  `Dead` (KIP-1043).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@message(api=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    """Describe groups."""

    groups: list[str]
    include_authorized_operations: bool = field(default=False, since=3)


@struct
class DescribedGroupMember:
    """One member. Only in a stable group does it have metadata and an assignment."""

    member_id: str
    group_instance_id: str | None = field(default=None, since=4, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@struct
class DescribedGroup:
    """One group."""

    error_code: i16
    error_message: str | None = field(default=None, since=6)
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str = field(doc="The chosen protocol, in a stable group only.")
    members: list[DescribedGroupMember]
    authorized_operations: i32 = field(
        default=-(2**31), since=3, doc="Bits; the default where not asked."
    )


@message(api=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse:
    """Per group, its state and members."""

    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    groups: list[DescribedGroup]
