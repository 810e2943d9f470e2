"""Sessions: how long a member may be silent (Kafka's DelayedHeartbeat).

Each member, and each id that was given out and not used yet, has one timer. Whatever shows that the
member is alive sets it anew. What its end means stands in `departures`.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.member import Member
from odradek.coordinator.turn import Turn

HEARTBEAT = "heartbeat"
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A new member cannot send heartbeats before its first join is answered. If its client is gone and
comes again under another id, the old one must not wait for ever."""


def watch(turn: Turn, group: ClassicGroup, member: Member) -> None:
    """The member was heard of: its session begins anew."""
    turn.schedule((HEARTBEAT, group.id, member.id), member.session_timeout_ms)


def watch_new(turn: Turn, group: ClassicGroup, member: Member) -> None:
    """The member joins for the first time."""
    turn.schedule((HEARTBEAT, group.id, member.id), NEW_MEMBER_JOIN_TIMEOUT_MS)


def watch_pending(turn: Turn, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
    """An id was given out; its owner has a session's time to join with it."""
    turn.schedule((HEARTBEAT, group.id, member_id), timeout_ms)


def forget(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """The member is gone."""
    turn.cancel((HEARTBEAT, group.id, member_id))
