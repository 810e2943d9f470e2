"""DeleteAcls (key 31, versions 1 to 3): delete the entries that filters match.

- 1 is the floor. 2: flexible. 3: the resource type user (KIP-373).

The codes of types, operations and permissions are those of DescribeAcls.
"""

from __future__ import annotations

from odradek.protocol.schema import i8, i16, i32, message, struct


@struct
class DeleteAclsFilter:
    """One filter; null matches every name."""

    resource_type_filter: i8
    resource_name_filter: str | None
    pattern_type_filter: i8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: i8
    permission_type: i8


@message(api=31, versions=(1, 3), flexible=2)
class DeleteAclsRequest:
    """Delete the entries that any of the filters matches."""

    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    """One entry that a filter matched, and the outcome of its deletion."""

    error_code: i16
    error_message: str | None = None
    resource_type: i8
    resource_name: str
    pattern_type: i8 = 3
    principal: str
    host: str
    operation: i8
    permission_type: i8


@struct
class DeleteAclsFilterResult:
    """The outcome of one filter."""

    error_code: i16
    error_message: str | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


@message(api=31, versions=(1, 3), flexible=2)
class DeleteAclsResponse:
    """Per filter, in the order of the request, what it deleted."""

    throttle_time_ms: i32 = 0
    filter_results: list[DeleteAclsFilterResult]
