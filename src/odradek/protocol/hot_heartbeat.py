"""Heartbeat, written by hand: its messages, readers and writers (see `hot_codec`).

The generated codec handles a static member in a version that cannot carry one.
"""

from __future__ import annotations

from typing import Final

from librt.strings import write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64

from odradek.protocol.hot_codec import (
    HotMessage,
    HotReader,
    HotWriter,
    MessageInput,
    MessageOutput,
    UseReference,
)


class HeartbeatRequest(HotMessage):
    """Tells the coordinator that a member of a generation is alive."""

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
    """No error, or the reason to rejoin the group."""

    __slots__ = ("error_code", "throttle_time_ms")

    def __init__(self, *, throttle_time_ms: int = 0, error_code: int) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


FIRST_VERSION_WITH_THROTTLING: Final = 1
FIRST_VERSION_WITH_STATIC_MEMBERS: Final = 3


class HeartbeatRequestReader(HotReader):
    def message(self, source: MessageInput) -> HeartbeatRequest:
        group_id = source.text()
        generation_id = source.int32()
        member_id = source.text()
        instance_id: str | None = None
        if self.version >= FIRST_VERSION_WITH_STATIC_MEMBERS:
            instance_id = source.nullable_text()
        source.skip_tags()
        return HeartbeatRequest(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
        )


class HeartbeatRequestWriter(HotWriter):
    def put(self, target: MessageOutput, message: HeartbeatRequest) -> None:
        knows_static_members = self.version >= FIRST_VERSION_WITH_STATIC_MEMBERS
        if message.group_instance_id is not None and not knows_static_members:
            raise UseReference
        target.text(message.group_id)
        write_i32_be(target.out, i32(message.generation_id))
        target.text(message.member_id)
        if knows_static_members:
            target.nullable_text(message.group_instance_id)
        target.no_tags()


class HeartbeatResponseReader(HotReader):
    def message(self, source: MessageInput) -> HeartbeatResponse:
        throttle_time_ms: i64 = 0
        if self.version >= FIRST_VERSION_WITH_THROTTLING:
            throttle_time_ms = source.int32()
        error_code = source.int16()
        source.skip_tags()
        return HeartbeatResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


class HeartbeatResponseWriter(HotWriter):
    def put(self, target: MessageOutput, message: HeartbeatResponse) -> None:
        if self.version >= FIRST_VERSION_WITH_THROTTLING:
            write_i32_be(target.out, i32(message.throttle_time_ms))
        write_i16_be(target.out, i16(message.error_code))
        target.no_tags()
