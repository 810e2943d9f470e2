"""ListGroups: v0-5. See `coordinator.group.listing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.list_groups import ListGroupsRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> CallbackResponse:
    broker.groups.list_groups(request, context.respond)
    return CALLBACK_RESPONSE
