"""ListGroups (key 16, versions 0 to 5): the groups that this broker coordinates.

- 1: throttle time. 3: flexible. 4: filter by state, state in the response (KIP-518).
- 5: filter by type, type in the response (KIP-848).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i16, i32, message, struct


@message(api=16, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    """List groups; an empty filter matches all."""

    states_filter: list[str] = field(factory=list, since=4)
    types_filter: list[str] = field(factory=list, since=5)


@struct
class ListedGroup:
    """One group."""

    group_id: str
    protocol_type: str
    group_state: str = field(default="", since=4, ignorable=True)
    group_type: str = field(default="", since=5, ignorable=True)


@message(api=16, versions=(0, 5), flexible=3)
class ListGroupsResponse:
    """The groups."""

    throttle_time_ms: i32 = field(default=0, since=1, ignorable=True)
    error_code: i16
    groups: list[ListedGroup]
