"""DescribeAcls: v1-3. SECURITY_DISABLED, as there is no authorizer.

An element of kind 0, which stands for kinds that the client does not know, ends the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.acl_operations import check_known_codes
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    check_known_codes(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
