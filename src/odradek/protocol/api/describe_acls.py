"""DescribeAcls (key 29, versions 1 to 3): the access control lists that a filter matches.

- 1 is the floor. 2: flexible. 3: the resource type user (KIP-373).

Resource types: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
Pattern types: 1 any, 2 match, 3 literal, 4 prefixed. Permissions: 1 any, 2 deny, 3 allow.
Operations: 1 any, 2 all, and from 3 on those of `broker.acl_operations`.
"""

from __future__ import annotations

from odradek.protocol.schema import i8, i16, i32, message, struct


@message(api=29, versions=(1, 3), flexible=2)
class DescribeAclsRequest:
    """Describe the lists that match; null matches every name."""

    resource_type_filter: i8
    resource_name_filter: str | None
    pattern_type_filter: i8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: i8
    permission_type: i8


@struct
class AclDescription:
    """One entry of a list."""

    principal: str
    host: str
    operation: i8
    permission_type: i8


@struct
class DescribeAclsResource:
    """One resource with its entries."""

    resource_type: i8
    resource_name: str
    pattern_type: i8 = 3
    acls: list[AclDescription]


@message(api=29, versions=(1, 3), flexible=2)
class DescribeAclsResponse:
    """Per resource, the entries that match."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    resources: list[DescribeAclsResource]
