"""DeleteAcls: v1-3. SECURITY_DISABLED for each filter, as there is no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.acl_operations import NO_AUTHORIZER, check_known_codes
from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    for each in request.filters:
        check_known_codes(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[]
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
