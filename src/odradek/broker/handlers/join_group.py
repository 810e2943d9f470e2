"""JoinGroup: v0-9. Responds when the next generation begins: see `coordinator.group.join`.

Version 0 has no rebalance timeout: the session timeout is used. Below version 7 a protocol name
cannot be null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.coordinator.group.member import Caller
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITHOUT_PROTOCOL_NAME = 7


def handle(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> CallbackResponse:
    if context.version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        request.rebalance_timeout_ms = request.session_timeout_ms

    def respond(response: JoinGroupResponse) -> None:
        if response.protocol_name is None and context.version < FIRST_VERSION_WITHOUT_PROTOCOL_NAME:
            # A copy, because the response may be shared with another request.
            response = replace(response, protocol_name="")
        context.respond(response)

    caller = Caller(context.client_id or "", context.client_host, context.version)
    broker.groups.join_group(request, caller, respond)
    return CALLBACK_RESPONSE
