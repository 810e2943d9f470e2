"""The messages of Heartbeat, as classes that compile to native ones: see `hot_messages`.

Their wire form is declared in `api.heartbeat`.
"""

from __future__ import annotations

from odradek.protocol.hot_messages import HotMessage


class HeartbeatRequest(HotMessage):
    """Say that a member of a generation is alive."""

    __slots__ = ("generation_id", "group_id", "group_instance_id", "member_id")

    def __init__(
        self,
        *,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(HotMessage):
    """No error, or why to join again."""

    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, *, throttle_time_ms: int = 0, error_code: int) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
