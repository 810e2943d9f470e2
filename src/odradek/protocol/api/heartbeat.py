"""Heartbeat (key 12, versions 0 to 4): keeps a member's session alive and reports rebalances.

`hot_heartbeat` defines the classes of the messages; this module declares their wire form.

- 1: throttle time. 3: static members (KIP-345). 4: flexible.
"""

from __future__ import annotations

from odradek.protocol.hot_heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.schema import field, i16, i32, message, wire_form

__all__ = ["HeartbeatRequest", "HeartbeatResponse"]


@wire_form(HeartbeatRequest)
@message(api=12, versions=(0, 4), flexible=4)
class HeartbeatRequestForm:
    """Tells the coordinator that a member of a generation is alive."""

    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: str | None = field(default=None, since=3)


@wire_form(HeartbeatResponse)
@message(api=12, versions=(0, 4), flexible=4)
class HeartbeatResponseForm:
    """No error, or the reason to rejoin the group."""

    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    error_code: i16
