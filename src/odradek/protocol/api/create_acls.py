"""CreateAcls (key 30, versions 1 to 3): add entries to access control lists.

- 1 is the floor. 2: flexible. 3: the resource type user (KIP-373).

The codes of types, operations and permissions are those of DescribeAcls.
"""

from __future__ import annotations

from odradek.protocol.schema import i8, i16, i32, message, struct


@struct
class AclCreation:
    """One entry to create."""

    resource_type: i8
    resource_name: str
    resource_pattern_type: i8 = 3
    principal: str
    host: str
    operation: i8
    permission_type: i8


@message(api=30, versions=(1, 3), flexible=2)
class CreateAclsRequest:
    """Create entries."""

    creations: list[AclCreation]


@struct
class AclCreationResult:
    """The outcome of one entry."""

    error_code: i16
    error_message: str | None = None


@message(api=30, versions=(1, 3), flexible=2)
class CreateAclsResponse:
    """Per entry, in the order of the request, the error or none."""

    throttle_time_ms: i32 = 0
    results: list[AclCreationResult]
