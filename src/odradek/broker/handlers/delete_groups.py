"""DeleteGroups: v0-3. Deletes groups without members, with their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.protocol.api.delete_groups import DeleteGroupsRequest

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> CallbackResponse:
    broker.groups.delete_groups(request, context.respond)
    return CALLBACK_RESPONSE
