"""LeaveGroup: v0-5. See `coordinator.group.leave`.

Below version 3 one member leaves, and its error is the error of the response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_WITH_SEVERAL = 3


def handle(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> CallbackResponse:
    if context.version >= FIRST_VERSION_WITH_SEVERAL:
        broker.groups.leave_group(request, context.respond)
        return CALLBACK_RESPONSE

    def respond(response: LeaveGroupResponse) -> None:
        error = response.error_code or next((each.error_code for each in response.members), 0)
        context.respond(LeaveGroupResponse(error_code=error))

    request.members = [MemberIdentity(member_id=request.member_id)]
    broker.groups.leave_group(request, respond)
    return CALLBACK_RESPONSE
