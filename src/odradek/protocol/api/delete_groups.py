"""DeleteGroups (key 42, versions 0 to 3): delete empty groups with their offsets (KIP-229).

- 1 is as 0. 2: flexible. 3: an error message per group.
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@message(api=42, versions=(0, 3), flexible=2)
class DeleteGroupsRequest:
    """Delete groups."""

    groups_names: list[str]


@struct
class DeletableGroupResult:
    """One group."""

    group_id: str
    error_code: i16
    error_message: str | None = field(default=None, since=3, ignorable=True)


@message(api=42, versions=(0, 3), flexible=2)
class DeleteGroupsResponse:
    """Per group, the error or none."""

    throttle_time_ms: i32 = 0
    results: list[DeletableGroupResult]
