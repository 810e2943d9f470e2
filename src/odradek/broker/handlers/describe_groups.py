"""DescribeGroups: v0-6. See `coordinator.group.listing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.acl_operations import GROUP_OPERATIONS
from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_WITH_MESSAGE = 6


def handle(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> CallbackResponse:
    def respond(response: DescribeGroupsResponse) -> None:
        for group in response.groups:
            if context.version < FIRST_VERSION_WITH_MESSAGE:
                group.error_message = None
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
        context.respond(response)

    broker.groups.describe_groups(request, context.version, respond)
    return CALLBACK_RESPONSE
