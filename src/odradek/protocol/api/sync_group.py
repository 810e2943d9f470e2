"""SyncGroup (key 14, versions 0 to 5): the leader sends assignments, each member receives its own.

- 1: throttle time. 3: static members (KIP-345). 4: flexible.
- 5: protocol type and name, which both sides check (KIP-559).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class SyncGroupRequestAssignment:
    """The leader's assignment for one member; opaque to the broker."""

    member_id: str
    assignment: bytes


@message(api=14, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    """Requests the member's assignment; the leader sends those of all members."""

    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: str | None = field(default=None, since=3)
    protocol_type: str | None = field(default=None, since=5, ignorable=True)
    protocol_name: str | None = field(default=None, since=5, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(doc="Empty unless sent by the leader.")


@message(api=14, versions=(0, 5), flexible=4)
class SyncGroupResponse:
    """The member's assignment."""

    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    error_code: i16
    protocol_type: str | None = field(default=None, since=5, ignorable=True)
    protocol_name: str | None = field(default=None, since=5, ignorable=True)
    assignment: bytes
