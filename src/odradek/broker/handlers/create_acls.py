"""CreateAcls: v1-3. SECURITY_DISABLED for each entry, as there is no authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.acl_operations import NO_AUTHORIZER, check_known_codes
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    for each in request.creations:
        check_known_codes(
            each.resource_type, each.resource_pattern_type, each.operation, each.permission_type
        )
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))
